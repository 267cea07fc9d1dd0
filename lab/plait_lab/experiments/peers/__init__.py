"""Figures 2.7 to 2.10 of the thesis: broker-less peers."""
