"""Chains of brokers, of Plait and others: a publisher at one end, a subscriber at the other, a process for each broker.

`chain` is the interface beyond `competitors.contender`, `catalogue` lists the systems, `trials` measures.
"""
