"""Control traffic and the cost of faults in an overlay of brokers."""
