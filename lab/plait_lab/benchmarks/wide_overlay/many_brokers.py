"""A random overlay of many production brokers, and whether they agree.

Brokers sign nothing here: a process that runs all of them would spend its time on signatures. They read at most every
`READ_S`, so many frames come in one read, as on a busy machine. Their heartbeats are ten times as long as by default.
No cut of a link goes unnoticed here, so the shorter ones would only cost time.
"""

from __future__ import annotations

import resource
import time
from dataclasses import replace
from random import Random
from typing import Final

from ...simulation.overlay.broker_node import OverlayNode
from ...simulation.overlay.network import Link
from ...simulation.overlay.world import SETTINGS, World, WorldTerms

READ_S: Final = 0.005
HEARTBEAT_S: Final = 5.0
DETECT_S: Final = 30.0
DELAYS_S: Final = (0.001, 0.02)
LINKS_A_BROKER: Final = 3


class ManyBrokers:
    """A world of brokers with three links each on average, and the processor time spent on it."""

    def __init__(self, seed: int, brokers: int) -> None:
        settings = replace(SETTINGS, overlay_heartbeat_s=HEARTBEAT_S, overlay_detect_s=DETECT_S)
        self.world = World(seed, brokers=brokers, terms=WorldTerms(settings=settings, logs=lambda number: False))
        self.world.network.read_s = READ_S
        self.rng = Random(f"many brokers/{seed}")
        for near, far in sorted(_draw_links(brokers, self.rng)):
            self.world.link(near, far, self.rng.uniform(*DELAYS_S))
        self._begun_s = time.process_time()

    @property
    def nodes(self) -> list[OverlayNode]:
        return self.world.nodes

    @property
    def links(self) -> list[Link]:
        return self.world.network.links

    @property
    def cpu_s(self) -> float:
        """Processor time since the world was made."""
        return time.process_time() - self._begun_s

    def cut(self, link: Link) -> None:
        """Cut a link: both ends notice at once."""
        self.world.network.cut(link)

    def mend(self, link: Link) -> None:
        """Mend a link. Its broker dials again after a while."""
        self.world.network.mend(link)

    @property
    def same_map(self) -> bool:
        """Whether all brokers run, are linked wherever a link is up, and have the same link states of all."""
        nodes = self.nodes
        if not all(node.broker is not None for node in nodes):
            return False
        if sum(node.links for node in nodes) != 2 * sum(link.up for link in self.links):
            return False
        first = _versions(nodes[0])
        return len(first) == len(nodes) and all(_versions(node) == first for node in nodes)

    @property
    def interest_known(self) -> bool:
        """Whether every broker has the present interest of every other one, and all of it is acked."""
        exported = {node.overlay.me: node.overlay.interest_sync.exported for node in self.nodes}
        every = sum(exported.values())
        for node in self.nodes:
            overlay = node.overlay
            if overlay.interest_sync.pending or not overlay.informed:
                return False
            if overlay.advertisements.fingerprint(overlay.me) and (
                overlay.remote_interest.count != every - exported[overlay.me]
            ):
                return False
        return True

    @property
    def converged(self) -> bool:
        """Whether all brokers have the same map and the interest of all others."""
        return self.same_map and self.interest_known


def memory_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _versions(node: OverlayNode) -> dict[int, int]:
    return {origin: link_state.version for origin, link_state in node.overlay.map.known.items()}


def _draw_links(brokers: int, rng: Random) -> set[tuple[int, int]]:
    """Return the links of a random connected graph."""
    order = list(range(brokers))
    rng.shuffle(order)
    links = {_pair(order[place], order[rng.randrange(place)]) for place in range(1, brokers)}
    most = min(LINKS_A_BROKER * brokers, brokers * (brokers - 1) // 2)
    while len(links) < most:
        links.add(_pair(*rng.sample(range(brokers), 2)))
    return links


def _pair(near: int, far: int) -> tuple[int, int]:
    return min(near, far), max(near, far)
