"""Reliable streams of events between brokers, and control messages from one broker to one other."""
