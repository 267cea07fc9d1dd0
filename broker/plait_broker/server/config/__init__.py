"""The configuration file of a broker: read, checked, and turned into settings."""
