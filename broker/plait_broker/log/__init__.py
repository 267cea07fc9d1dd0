"""The event log: SQLite with group commit, checksums and repair. `event_log` is its face to the server."""
