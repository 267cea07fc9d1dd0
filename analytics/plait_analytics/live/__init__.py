"""Tables that follow telemetry as it grows, by Spark's structured streaming."""
