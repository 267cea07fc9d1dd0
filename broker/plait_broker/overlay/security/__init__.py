"""Keys of brokers, signatures and MACs of documents and messages, and mutual authentication of two brokers."""
