"""Strategies: which copies of an event go out, given the brokers that it must reach. One file for each algorithm."""
