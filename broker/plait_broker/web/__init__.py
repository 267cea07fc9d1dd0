"""The broker's HTTP side: what it says of itself, in JSON, metrics and server-sent events."""
