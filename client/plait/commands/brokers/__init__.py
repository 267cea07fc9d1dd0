"""Commands that start brokers and bridges on this machine."""
