"""One hostile broker among honest ones, on random graphs (SCORECARD S3).

Honest brokers that can reach each other without it must be unaffected: published events arrive once, in order and
unchanged, no others do, and no honest broker is expelled (`honest_oracle.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import networkx as nx

from plait_core.matching import Index, new_index

from ..broker_node import OverlayNode
from ..ground_truth import STEADY_S
from ..random_histories import BROKERS, RandomHistory
from ..world import World, WorldTerms
from .attacks import Attacker
from .honest_oracle import HonestOracle

BEGIN_S: Final = STEADY_S + 0.5
"""Time in which honest brokers know each other, whatever the hostile one does: then events are owed."""

LIFE_S: Final = 12.0
"""Seconds in which clients publish, subscribe and advertise."""

SETTLE_S: Final = 30.0
"""Seconds after that until all is delivered that must be."""

MORE: Final = 40
MORE_S: Final = 8.0
"""Events at the end, and the longest time for their delivery: a round of attempts over all source routes."""

ANYWHERE: Final = 0.3
"""Share of the histories in which the hostile broker may be anywhere. In the others it has transit frames, and honest
brokers reach each other without it, if the graph has such a place."""


class HostileHistory:
    """A history with a hostile broker, and without other faults."""

    def __init__(
        self, seed: int, attack: str, *, brokers: int | None = None, index: Callable[[], Index] = new_index
    ) -> None:
        name = f"hostile/{seed}"
        self.rng = Random(name)
        terms = WorldTerms(signed=True, index=index)
        self.history = RandomHistory(name, brokers=brokers or self.rng.choice(BROKERS), terms=terms)
        self.history.build()
        self.attacker = Attacker(self.world, self._draw_place(), attack)
        self.oracle = HonestOracle(self.world, self.attacker.node)

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    @property
    def due(self) -> int:
        """Number of owed deliveries from one honest broker to another."""
        return sum(one.client.node is not event.client.node for event in self.world.events for one in event.owed)

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, world, history = self.rng, self.world, self.history
        for node in world.nodes:
            world.timeline.at(rng.uniform(0, 0.2), node.start)
        history.add_clients(advertisements_min=1, subscriptions_min=1)
        world.run(BEGIN_S)
        history.publish_within(LIFE_S, rng.randint(60, 200))
        for _ in range(rng.randint(0, 25)):
            world.timeline.after(rng.uniform(0, LIFE_S), history.change)
        world.run(LIFE_S + SETTLE_S)
        for _ in range(MORE):
            history.publish()
        world.run(0.5)
        world.run_until(lambda: not world.oracle.outstanding, MORE_S)
        self.oracle.judge()
        return world.complaints

    def _draw_place(self) -> OverlayNode:
        """Return the broker that is hostile."""
        nodes = self.world.nodes
        graph = nx.Graph([link.ends for link in self.world.network.links])
        cuts = set(nx.articulation_points(graph))
        between = [node for node in nodes if graph.degree(node) > 1 and node not in cuts]
        return self.rng.choice(nodes if not between or self.rng.random() < ANYWHERE else between)


def play_hostile(seed: int, attack: str) -> HostileHistory:
    """Play a seed, and return the history with the complaints of its world."""
    history = HostileHistory(seed, attack)
    history.play()
    return history
