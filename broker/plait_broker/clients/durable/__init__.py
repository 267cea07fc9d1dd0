"""Durable subscriptions: requests, the log that they read, and their deliveries. No I/O."""
