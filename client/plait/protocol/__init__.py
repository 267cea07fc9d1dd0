"""The client's side of the protocol, without I/O: one session over any number of connections."""
