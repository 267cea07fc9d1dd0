"""Keys of brokers, signatures and MACs of what they send, and how two brokers authenticate each other."""
