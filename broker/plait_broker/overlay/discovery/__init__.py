"""Discovery of brokers, authenticated connections between them, and the choice of links. No I/O."""
