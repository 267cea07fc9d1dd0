"""Distant brokers whose maps never agree for long: links are cut and slow down while many events are in flight."""

from __future__ import annotations

from functools import partial
from typing import Final

from ..random_histories import SIGNED, RandomHistory
from ..world import World, WorldTerms

BROKERS: Final = 6
EVENTS: Final = 400
LASTS_S: Final = 8.0
CHANGES: Final = 40


class Flux:
    """A history of six brokers, each with a publisher and a subscriber of everything."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self._faults = faults
        self._history = RandomHistory(
            f"flux/{seed}/{faults}", brokers=BROKERS, terms=WorldTerms(signed=seed % SIGNED == 1)
        )
        self._history.build()
        for link in self.world.network.links:
            link.delay_s = self._history.rng.uniform(0.02, 0.3)

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self._history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        world, rng = self.world, self._history.rng
        world.start()
        for node in world.nodes:
            client = world.client(node.number)
            client.advertise("x >= 0")
            client.subscribe("x >= 0")
        self._history.begin()
        self._history.publish_within(LASTS_S, EVENTS)
        for change in range(CHANGES if self._faults else 0):
            kind = rng.choice(("slow", "slow", "cut"))
            world.timeline.after(change * LASTS_S / CHANGES, partial(self._history.faults.cause, kind))
        world.run(LASTS_S)
        return self._history.conclude()
