"""Live tables, computed from growing telemetry by Spark's structured streaming."""
