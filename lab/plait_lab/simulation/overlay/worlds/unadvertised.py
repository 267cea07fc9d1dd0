"""Clients that publish what they have not advertised, while links and brokers fail and interest grows.

Their brokers infer advertisements from their events: the first event of each kind waits until the other brokers know
the advertisement and have sent their interest in it. Some clients advertise as well.
"""

from __future__ import annotations

from random import Random
from typing import Final

from plait_core import Attributes

from ..faults import FAULTS
from ..random_histories import SIGNED, RandomHistory, draw_event, draw_filter
from ..world import SETTINGS, World, WorldTerms

LIFE_S: Final = 20.0
"""Seconds in which things happen."""

FAULT_COUNTS: Final = (0, 2, 5, 20)
"""Numbers of faults in a history."""

BROKERS: Final = (2, 3, 4, 5)
AWAY_S: Final = (0.2, 1.0, 4.0)
"""Durations of faults."""

KINDS: Final = ("alarm", "order", "quote", "trade")


def draw_event_with_texts(rng: Random) -> Attributes:
    """Draw the attributes of an event of one of several shapes. Inferred advertisements narrow texts."""
    texts = {name: rng.choice(KINDS) for name in ("kind", "source") if rng.random() < 0.5}
    return draw_event(rng) | texts


class Unadvertised:
    """A history of events without advertisements."""

    def __init__(self, seed: int, *, terms: WorldTerms | None = None) -> None:
        self.rng = Random(f"unadvertised/{seed}")
        terms = terms or WorldTerms(SETTINGS, signed=seed % SIGNED == 1)
        brokers = self.rng.choice(BROKERS)
        self.history = RandomHistory(f"unadvertised/{seed}", brokers=brokers, terms=terms, advertised=False)
        self.history.draw_event = draw_event_with_texts
        self.history.build()

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    @property
    def inferred(self) -> int:
        """Number of advertisements that brokers have inferred and other brokers know."""
        alive = {node.overlay.me for node in self.world.nodes}
        first = self.world.nodes[0].overlay
        own = sum(len(client.advertisements) for client in self.world.clients if client.node.number)
        return sum(origin in alive for origin, _ in first.remote_advertisements) - own

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, world = self.rng, self.world
        for node in world.nodes:
            world.timeline.at(rng.uniform(0, 0.2), node.start)
            for _ in range(2):
                world.client(node.number).subscribe(draw_filter(rng))
        self.history.begin()
        steps = (self._subscribe, self._advertise, *[self.history.publish] * 6)
        for _ in range(rng.randint(100, 200)):
            world.timeline.after(rng.uniform(0, LIFE_S), rng.choice(steps))
        for _ in range(rng.choice(FAULT_COUNTS)):
            world.timeline.after(rng.uniform(0, LIFE_S), self._disturb)
        world.run(LIFE_S)
        return self.history.conclude()

    def _subscribe(self) -> None:
        self.rng.choice(self.world.clients).subscribe(draw_filter(self.rng))

    def _advertise(self) -> None:
        self.rng.choice(self.world.clients).advertise(draw_filter(self.rng, wide=True))

    def _disturb(self) -> None:
        self.history.faults.cause(self.rng.choice(FAULTS), self.rng.choice(AWAY_S))
