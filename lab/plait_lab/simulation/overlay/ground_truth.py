"""The ground truth of a simulated overlay: reachability, time since the last change, and interest that must be known.

An event must reach a subscription that was installed, if nothing has changed for a while and there is a path between
the two brokers. It must also reach it if its publisher's broker must once have known that interest, even if they are
partitioned now. Paths are computed by networkx from the simulated links; no table of a broker is used.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import networkx as nx

from ..timeline import Timeline
from .broker_node import OverlayNode
from .frame_client import FrameAdvertisement, FrameSubscription
from .network import OverlayNetwork

CALM_S: Final = 6.0
"""Seconds without a change after which dead links are detected (3 s) and all present brokers are informed."""

HEARTBEAT_S: Final = 0.5
ROUNDS: Final = 3
"""Heartbeats after the last change until tables are right, besides the transit of frames."""

TRIPS: Final = 4
"""Transits of the overlay until tables are right: link state, interest update, ack, and one in reserve."""

STEADY_S: Final = 12.0
"""Time after which both ends of a path know each other's interest if nothing on the path has changed: they have
redialled, and nothing else has changed for `CALM_S`."""

RELINK_S: Final = 6.0
"""Brokers notice the begin and the end of a partition so much later than it happens: detection, and redialling."""


class GroundTruth:
    """The ground truth of one history."""

    def __init__(
        self, timeline: Timeline, network: OverlayNetwork, nodes: Sequence[OverlayNode], *, forget_s: float
    ) -> None:
        """`forget_s`: the time after which brokers forget each other, where histories last that long; else inf."""
        self.changed_at = 0.0
        """Time at which a link or a broker last came up, went down, or became slower."""
        self._changes: list[float] = []
        """Times of all changes, in order."""
        self.distrusted: set[OverlayNode] = set()
        """Brokers on no path that events must find: hostile ones. Set it before the brokers start."""
        self._timeline = timeline
        self._network = network
        self._nodes = nodes
        self._forget_s = forget_s
        self._graph: nx.Graph | None = None
        self._distances: dict[OverlayNode, dict[OverlayNode, float]] = {}
        self._known: set[tuple[object, ...]] = set()
        """Pairs of an advertisement and a filter, with their brokers and lives, that must have met."""
        self._apart: dict[tuple[OverlayNode, OverlayNode], float] = {}
        """Pairs of brokers without a path, and since when."""
        self._absences: dict[tuple[OverlayNode, OverlayNode], float] = {}
        """Pairs of brokers that were apart for so long that they may have forgotten each other, and until when."""

    def change(self) -> None:
        """Note that a broker or a link changes now."""
        self.changed_at = self._timeline.now
        self._changes.append(self.changed_at)
        self._graph = None
        self._distances.clear()
        if self._forget_s < float("inf"):
            self._note_absences()

    @property
    def calm(self) -> bool:
        """Whether nothing has changed for `CALM_S`."""
        return self._timeline.now - self.changed_at >= CALM_S

    def changed_within(self, since: float, for_s: float) -> bool:
        """Return whether something has changed in a time after a moment."""
        at = bisect_left(self._changes, since)
        return at < len(self._changes) and self._changes[at] <= since + for_s

    @property
    def settled_at(self) -> float:
        """Time at which tables must be right if nothing changes any more."""
        farthest_s = max(max(self.distances(node).values(), default=0.0) for node in self._nodes)
        return self.changed_at + ROUNDS * HEARTBEAT_S + TRIPS * farthest_s

    @property
    def graph(self) -> nx.Graph:
        """The trusted brokers that run and the sound links between them, with their delays."""
        if self._graph is None:
            graph = self._graph = nx.Graph()
            graph.add_nodes_from(node for node in self._nodes if node.runs and node not in self.distrusted)
            for link in self._network.links:
                near, far = link.ends
                if link.sound and near in graph and far in graph:
                    graph.add_edge(near, far, weight=link.delay_s + link.control_wait_s, link=link)
        return self._graph

    def distances(self, node: OverlayNode) -> dict[OverlayNode, float]:
        """Return the brokers that a broker can reach, itself included, each with its distance in seconds."""
        graph = self.graph
        found = self._distances.get(node)
        if found is None:
            found = dict(nx.single_source_dijkstra_path_length(graph, node)) if node in graph else {}
            self._distances[node] = found
        return found

    def owes(
        self, root: OverlayNode, advertisements: Sequence[FrameAdvertisement], subscription: FrameSubscription
    ) -> bool:
        """Return whether an event of these advertisements must be sent to this subscription now."""
        home = subscription.client.node
        if home is root:
            return True
        pairs = [
            (root, root.lives, one, one.filter, home.lives, subscription, subscription.filter) for one in advertisements
        ]
        if (self.calm and home in self.distances(root)) or self._steady(root, home):
            self._known.update(pairs)
            return True
        return self._forget_s == float("inf") and not self._known.isdisjoint(pairs)

    def _steady(self, root: OverlayNode, home: OverlayNode) -> bool:
        """Return whether there is a path on which nothing has changed for `STEADY_S`, whatever happens elsewhere."""
        before = self._timeline.now - STEADY_S
        graph = self.graph
        if root not in graph or home not in graph:
            return False
        steady = nx.subgraph_view(
            graph,
            filter_node=lambda node: node.changed_at <= before,
            filter_edge=lambda near, far: graph[near][far]["link"].changed_at <= before,
        )
        return root in steady and home in steady and nx.has_path(steady, root, home)

    def may_have_forgotten(self, root: OverlayNode, home: OverlayNode, since: float) -> bool:
        """Return whether two brokers were apart for so long, since this time, that events for one may be given up."""
        apart_since = self._apart.get((root, home))
        now = self._timeline.now
        if apart_since is not None and now - apart_since >= self._forget_s - RELINK_S:
            return True
        return self._absences.get((root, home), -1.0) >= since

    def _note_absences(self) -> None:
        now, apart = self._timeline.now, self._apart
        for node in self._nodes:
            reached = self.distances(node)
            for other in self._nodes:
                pair = (node, other)
                if other not in reached:
                    apart.setdefault(pair, now)
                elif pair in apart and now - apart.pop(pair) >= self._forget_s - RELINK_S:
                    self._absences[pair] = now + RELINK_S
