"""The groups of `make bench`."""
