"""The simulator: production protocol objects on virtual time, over a network and disks with faults drawn from a seed.

`one_broker` plays a broker with clients, `overlay` plays several brokers, `peers` plays peers. Oracles check the
histories by brute force. `python -m plait_lab.simulation --seed S` replays one.
"""
