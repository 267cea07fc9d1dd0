"""Brokers of production code in an overlay on virtual time, with faults, attackers and an oracle."""
