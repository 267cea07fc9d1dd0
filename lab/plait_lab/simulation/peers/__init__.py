"""Peers of production code on virtual time."""
