"""Brokers in a row, Plait's and others': a publisher at one end, a subscriber at the other, every broker a process.

`chain` is what the harness asks of a system beyond `rivals.contender`, `catalogue` has them all, `trials` measures.
"""
