"""Telemetry of a broker: records of its pipeline, periodic samples, and the system stream."""
