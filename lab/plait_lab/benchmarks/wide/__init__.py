"""One production broker's overlay in a simulated overlay of up to 1,000 brokers: what it costs that broker."""
