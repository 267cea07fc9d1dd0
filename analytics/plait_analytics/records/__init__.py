"""Recorded telemetry: found, read, counted and compacted."""
