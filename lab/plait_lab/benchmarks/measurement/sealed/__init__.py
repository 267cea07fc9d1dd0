"""Sealed events: single operations, timing of refusals, and a key server under load."""
