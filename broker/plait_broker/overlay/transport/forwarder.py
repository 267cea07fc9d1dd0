"""Copies of events: sent at the root as the strategy plans, received, and sent on at every hop.

Each copy names the destinations that it alone is responsible for, with their positions and MACs. At a fork they are
partitioned. Brokers on the way keep no state. Retransmissions follow shortest paths under every strategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from plait_core.limits import PATH_MAX
from plait_core.wire import Destination, EventFrame, Forward

from ..dissemination.shortest_paths import ShortestPaths
from ..dissemination.strategy import DisseminationStrategy, Envelope, Topology, check_plan
from ..host import Host
from ..security.identity import Forged
from ..topology.neighbours import Neighbour
from ..topology.source_routes import DELAY_US_MAX


class Forwarder:
    """Sends and relays the copies of one broker."""

    def __init__(
        self,
        host: Host,
        topology: Topology,
        neighbours: dict[int, Neighbour],
        strategy: DisseminationStrategy,
        shortest_paths: ShortestPaths,
        counts: Counter[str],
    ) -> None:
        self.counts = counts
        self.last_hop: dict[int, int] = {}
        """By destination of this broker's own streams, the neighbour that got the last copy."""
        self._me = topology.me
        self._root_path = (topology.me,)
        self._host = host
        self._topology = topology
        self._neighbours = neighbours
        self._strategy = strategy
        self._shortest_paths = shortest_paths

    def publish(self, frame: EventFrame, delay_us: int, flags: int, to: Sequence[Destination], now: float) -> None:
        """Send an event of this broker's clients, as the configured strategy plans."""
        self._disseminate(self._strategy, frame, 0, delay_us, flags, (), to, now)

    def retransmit(self, frame: EventFrame, delay_us: int, flags: int, to: Destination, now: float) -> None:
        """Retransmit an event to one destination, by the shortest path."""
        self._disseminate(self._shortest_paths, frame, 0, delay_us, flags, (), (to,), now)

    def accept(
        self, frame: Forward, sender: int, link_us: int
    ) -> tuple[int, Destination | None, Sequence[Destination]]:
        """Check a copy from a neighbour. Return its age in microseconds, this broker's own entry among its destinations
        if there is one, and the other destinations. Raise Forged if no honest broker sends such a copy.
        """
        path, to, me = frame.path, frame.destinations, self._me
        if not path or path[-1] != sender or (me in path and self._strategy.loop_free):
            raise Forged("an event over a path that it cannot have taken")
        delay_us = frame.delay_us + link_us
        if delay_us > DELAY_US_MAX:
            delay_us = DELAY_US_MAX
        if len(to) == 1:  # the common case
            return (delay_us, to[0], ()) if to[0][0] == me else (delay_us, None, to)
        for at, destination in enumerate(to):
            if destination[0] == me:
                return delay_us, destination, [*to[:at], *to[at + 1 :]]
        return delay_us, None, to

    def pass_on(self, frame: Forward, delay_us: int, to: Sequence[Destination], now: float) -> None:
        """Send a neighbour's copy on to its other destinations, unless its lifetime is over."""
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self.counts["expired"] += 1
            self._host.ended(frame, delay_us, to, "expired")
        else:
            strategy = self._strategy if frame.tree else self._shortest_paths
            self._disseminate(strategy, frame, frame.tree, delay_us, frame.flags, frame.path, to, now)

    def _disseminate(
        self,
        strategy: DisseminationStrategy,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        to: Sequence[Destination],
        now: float,
    ) -> None:
        if strategy.independent and len(to) == 1:  # without a plan: most events take this path
            neighbour = strategy.next_hop(to[0][0], path)
            if neighbour is None:
                self.counts["no_way"] += 1
            else:
                assert neighbour not in path, "no event visits a broker twice for one destination"
                self._send(neighbour, frame, 0, delay_us, flags, path, to)
            return
        envelope = Envelope(frame, path[0] if path else self._me, tree, delay_us, flags, path)
        plan = strategy.plan(envelope, to, now)
        check_plan(plan, envelope, to, self._topology if strategy.loop_free else None)
        self.counts["no_way"] += len(plan.unreachable)
        for copy in plan.links:
            self._send(copy.neighbour, frame, copy.tree, delay_us, flags, path, copy.destinations)

    def _send(
        self,
        neighbour: int,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        to: Sequence[Destination],
    ) -> None:
        if not path:
            for destination in to:
                self.last_hop[destination[0]] = neighbour
        if len(path) >= PATH_MAX:
            self.counts["no_way"] += 1
            return
        link = self._neighbours[neighbour]
        link.sent += 1
        passed = (*path, self._me) if path else self._root_path
        self._host.forward(link.link, frame, tree, delay_us, flags, passed, to)
