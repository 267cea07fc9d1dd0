"""The broker's HTTP server: status as JSON, metrics, server-sent events and the live page."""
