"""Brokers of production code in an overlay on virtual time, with faults, enemies and an oracle."""
