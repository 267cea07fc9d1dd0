"""Whole overlays of up to a thousand production brokers on virtual time."""
