"""Sealed events: timing of refusals, and a key server under load."""
