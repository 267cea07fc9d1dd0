"""One application at the peers of its process: its session, its publisher and its subscriptions. No I/O."""
