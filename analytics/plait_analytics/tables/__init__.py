"""Tables of telemetry, each one SQL text, and the files that keep them."""
