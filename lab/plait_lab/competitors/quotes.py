"""The events of the benchmarks: quotes of 128 bytes with three attributes, and filters of known selectivity.

Contenders with attributes get them, and a payload that fills up to 128 bytes. Contenders without get 128 bytes that
contain them, packed beforehand and never unpacked, so an application's cost is not charged to a competitor.
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
"""Prices of a selective interest: with its symbol, one event in a hundred."""

EVERYTHING: Final = "symbol startswith 'S' and 0.0 <= price < 1000.0 and volume >= 100"
"""A filter that evaluates all three attributes of every event, and matches."""

Attributes: TypeAlias = dict[str, str | float | int]


@dataclass(frozen=True, slots=True)
class Quote:
    """One event, independent of a contender's format."""

    symbol: str
    price: float
    volume: int

    @property
    def attributes(self) -> Attributes:
        return {"symbol": self.symbol, "price": self.price, "volume": self.volume}

    def payload(self, stamp: bytes) -> bytes:
        """Return the payload for contenders with attributes."""
        return stamp.ljust(EVENT_BYTES - len(self._packed()), b"x")

    def body(self, stamp: bytes) -> bytes:
        """Return the whole event for contenders without attributes."""
        return (stamp + self._packed()).ljust(EVENT_BYTES, b"x")

    def text(self, phase: int) -> bytes:
        """Return the event in printable characters of the same size. It ends with its phase, to be counted unparsed."""
        return f"{self.symbol} {self.price} {self.volume}".ljust(EVENT_BYTES - 1, "x").encode() + closing(phase)

    def _packed(self) -> bytes:
        packed: bytes = msgpack.packb(self.attributes)
        return packed


@dataclass(frozen=True, slots=True)
class QuoteFilter:
    """The interest of a selective subscriber: one symbol in ten, a tenth of the prices."""

    symbol: str
    low: float

    @property
    def high(self) -> float:
        return self.low + PRICE_WIDTH

    @property
    def filter(self) -> str:
        """The interest in Plait's filter language."""
        return f"symbol == '{self.symbol}' and {self.low} <= price < {self.high}"

    @property
    def selector(self) -> str:
        """The interest as a JMS selector."""
        return f"symbol = '{self.symbol}' AND price >= {self.low} AND price < {self.high}"


def quotes(seed: int, count: int = CYCLE) -> list[Quote]:
    """Return the events of a run."""
    rng = random.Random(seed)
    return [
        Quote(rng.choice(SYMBOLS), round(rng.uniform(0, PRICE_MAX - 0.01), 2), rng.randrange(100, 100_000))
        for _ in range(count)
    ]


def interests(seed: int, count: int) -> list[QuoteFilter]:
    """Return selective interests, distinct but for chance."""
    rng = random.Random(seed + 1)
    lows = [round(rng.uniform(0, PRICE_MAX - PRICE_WIDTH), 2) for _ in range(count)]
    return [QuoteFilter(SYMBOLS[number % len(SYMBOLS)], low) for number, low in enumerate(lows)]


def matches(events: Sequence[Quote], filters: Sequence[QuoteFilter]) -> list[int]:
    """Return for each event the number of interests that it matches."""
    lows = {symbol: _lows(filters, symbol) for symbol in SYMBOLS}
    highs = {symbol: lows[symbol] + PRICE_WIDTH for symbol in SYMBOLS}
    return [
        int(np.count_nonzero((lows[event.symbol] <= event.price) & (event.price < highs[event.symbol])))
        for event in events
    ]


def same_symbol(events: Sequence[Quote], filters: Sequence[QuoteFilter]) -> list[int]:
    """Return for each event the number of interests in its symbol: the deliveries of a topic for each symbol."""
    lengths = {symbol: len(_lows(filters, symbol)) for symbol in SYMBOLS}
    return [lengths[event.symbol] for event in events]


def _lows(filters: Sequence[QuoteFilter], symbol: str) -> NDArray[np.float64]:
    return np.array([interest.low for interest in filters if interest.symbol == symbol], np.float64)
