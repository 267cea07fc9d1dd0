"""`plait chaos`: shapes links and harms brokers."""
