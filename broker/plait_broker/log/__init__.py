"""The event log on disk: a SQLite database, with the lock and the repairs around it."""
