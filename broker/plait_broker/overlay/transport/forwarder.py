"""Copies of events: sent at the root as the strategy plans, received, and sent on at every hop.

Each copy names the destinations that it alone is responsible for, with their positions and MACs. At a fork they are
partitioned. Brokers on the way keep no state. Retransmissions follow shortest paths under every strategy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from plait_core.limits import PATH_MAX
from plait_core.wire import Destination, Forward

from ..dissemination.shortest_paths import ShortestPaths
from ..dissemination.strategy import DisseminationStrategy, Envelope, EnvelopeFields, Topology, check_plan
from ..outputs import CopyDropped, Output
from ..security.identity import Forged
from ..topology.neighbours import Neighbour
from ..topology.source_routes import DELAY_US_MAX
from .event_copy import CopyRun


class Forwarder:
    """Sends and relays the copies of one broker."""

    def __init__(
        self,
        topology: Topology,
        neighbours: dict[int, Neighbour],
        strategy: DisseminationStrategy,
        shortest_paths: ShortestPaths,
        outputs: list[Output],
        runs: dict[int, CopyRun],
        counts: Counter[str],
    ) -> None:
        """`runs`: the latest run of copies for each link, while it is among the outputs."""
        self.counts = counts
        self.last_hop: dict[int, int] = {}
        """By destination of this broker's own streams, the neighbour that got the last copy."""
        self._me = topology.me
        self._root_path = (topology.me,)
        self._topology = topology
        self._neighbours = neighbours
        self.strategy = strategy
        """The configured strategy: it plans the events of this broker's clients."""
        self._shortest_paths = shortest_paths
        self._outputs = outputs
        self._runs = runs

    def neighbour_towards(self, home: int) -> Neighbour | None:
        """Return the neighbour that got the last copy of a stream of this broker, if it is one still."""
        return self._neighbours.get(self.last_hop.get(home, 0))

    def retransmit(self, envelope: EnvelopeFields, to: Destination, now: float) -> None:
        """Retransmit an event to one destination, by the shortest path."""
        self.disseminate(self._shortest_paths, envelope, (to,), now)

    def accept(
        self, frame: Forward, sender: int, link_us: int
    ) -> tuple[int, Destination | None, Sequence[Destination]]:
        """Check a copy from a neighbour. Return its age in microseconds, this broker's own entry among its destinations
        if there is one, and the other destinations. Raise Forged if no honest broker sends such a copy.
        """
        path, to, me = frame.path, frame.destinations, self._me
        if not path or path[-1] != sender or (me in path and self.strategy.loop_free):
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
            self._drop(frame, delay_us, to, "expired")
            return
        strategy = self.strategy if frame.tree else self._shortest_paths
        path = frame.path
        envelope = (frame, path[0], frame.tree, delay_us, frame.flags, path)
        forbidden = self.disseminate(strategy, envelope, to, now)
        if forbidden:
            self._drop(frame, delay_us, forbidden, "forbidden")

    def _drop(self, frame: Forward, delay_us: int, to: Sequence[Destination], reason: str) -> None:
        self.counts[reason] += 1
        self._outputs.append(CopyDropped(frame, delay_us, to, reason))

    def disseminate(
        self, strategy: DisseminationStrategy, fields: EnvelopeFields, to: Sequence[Destination], now: float
    ) -> Sequence[Destination]:
        """Send the copies of an event as a strategy plans. Return the destinations that no permitted path reaches."""
        if strategy.independent and len(to) == 1:  # without a plan: most events take this path
            path = fields[-1]
            neighbour = strategy.next_hop(to[0][0], path)
            if neighbour is None:
                self.counts["no_way"] += 1
            else:
                assert neighbour not in path, "no event visits a broker twice for one destination"
                self._send(neighbour, fields, 0, to, now)
            return ()
        envelope = Envelope(*fields)
        plan = strategy.plan(envelope, to, now)
        check_plan(plan, envelope, to, self._topology if strategy.loop_free else None)
        self.counts["no_way"] += len(plan.unreachable)
        for copy in plan.links:
            self._send(copy.neighbour, envelope, copy.tree, copy.destinations, now)
        members = [destination for cast in plan.groups for destination in cast.destinations]
        if members:  # no socket serves a multicast group yet, so these copies go over links
            self.disseminate(self._shortest_paths, envelope, members, now)
        return plan.forbidden

    def _send(self, neighbour: int, envelope: EnvelopeFields, tree: int, to: Sequence[Destination], now: float) -> None:
        frame, _, _, delay_us, flags, path = envelope
        if not path:
            for destination in to:
                self.last_hop[destination[0]] = neighbour
        if len(path) >= PATH_MAX:
            self.counts["no_way"] += 1
            return
        link = self._neighbours[neighbour]
        link.sent += 1
        passed = (*path, self._me) if path else self._root_path
        run = self._runs.get(link.link)
        if run is None or run.at != now:
            run = self._runs[link.link] = CopyRun(link.link, now)
            self._outputs.append(run)
        run.copies.append((frame, tree, delay_us, flags, passed, to))
        if flags:
            run.flags |= flags
