"""The ground truth of a simulated overlay: reachability, time since the last change, and interest that must be known.

An event must reach a broker whose interest in it was installed, if nothing has changed for a while and there is a path
between the two. It must also reach it if its publisher's broker must once have known that interest, even if they are
partitioned now. The overlay's own tables are not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ..timeline import Timeline

CALM_S: Final = 6.0
"""Seconds without a change after which dead links are detected (3 s) and all present brokers are informed."""

HEARTBEAT_S: Final = 0.5
ROUNDS: Final = 3
"""Heartbeats after the last change until tables are right, besides the transit of frames."""

TRIPS: Final = 4
"""Transits of the overlay until tables are right: link state, interest update, ack, and one in reserve."""


class GraphNode(Protocol):
    """A broker, as far as the ground truth depends on it."""

    @property
    def lives(self) -> int: ...
    @property
    def runs(self) -> bool: ...


class GraphLink(Protocol):
    """A link, as far as the ground truth depends on it."""

    @property
    def ends(self) -> tuple[GraphNode, GraphNode]: ...
    @property
    def delay_s(self) -> float: ...
    @property
    def up(self) -> bool: ...
    @property
    def silent(self) -> frozenset[int]: ...


class SimulatedGraph(Protocol):
    """A world, as far as the ground truth depends on it."""

    @property
    def timeline(self) -> Timeline: ...
    @property
    def nodes(self) -> Sequence[GraphNode]: ...
    @property
    def pipes(self) -> Sequence[GraphLink]: ...


class BareGroundTruth:
    """The ground truth of one history."""

    def __init__(self, world: SimulatedGraph, *, forgets: bool) -> None:
        """`forgets`: whether brokers are absent for so long that others may forget them."""
        self._world = world
        self._forgets = forgets
        self.changed_at = 0.0
        """Time at which a link or a broker last came up, went down, or became slower."""
        self._known: set[tuple[GraphNode, int, GraphNode, int, int, int]] = set()
        """Pairs of an advertisement and an interest, with their brokers and incarnations, that must have met."""

    def change(self) -> None:
        """Record that something changes now."""
        self.changed_at = self._world.timeline.now

    @property
    def calm(self) -> bool:
        """Whether nothing has changed for `CALM_S`."""
        return self._world.timeline.now - self.changed_at >= CALM_S

    @property
    def settled_at(self) -> float:
        """Time at which tables must be right if nothing changes any more."""
        return self.changed_at + ROUNDS * HEARTBEAT_S + TRIPS * max(map(self._farthest_s, self._world.nodes))

    def reached(self, node: GraphNode) -> set[GraphNode]:
        """Return the brokers that a broker can reach, itself included."""
        return set(self._distances(node))

    def owes(self, root: GraphNode, home: GraphNode, advertisements: list[int], interests: list[int]) -> bool:
        """Return whether an event of these advertisements must be sent to these interests now."""
        pairs = {
            (root, root.lives, home, home.lives, advertisement, interest)
            for advertisement in advertisements
            for interest in interests
        }
        if self.calm and home in self.reached(root):
            self._known |= pairs
            return bool(pairs)
        return not self._forgets and not pairs.isdisjoint(self._known)

    def _farthest_s(self, node: GraphNode) -> float:
        return max(self._distances(node).values())

    def _distances(self, node: GraphNode) -> dict[GraphNode, float]:
        """Return distances in seconds, by Bellman and Ford's algorithm, independently of the code under test."""
        found = {node: 0.0} if node.runs else {}
        for _ in self._world.nodes:
            for pipe in self._world.pipes:
                if _leads(pipe):
                    for near, far in (pipe.ends, pipe.ends[::-1]):
                        way_s = found.get(near, float("inf")) + pipe.delay_s
                        if way_s < found.get(far, float("inf")):
                            found[far] = way_s
        return found or {node: 0.0}


def _leads(pipe: GraphLink) -> bool:
    return pipe.up and not pipe.silent and all(node.runs for node in pipe.ends)
