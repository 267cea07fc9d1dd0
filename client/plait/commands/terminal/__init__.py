"""Shared parts of all commands: options, output, errors, signals."""
