"""Algorithm 1 of the TID paper, as printed, on the tables of section 3.1. For comparison in the laboratory.

It takes the link of least delay among all trees, even if the link leads back. So it can loop. Of several subscriptions
that choose one neighbour, only the first names the tree of the copy, and the neighbour may not know the others under
that tree. So it can lose events. Retransmission by shortest paths repairs both, unless it is off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from plait_core.errors import FrameError
from plait_core.values import Attributes
from plait_core.wire import Destination

from .strategy import Action, BrokerId, Envelope, InterestView, LinkCopy, Plan, Topology, TreeId
from .tid_tables import Prt, TreeTables


class PaperTid:
    """Publication routing path selection, as printed."""

    name: ClassVar[str] = "paper-tid"
    loop_free: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    passive: ClassVar[bool] = False

    def __init__(self, topology: Topology, interest: InterestView) -> None:
        self.tables = TreeTables(topology, interest)
        self.counts = self.tables.counts
        self._topology = topology

    def plan(self, envelope: Envelope, to: Sequence[Destination], now: float) -> Plan:
        """Run Algorithm 1. The numbers in the comments are its lines."""
        try:
            attributes = envelope.frame.attributes()
        except FrameError:
            return Plan(unreachable=to)
        trees = [envelope.tree] if envelope.tree else self._trees_of(attributes)
        delays = self._topology.neighbours(self._topology.me)
        route: dict[BrokerId, tuple[TreeId, list[Destination]]] = {}  # 1
        unreachable: list[Destination] = []
        for destination in to:
            subscription = self._matching(destination[0], trees, attributes)  # 2, 3
            hops = {} if subscription is None else subscription.last_hops
            paths = [(tree, hop.neighbour) for tree, hop in hops.items()]  # 4
            links = [(delays[hop], tree, hop) for tree, hop in paths if hop in delays]  # 5
            if not links:
                unreachable.append(destination)
                continue
            _, tree, next_hop = min(links)  # 6
            if next_hop not in route:  # 7
                route[next_hop] = (tree, [])  # 8-10
            route[next_hop][1].append(destination)
        copies = [LinkCopy(neighbour, named, tree) for neighbour, (tree, named) in route.items()]
        return Plan(copies, unreachable=unreachable)  # 13

    def _trees_of(self, attributes: Attributes) -> list[TreeId]:
        """Return the first tree of this broker's advertisements that an event matches, if there is one."""
        srt = self.tables.srt
        return [tree for tree in self.tables.own_trees() if srt[tree].filter.matches(attributes)][:1]

    def _matching(self, home: BrokerId, trees: list[TreeId], attributes: Attributes) -> Prt | None:
        """Return the first subscription of a home broker that is known under the tree and matches the event."""
        for entry in self.tables.subscriptions(home):
            if any(tree in entry.last_hops for tree in trees) and entry.filter.matches(attributes):
                return entry
        return None

    def next_hop(self, to: BrokerId, passed: Sequence[BrokerId]) -> BrokerId | None:
        return None  # never called: the next hop depends on the event

    def topology_changed(self, now: float) -> None:
        self.tables.topology_changed(now)

    def interest_changed(self, broker: BrokerId, now: float) -> None:
        if broker == self._topology.me:
            self.tables.interest_changed(now)

    def receive_control(self, source: BrokerId, body: bytes, now: float) -> None:
        self.tables.receive(source, body)

    def tick(self, now: float) -> None:
        self.tables.tick(now)

    def next_deadline(self) -> float | None:
        return self.tables.next_deadline()

    def take_actions(self) -> Sequence[Action]:
        return self.tables.take_actions()
