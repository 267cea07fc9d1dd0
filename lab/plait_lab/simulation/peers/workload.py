"""The workloads of thesis 2.8.1: subscriptions and delay bounds.

WL1 spreads subscriptions evenly; WL2 gathers 80% of them around 4 to 6 hot spots of Zipfian popularity. Attributes are
integers of [1, 128]. Subscriptions are boxes whose sides end on a grid, so that their exact mapping has few sub-spaces;
a finer grid gives more (figure 2.9). Delay bounds are in hops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from random import Random
from typing import Final

from plait_core.space import DzSet, IntRange, Region, Schema
from plait_core.space.boxes import Interval

LOWEST: Final = 1
HIGHEST: Final = 128
BITS: Final = 7


class PeerSpread(StrEnum):
    """The distribution of subscriptions and events in the event space."""

    UNIFORM = "wl1"
    SKEWED = "wl2"


class Bounds(StrEnum):
    """The tightness of delay bounds (2.8.5)."""

    MODERATE = "s1"
    TIGHT = "s2"


@dataclass(frozen=True)
class PeerWorkload:
    """The parameters of a group's interests and events."""

    spread: PeerSpread = PeerSpread.UNIFORM
    attributes: int = 2
    grid_bits: int = 3
    """Sides end at multiples of 128 / 2^grid_bits."""
    side_bits: tuple[int, ...] = (1, 2, 3)
    """Times that a side is halved against the domain, drawn evenly; its lower end then lies on the grid."""
    aligned: bool = False
    """Whether each box is about one sub-space of the tree."""
    bounds: tuple[int, ...] = (4, 5, 6, 7, 8, 9, 10)
    hot_spots: int = 5
    seed: int = 0

    @cached_property
    def schema(self) -> Schema:
        """The event space."""
        return Schema.of({f"a{i}": IntRange(LOWEST, HIGHEST) for i in range(self.attributes)})

    @property
    def depth(self) -> int:
        """Bits of the sub-spaces on the grid."""
        return self.attributes * self.grid_bits

    @cached_property
    def spots(self) -> tuple[tuple[float, ...], ...]:
        """Centres of the hot spots, far from each other."""
        rng = Random(f"spots/{self.seed}/{self.hot_spots}/{self.attributes}")
        found: list[tuple[float, ...]] = []
        for _ in range(self.hot_spots):
            drawn = [tuple(rng.uniform(0.1, 0.9) for _ in range(self.attributes)) for _ in range(20)]
            found.append(max(drawn, key=lambda place: min((_distance(place, spot) for spot in found), default=1.0)))
        return tuple(found)

    def subscription(self, rng: Random) -> DzSet:
        """Draw a subscription, mapped exactly."""
        centre = self._point(rng)
        cells = 1 << self.grid_bits
        box: dict[str, Interval] = {}
        for name, at in zip(self.schema.names, centre, strict=True):
            side = max(1, cells >> rng.choice(self.side_bits))
            first = min(max(int(at * cells) - side // 2, 0), cells - side)
            if self.aligned:
                first -= first % side
            step = (HIGHEST - LOWEST + 1) // cells
            box[name] = Interval(LOWEST + first * step, LOWEST + (first + side) * step - 1)
        return Region.of(self.schema, [box], self.depth).exact()

    def bound(self, rng: Random) -> float:
        """Draw a delay bound."""
        return float(rng.choice(self.bounds))

    def event(self, rng: Random) -> str:
        """Draw an event and return its finest sub-space."""
        point = self._point(rng)
        attributes = {
            name: LOWEST + int(at * (HIGHEST - LOWEST + 1)) for name, at in zip(self.schema.names, point, strict=True)
        }
        return self.schema.locate(attributes, self.depth).text

    def _point(self, rng: Random) -> Sequence[float]:
        """Draw a point of the unit cube: anywhere, or near a hot spot."""
        if self.spread is PeerSpread.UNIFORM or rng.random() < 0.2:
            return [rng.random() for _ in range(self.attributes)]
        weights = [1 / (place + 1) for place in range(self.hot_spots)]
        (spot,) = rng.choices(self.spots, weights)
        return [min(max(rng.gauss(at, 0.08), 0.0), 0.999999) for at in spot]


def _distance(one: Sequence[float], other: Sequence[float]) -> float:
    return math.dist(one, other)
