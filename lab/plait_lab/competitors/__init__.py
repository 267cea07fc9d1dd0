"""Plait beside the brokers that a Python user could choose instead: one harness, an adapter for each, separate
processes.

A trial starts a server, its subscribers and a publisher, each a process. They share `SharedCounters`, so a contender
carries nothing but the events. `python -m plait_lab.competitors install` installs the contenders.
"""
