"""The events of these benchmarks: quotes of 128 bytes with three attributes, and filters on them of known selectivity.

Whoever has attributes gets them, and a payload that fills up to 128 bytes; whoever has none gets 128 bytes that hold
them, packed beforehand, and nobody unpacks them: what that costs an application is not counted against a rival.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgpack  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from .stamps import CYCLE, closing

EVENT_BYTES: Final = 128
SYMBOLS: Final = tuple(f"S{number}" for number in range(10))
PRICE_MAX: Final = 1000.0
PRICE_WIDTH: Final = 100.0
"""Of a selective interest: with its symbol, one event in a hundred."""

EVERYTHING: Final = "symbol startswith 'S' and 0.0 <= price < 1000.0 and volume >= 100"
"""A filter that looks at all three attributes of every event, and matches."""

Attributes: TypeAlias = dict[str, str | float | int]


@dataclass(frozen=True, slots=True)
class Quote:
    """One event, before it is put into a contender's form."""

    symbol: str
    price: float
    volume: int

    @property
    def attributes(self) -> Attributes:
        return {"symbol": self.symbol, "price": self.price, "volume": self.volume}

    def payload(self, stamp: bytes) -> bytes:
        """What goes beside the attributes where a contender has attributes."""
        return stamp.ljust(EVENT_BYTES - len(self._packed()), b"x")

    def body(self, stamp: bytes) -> bytes:
        """The whole event where a contender has no attributes."""
        return (stamp + self._packed()).ljust(EVENT_BYTES, b"x")

    def text(self, phase: int) -> bytes:
        """The same size in printable characters, closed by its phase: to be counted without being parsed."""
        return f"{self.symbol} {self.price} {self.volume}".ljust(EVENT_BYTES - 1, "x").encode() + closing(phase)

    def _packed(self) -> bytes:
        packed: bytes = msgpack.packb(self.attributes)
        return packed


@dataclass(frozen=True, slots=True)
class QuoteFilter:
    """What one selective subscriber wants: one symbol in ten, a tenth of the prices."""

    symbol: str
    low: float

    @property
    def high(self) -> float:
        return self.low + PRICE_WIDTH

    @property
    def filter(self) -> str:
        """In Plait's language."""
        return f"symbol == '{self.symbol}' and {self.low} <= price < {self.high}"

    @property
    def selector(self) -> str:
        """In that of JMS."""
        return f"symbol = '{self.symbol}' AND price >= {self.low} AND price < {self.high}"


def quotes(seed: int, count: int = CYCLE) -> list[Quote]:
    """The events of a run."""
    rng = random.Random(seed)
    return [
        Quote(rng.choice(SYMBOLS), round(rng.uniform(0, PRICE_MAX - 0.01), 2), rng.randrange(100, 100_000))
        for _ in range(count)
    ]


def interests(seed: int, count: int) -> list[QuoteFilter]:
    """Selective interests, no two alike but by chance."""
    rng = random.Random(seed + 1)
    lows = [round(rng.uniform(0, PRICE_MAX - PRICE_WIDTH), 2) for _ in range(count)]
    return [QuoteFilter(SYMBOLS[number % len(SYMBOLS)], low) for number, low in enumerate(lows)]


def matches(events: Sequence[Quote], wanted: Sequence[QuoteFilter]) -> list[int]:
    """For each event, how many interests it is of."""
    lows = {symbol: _lows(wanted, symbol) for symbol in SYMBOLS}
    highs = {symbol: lows[symbol] + PRICE_WIDTH for symbol in SYMBOLS}
    return [
        int(np.count_nonzero((lows[event.symbol] <= event.price) & (event.price < highs[event.symbol])))
        for event in events
    ]


def same_symbol(events: Sequence[Quote], wanted: Sequence[QuoteFilter]) -> list[int]:
    """For each event, how many interests are in its symbol: what a topic for each symbol would deliver."""
    lengths = {symbol: len(_lows(wanted, symbol)) for symbol in SYMBOLS}
    return [lengths[event.symbol] for event in events]


def _lows(wanted: Sequence[QuoteFilter], symbol: str) -> NDArray[np.float64]:
    return np.array([interest.low for interest in wanted if interest.symbol == symbol], np.float64)
