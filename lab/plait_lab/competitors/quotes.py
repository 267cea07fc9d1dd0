"""The events of the benchmarks: quotes of 128 bytes with three attributes, and filters of known selectivity.

Contenders with attributes get them, and a payload of random bytes that fills up to 128 bytes. Contenders without get
128 bytes that contain them, packed beforehand and never unpacked, so an application's cost is not charged to a
competitor. A contender with topics has one for each symbol and each hundred of the price, the best taxonomy that one of
its users would choose: an interest is two topics.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgpack  # type: ignore[import-untyped]
import numpy as np
from numpy.typing import NDArray

from .stamps import CYCLE, closing

EVENT_BYTES: Final = 128
SYMBOLS: Final = tuple(f"S{number}" for number in range(10))
PRICE_MAX: Final = 1000.0
PRICE_WIDTH: Final = 100.0
"""Prices of a selective interest: with its symbol, one event in a hundred. Also the prices of one topic."""
OTHER_SYMBOL: Final = "T"
"""The first letter of symbols that no event has."""
PRINTABLE: Final = (string.ascii_letters + string.digits + "$%&*+-./=_").encode()
"""Bytes of a random filler that may stand in the frames of any text protocol."""

EVERYTHING: Final = "symbol startswith 'S' and 0.0 <= price < 1000.0 and volume >= 100"
"""A filter that evaluates all three attributes of every event, and matches."""

_TO_PRINTABLE: Final = bytes(PRINTABLE[byte % len(PRINTABLE)] for byte in range(256))

Attributes: TypeAlias = dict[str, str | float | int]


@dataclass(frozen=True, slots=True)
class Quote:
    """One event, independent of a contender's format."""

    symbol: str
    price: float
    volume: int
    filler: bytes
    """Random bytes, as many as the event has."""

    @property
    def topic(self) -> tuple[str, int]:
        """The topic of the best taxonomy: the symbol and the hundreds of the price."""
        return self.symbol, int(self.price // PRICE_WIDTH)

    @property
    def attributes(self) -> Attributes:
        return {"symbol": self.symbol, "price": self.price, "volume": self.volume}

    def payload(self, stamp: bytes) -> bytes:
        """Return the payload for contenders with attributes."""
        return self._filled(stamp, len(self.filler) - len(self._packed()))

    def body(self, stamp: bytes) -> bytes:
        """Return the whole event for contenders without attributes."""
        return self._filled(stamp + self._packed(), len(self.filler))

    def text(self, phase: int) -> bytes:
        """Return the event in printable characters of the same size. It begins with its topic, and ends with its phase,
        to be counted unparsed."""
        symbol, hundreds = self.topic
        begin = f"{symbol} {hundreds} {self.price} {self.volume} ".encode()
        return self.printable(begin, len(self.filler) - 1) + closing(phase)

    def printable(self, begin: bytes, size: int) -> bytes:
        """Return `begin` with random printable characters after it, up to a size."""
        return begin + self.filler[len(begin) : size].translate(_TO_PRINTABLE)

    def _filled(self, begin: bytes, size: int) -> bytes:
        return begin + self.filler[len(begin) : size]

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
    def topics(self) -> list[tuple[str, int]]:
        """The topics that contain the interest: one, or two neighbouring ones."""
        first = int(self.low // PRICE_WIDTH)
        return [(self.symbol, first)] + [(self.symbol, first + 1)] * (self.low % PRICE_WIDTH > 0)

    @property
    def filter(self) -> str:
        """The interest in Plait's filter language."""
        return f"symbol == '{self.symbol}' and {self.low} <= price < {self.high}"

    @property
    def selector(self) -> str:
        """The interest as a JMS selector."""
        return f"symbol = '{self.symbol}' AND price >= {self.low} AND price < {self.high}"


def quotes(seed: int, count: int = CYCLE, event_bytes: int = EVENT_BYTES) -> list[Quote]:
    """Return the events of a run."""
    rng = random.Random(seed)
    return [
        Quote(
            rng.choice(SYMBOLS),
            round(rng.uniform(0, PRICE_MAX - 0.01), 2),
            rng.randrange(100, 100_000),
            rng.randbytes(event_bytes),
        )
        for _ in range(count)
    ]


def interests(seed: int, count: int) -> list[QuoteFilter]:
    """Return selective interests, distinct but for chance."""
    rng = random.Random(seed + 1)
    lows = [round(rng.uniform(0, PRICE_MAX - PRICE_WIDTH), 2) for _ in range(count)]
    return [QuoteFilter(SYMBOLS[number % len(SYMBOLS)], low) for number, low in enumerate(lows)]


def other_interests(seed: int, count: int) -> list[QuoteFilter]:
    """Return interests that no event matches, each in a symbol of its own."""
    return [
        replace(interest, symbol=f"{OTHER_SYMBOL}{number}") for number, interest in enumerate(interests(seed, count))
    ]


def matches(events: Sequence[Quote], filters: Sequence[QuoteFilter]) -> list[int]:
    """Return for each event the number of interests that it matches."""
    lows = {symbol: _lows(filters, symbol) for symbol in SYMBOLS}
    highs = {symbol: lows[symbol] + PRICE_WIDTH for symbol in SYMBOLS}
    return [
        int(np.count_nonzero((lows[event.symbol] <= event.price) & (event.price < highs[event.symbol])))
        for event in events
    ]


def same_topic(events: Sequence[Quote], filters: Sequence[QuoteFilter]) -> list[int]:
    """Return for each event the number of interests that have its topic: the deliveries of a server with topics."""
    subscribed = Counter(topic for interest in filters for topic in interest.topics)
    return [subscribed[event.topic] for event in events]


def _lows(filters: Sequence[QuoteFilter], symbol: str) -> NDArray[np.float64]:
    return np.array([interest.low for interest in filters if interest.symbol == symbol], np.float64)
