"""Incidents of one broker: what its operator should know, recorded when it happens. No I/O."""
