"""One broker with its clients on virtual time: network, disk, faults, recorder and oracle."""
