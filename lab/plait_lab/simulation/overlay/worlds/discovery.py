"""Brokers that find each other: they are configured with the addresses of seeds alone, and choose their links.

    discovery = Discovery(20, seed=1)                  # the first broker is the seed of all
    discovery.start()
    discovery.world.run(20.0)
    assert discovery.connected

Brokers are on a plane, and any two may connect: the delay between them is their distance. Everything else is up to
them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from math import hypot
from random import Random
from typing import Final

import networkx as nx

from plait_broker.settings import LinkSettings

from ..broker_node import OverlayNode
from ..network import Link
from ..world import LINKED, World, WorldTerms, address_of

NEAREST_S: Final = 0.0002
FARTHEST_S: Final = 0.05
"""Delay between two brokers at one place, and between opposite corners of the plane."""

DEGREE: Final = 3
LINKS_MAX: Final = 8
"""Links that each broker wants, and beyond which it closes some."""


class Discovery:
    """Brokers, their places and partitions."""

    def __init__(self, brokers: int, *, seed: int, seeds: int = 1) -> None:
        """The first `seeds` brokers are the seeds of all."""
        self.rng = Random(f"discovery/{seed}")
        linking = LinkSettings(seeds=tuple(map(address_of, range(seeds))), degree=DEGREE, links_max=LINKS_MAX)
        terms = WorldTerms(replace(LINKED.settings, linking=linking), signed=True, logs=lambda number: False)
        self.world = World(f"discovery/{seed}", brokers=brokers, terms=terms)
        places = {node: (self.rng.random(), self.rng.random()) for node in self.world.nodes}
        for near, far in combinations(self.world.nodes, 2):
            (x, y), (other_x, other_y) = places[near], places[far]
            delay_s = NEAREST_S + FARTHEST_S * hypot(x - other_x, y - other_y) / hypot(1, 1)
            self.world.network.add_link(near, far, delay_s)

    def start(self, within_s: float = 2.0) -> None:
        """Start all brokers at random times."""
        for node in self.world.nodes:
            self.world.timeline.after(self.rng.uniform(0, within_s), node.start)

    def partition(self, nodes: Iterable[OverlayNode]) -> None:
        """Partition these brokers from the others. Half of the links between them break, and refuse new connections;
        nothing passes the others, and nobody notices at once."""
        side = set(nodes)
        for link in self.world.network.links:
            if (link.ends[0] in side) == (link.ends[1] in side):
                continue
            if self.rng.random() < 0.5:
                self.world.network.cut(link)
            else:
                self.world.network.silence(link)
        self.world.truth.change()

    def heal(self) -> None:
        """End all partitions. Connections have not survived them."""
        for link in self.world.network.links:
            if not link.sound:
                self.world.network.mend(link, reset=True)
        self.world.truth.change()

    # --- their graph --------------------------------------------------------------------------------------------------

    @property
    def alive(self) -> list[OverlayNode]:
        """The brokers that run."""
        return [node for node in self.world.nodes if node.runs]

    @property
    def graph(self) -> nx.Graph:
        """The links that both ends have, and nothing has broken."""
        ids = {node.overlay.me: node for node in self.alive}
        graph = nx.Graph()
        graph.add_nodes_from(self.alive)
        for me, node in ids.items():
            for neighbour in node.overlay.neighbours:
                other = ids.get(neighbour)
                if other is not None and me in other.overlay.neighbours and self._link(node, other).sound:
                    graph.add_edge(node, other)
        return graph

    @property
    def islands(self) -> list[list[str]]:
        """The names of the brokers in each connected component."""
        return sorted(sorted(node.name for node in island) for island in nx.connected_components(self.graph))

    @property
    def degrees(self) -> list[int]:
        """The number of links of each broker."""
        graph = self.graph
        return [graph.degree(node) for node in self.alive]

    @property
    def connected(self) -> bool:
        """Whether the link-state databases of all brokers have paths to all brokers that run."""
        ids = {node.overlay.me for node in self.alive}
        return all(ids <= set(node.overlay.map.distances(node.overlay.me)) for node in self.alive)

    def _link(self, near: OverlayNode, far: OverlayNode) -> Link:
        link = self.world.network.link(near, far)
        assert link is not None, "any two may connect"
        return link
