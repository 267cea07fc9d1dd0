"""Plait next to the brokers that a Python user could pick instead: one harness, an adapter each, separate processes.

A trial starts a server, its subscribers and a publisher, each a process of its own, which share a `SharedCounters` of
counters; so no contender carries more than the events. `python -m plait_lab.competitors install` brings what is
measured beside Plait.
"""
