"""Hostile brokers in the world of production brokers: outsiders that change what they relay, and insiders with keys."""
