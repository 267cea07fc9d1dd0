"""Finds the broker that a command uses, and connects to it."""
