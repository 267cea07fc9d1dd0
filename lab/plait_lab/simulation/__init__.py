"""The simulator: production protocol objects on virtual time, over a network and disks that fail as drawn from a seed.

`stage.py` plays stories; `swarm.py` plays whole histories drawn from seeds, which `oracle.py` judges by brute force.
`python -m plait_lab.simulation --seed S` replays one.
"""
