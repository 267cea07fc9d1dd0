"""A key server: its directory, its audit log and its process."""
