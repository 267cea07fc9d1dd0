"""Topology churn (SCORECARD F14): every five seconds a broker leaves or joins, while events and interest go on.

A leaving broker is killed; a joining one is new or returns. At the end all are present. Departures may partition the
others for longer than they remember each other; only then may waiting events be given up.
"""

from __future__ import annotations

from random import Random
from typing import Final

from ..random_histories import BROKERS, SIGNED, RandomHistory
from ..world import World, WorldTerms

BEGIN_S: Final = 8.0
EVERY_S: Final = 5.0
TURNS: Final = 24
"""Turns in two minutes: six times as long as brokers remember a departed one."""
EVENTS: Final = 250
ALIVE_MIN: Final = 2


class Churn:
    """A history of churn."""

    def __init__(self, seed: int, *, brokers: int | None = None, terms: WorldTerms | None = None) -> None:
        self.seed = seed
        self.turns = 0
        """Brokers that left or joined."""
        self.rng = Random(f"churn/{seed}")
        terms = terms or WorldTerms(signed=seed % SIGNED == 1, forgets=True)
        self.history = RandomHistory(f"churn/{seed}", brokers=brokers or self.rng.choice(BROKERS), terms=terms)
        self.history.build()

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, history, world = self.rng, self.history, self.world
        for node in world.nodes:
            if rng.random() < 0.8 or node.number < ALIVE_MIN:  # the others join later
                world.timeline.at(rng.uniform(0, 0.2), node.start)
        history.add_clients(advertisements_min=1)
        world.run(BEGIN_S)
        lasts = TURNS * EVERY_S
        for turn in range(TURNS):
            world.timeline.after(turn * EVERY_S, self._turn)
        history.publish_within(lasts, EVENTS)
        for _ in range(rng.randint(0, 30)):
            world.timeline.after(rng.uniform(0, lasts), history.change)
        world.run(lasts)
        return history.conclude()

    def _turn(self) -> None:
        node = self.rng.choice(self.world.nodes)
        alive = sum(one.broker is not None for one in self.world.nodes)
        if node.broker is None:
            node.start()
        elif alive > ALIVE_MIN:
            node.kill()
        else:
            return
        self.turns += 1
