"""Which peers a peer knows and connects to: gossip, parents, children, and the detection of cycles (Algorithm 1)."""
