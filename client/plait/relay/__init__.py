"""A TCP relay that adds delay, jitter, loss and bandwidth limits to a link: for tests, the demo and `plait chaos`."""
