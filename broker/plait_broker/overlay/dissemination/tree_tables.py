"""The TID paper's tables with a correction: only feasible links of the trees are used.

Each hop is strictly closer to the destination, so copies cannot loop, and at a fork the destinations are partitioned.
Where the tables give no feasible link (a tree is being flooded, or leads another way), the destination takes the best
feasible link of the topology. So every guarantee of shortest paths holds with any content of the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from plait_core.wire import Destination

from .paper_tid import PaperTid
from .strategy import BrokerId, Envelope, LinkCopy, Plan, TreeId


class TreeTablesStrategy(PaperTid):
    """Copies over the fastest feasible link that a tree gives."""

    name: ClassVar[str] = "tree-tables"
    loop_free: ClassVar[bool] = True

    def plan(self, envelope: Envelope, to: Sequence[Destination], now: float) -> Plan:
        route: dict[BrokerId, tuple[TreeId, list[Destination]]] = {}
        unreachable: list[Destination] = []
        for destination in to:
            choice = self._choose(destination[0], envelope.path)
            if choice is None:
                unreachable.append(destination)
            else:
                neighbour, tree = choice
                route.setdefault(neighbour, (tree, []))[1].append(destination)
        copies = [LinkCopy(neighbour, named, tree) for neighbour, (tree, named) in route.items()]
        return Plan(copies, unreachable=unreachable)

    def _choose(self, home: BrokerId, path: Sequence[BrokerId]) -> tuple[BrokerId, TreeId] | None:
        """Return the next hop for a home broker, and the tree that gives it, or 0 if none does."""
        trees = self.tables.hops(home)
        hops = [hop.neighbour for hop in self._topology.next_hops(home, path)]
        for hop in hops:
            if hop in trees:
                return hop, trees[hop]
        return (hops[0], 0) if hops else None
