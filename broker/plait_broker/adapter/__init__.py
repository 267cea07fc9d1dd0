"""Between clients and overlay: the adapter that carries out the overlay's outputs, and what waits for other brokers."""
