"""The configuration of a broker: read, checked, and turned into settings."""
