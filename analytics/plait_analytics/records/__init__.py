"""Recorded telemetry: finding, reading, counting and compacting it."""
