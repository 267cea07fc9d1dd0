"""The default strategy: each destination over the feasible neighbour with the fastest path (`ForwardingTable`).

The remaining cost falls at every hop, so copies cannot loop. At a fork the destinations are partitioned over the
neighbours, so exactly one copy serves each destination.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from plait_core.wire import Destination

from .strategy import Action, BrokerId, Envelope, InterestView, LinkCopy, Plan, Topology


class ShortestPaths:
    """Shortest paths by measured delays."""

    name: ClassVar[str] = "shortest-paths"
    loop_free: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    passive: ClassVar[bool] = True

    def __init__(self, topology: Topology, interest: InterestView) -> None:
        self.next_hop = topology.next_hop
        """Bound once: it runs for every event."""
        self.counts: Counter[str] = Counter()

    def plan(self, envelope: Envelope, to: Sequence[Destination], now: float) -> Plan:
        by: dict[BrokerId, list[Destination]] = {}
        unreachable: list[Destination] = []
        path = envelope.path
        for destination in to:
            neighbour = self.next_hop(destination[0], path)
            if neighbour is None:
                unreachable.append(destination)
            else:
                by.setdefault(neighbour, []).append(destination)
        return Plan([LinkCopy(neighbour, named) for neighbour, named in by.items()], unreachable=unreachable)

    def topology_changed(self, now: float) -> None:
        pass

    def interest_changed(self, broker: BrokerId, now: float) -> None:
        pass

    def receive_control(self, source: BrokerId, body: bytes, now: float) -> None:
        pass

    def tick(self, now: float) -> None:
        pass

    def next_deadline(self) -> float | None:
        return None

    def take_actions(self) -> Sequence[Action]:
        return ()
