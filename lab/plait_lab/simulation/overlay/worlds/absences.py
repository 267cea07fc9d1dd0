"""Absences so long that brokers are forgotten: events, a minute and a half with outages, and events again.

In `Returns` a broker returns just when the others are about to forget it, so that some have and some have not.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from ..oracle import TableOracle
from ..random_histories import BROKERS, SIGNED, RandomHistory, draw_filter
from ..world import FORGET_S, SETTINGS, World, WorldTerms

EVENTS: Final = 60
EVENTS_S: Final = 1.2

ABSENCES_S: Final = 60.0
CHANGES_S: Final = 90.0
LASTS_S: Final = 115.0
"""The last absence begins before the first of these times, the last change of interest before the second."""

HEARTBEAT_S: Final = 60.0
"""Interval of pings to clients. A broker that was paused for three of them closes its clients' connections."""

KINDS: Final = ("pause", "pause", "crash", "partition", "cut", "silence")

RETURNS: Final = 4


class Absences:
    """A history of random absences."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self._faults = faults
        self._history = _history(f"absences/{seed}/{faults}", seed, BROKERS[seed % len(BROKERS)])
        self._history.build()

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self._history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        history, world, rng = self._history, self.world, self._history.rng
        for node in world.nodes:
            world.timeline.at(rng.uniform(0.0, 0.2), node.start)
        history.add_clients()
        history.begin()
        history.publish_within(EVENTS_S, EVENTS)
        world.run(EVENTS_S + 5.0)
        for _ in range(rng.randint(1, 4) if self._faults else 0):
            lasts_s = rng.uniform(10.0, 50.0)
            world.timeline.after(
                rng.uniform(0.0, ABSENCES_S), partial(history.faults.cause, rng.choice(KINDS), lasts_s)
            )
        for _ in range(rng.randint(0, 10)):
            world.timeline.after(rng.uniform(0.0, CHANGES_S), history.change)
        world.run(LASTS_S)
        return history.conclude()


class Returns:
    """A chain whose last broker is cut off repeatedly, about as long as it takes to be forgotten."""

    def __init__(self, seed: int, *, faults: bool = True) -> None:
        self._faults = faults
        self._history = _history(f"returns/{seed}/{faults}", seed, 4)
        self._links = [self.world.link(near, near + 1, 0.01) for near in range(3)]

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self._history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        history, world, rng = self._history, self.world, self._history.rng
        for node in world.nodes:
            world.timeline.at(rng.uniform(0.0, 0.5), node.start)
            client = world.client(node.number)
            client.advertise(draw_filter(rng, wide=True))
            client.subscribe(draw_filter(rng))
        history.begin()
        for _ in range(RETURNS if self._faults else 0):
            history.faults.cut(self._links[-1], FORGET_S - 0.3 + rng.uniform(0.0, 1.0))
            world.run(FORGET_S + 10.0)
            TableOracle(world.nodes, world.clients, world.network, world.complain).judge()
        return history.conclude()


def _history(name: str, seed: int, brokers: int) -> RandomHistory:
    settings = replace(SETTINGS, heartbeat_s=HEARTBEAT_S)
    return RandomHistory(name, brokers=brokers, terms=WorldTerms(settings, signed=seed % SIGNED == 1, forgets=True))
