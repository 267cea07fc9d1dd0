"""Thousands of peers without brokers on virtual time: thesis 2.8 played by the protocol objects of `plait_peer`.

`world.py` lets time pass and frames travel, `workload.py` draws who wants what, `structure.py` judges from outside what
has come of it, `faults.py` and `liars.py` make it hard. `python -m plait_lab.peers figure27` regenerates a figure.
"""
