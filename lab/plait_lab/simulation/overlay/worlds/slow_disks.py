"""Random histories in which disks are slow: brokers are killed with events that they have received and not stored."""

from __future__ import annotations

from typing import Final

from ..custody_oracle import CustodyOracle
from ..random_histories import BROKERS, SIGNED, RandomHistory, draw_filter
from ..world import World, WorldTerms

SLOW_S: Final = 0.05
"""Longest time added to each write of a disk; on some nothing is added."""


class SlowDisks:
    """A history of brokers with logs. Each has a durable subscription besides its other ones."""

    def __init__(self, seed: int, *, faults: bool = True, narrow: bool = False) -> None:
        """`narrow`: links have bandwidths, and bursts fill them."""
        name = f"slow-disks/{seed}/{faults}"
        terms = WorldTerms(signed=seed % SIGNED == 1, logs=lambda number: True)
        self._faults = faults
        self._history = RandomHistory(name, brokers=BROKERS[seed % len(BROKERS)], terms=terms)
        self._history.build()
        if narrow:
            self._history.narrow_links(faults=faults)
        self.custody = CustodyOracle(self.world)

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self._history.world

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng = self._history.rng
        for node in self.world.nodes:
            assert node.disk is not None
            node.disk.terms.slow_s = rng.choice((0.0, SLOW_S * rng.random()))
            client = self.world.client(node.number)
            client.advertise(draw_filter(rng, wide=True))
            client.subscribe(draw_filter(rng), durable=client.name)
        return self._history.play(faults=self._faults)
