"""Seeded workloads for the matching index: filters that are conjunctions of ranges and equalities, and events.

A workload is drawn once from a generator and is then a pure value: the same generator gives the same filters and
events. Filters are stored as arrays (`Rows`) and converted to `Filter`s on demand, so that a million of them needs tens
of megabytes, and so that scans and oracles can compare numbers independently of Plait.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from plait_core.filters import EVERYTHING, Attribute, Filter
from plait_core.values import Attributes

Ints: TypeAlias = NDArray[np.int32]
Ids: TypeAlias = NDArray[np.int64]

ABSENT: Final = -(2**31)
"""The code of an attribute that an event lacks. It matches only filters without this attribute."""
LOWEST: Final = ABSENT + 1
"""A low bound that admits every value."""
HIGHEST: Final = 2**31 - 1
"""A high bound that admits every value."""

_CHUNK: Final = 20_000
"""Rows drawn at a time where the draw needs a number for every dimension."""
_EVENTS_CHUNK: Final = 1024


@dataclass(frozen=True, slots=True)
class Dimension:
    """An attribute whose values are coded as small integers, so that numpy can compare them."""

    name: str
    texts: tuple[str, ...] = ()
    """The values, if they are texts, at the positions of their codes."""
    scale: int = 1
    """Values are `code / scale`; 1 keeps them integers."""

    def value(self, code: int) -> int | float | str:
        """Return the value of a code."""
        if self.texts:
            return self.texts[code]
        return code if self.scale == 1 else code / self.scale


@dataclass(frozen=True, slots=True)
class Rows:
    """Filters as numbers: row i requires `low <= value <= high` on each of its dimensions."""

    dims: NDArray[np.int16]
    """Positions of dimensions, (filters, atoms); -1 where a row has fewer."""
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.dims)


class Space(Protocol):
    """The distribution of filters and events."""

    @property
    def dimensions(self) -> tuple[Dimension, ...]: ...

    def rows(self, count: int, rng: Generator) -> Rows:
        """Draw filters."""
        ...

    def points(self, count: int, rng: Generator) -> Ints:
        """Draw events as codes, (events, dimensions), ABSENT where an event lacks the attribute."""
        ...


@dataclass(frozen=True)
class Workload:
    """Filters under shuffled ids, and any number of events. The i-th filter has `ids[i]` and is row i."""

    name: str
    space: Space
    rows: Rows
    ids: Ids
    seed: int
    """The seed of later draws (events, successors)."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        return self.space.dimensions

    def filters(self) -> Iterator[Filter]:
        """Yield the filters, created one at a time."""
        attributes = [Attribute(dimension.name) for dimension in self.dimensions]
        for start in range(0, len(self.rows), _CHUNK):
            stop = start + _CHUNK
            chunk = (self.rows.dims[start:stop], self.rows.low[start:stop], self.rows.high[start:stop])
            for row in zip(*(array.tolist() for array in chunk), strict=True):
                yield self._filter(attributes, zip(*row, strict=True))

    def subscriptions(self) -> Iterator[tuple[int, Filter]]:
        """Yield ids with their filters, created one at a time."""
        return zip(self.ids.tolist(), self.filters(), strict=True)

    def points(self, count: int, stream: int = 0) -> Iterator[Ints]:
        """Yield the events of `events(count, stream)` as codes."""
        rng = np.random.default_rng([self.seed, stream])
        for start in range(0, count, _EVENTS_CHUNK):
            yield from self.space.points(_EVENTS_CHUNK, rng)[: count - start]

    def events(self, count: int, stream: int = 0) -> Iterator[Attributes]:
        """Yield events. The same stream gives the same events for any count."""
        makers = [(dimension.name, dimension.value) for dimension in self.dimensions]
        for point in self.points(count, stream):
            codes = zip(makers, point.tolist(), strict=True)
            yield {name: value(code) for (name, value), code in codes if code != ABSENT}

    def successor(self, generation: int) -> Workload:
        """Return other filters under other ids for the same events: the replacements of a turnover."""
        rng = np.random.default_rng([self.seed, generation, 1])
        count = len(self)
        return replace(self, rows=self.space.rows(count, rng), ids=_new_ids(count, rng))

    def dense(self) -> tuple[Ints, Ints]:
        """Return low and high bounds, (dimensions, filters); ABSENT to HIGHEST where a filter has no atom."""
        shape = (len(self.dimensions), len(self))
        low, high = np.full(shape, ABSENT, np.int32), np.full(shape, HIGHEST, np.int32)
        for dims, lows, highs in zip(self.rows.dims.T, self.rows.low.T, self.rows.high.T, strict=True):
            (there,) = np.nonzero(dims >= 0)
            low[dims[there], there] = lows[there]
            high[dims[there], there] = highs[there]
        return low, high

    def _filter(self, attributes: list[Attribute], atoms: Iterator[tuple[int, int, int]]) -> Filter:
        parts = [_atom(attributes[d], self.dimensions[d], low, high) for d, low, high in atoms if d >= 0]
        return reduce(and_, parts) if parts else EVERYTHING


def _atom(attribute: Attribute, dimension: Dimension, low: int, high: int) -> Filter:
    if low == high:
        return attribute == dimension.value(low)
    if low == LOWEST:
        return attribute <= dimension.value(high)
    if high == HIGHEST:
        return attribute >= dimension.value(low)
    return attribute.between(dimension.value(low), dimension.value(high))


# --- W1: ranges, every attribute in every event -----------------------------------------------------------------------

_W1_VALUES: Final = 1_000_000


@dataclass(frozen=True)
class RangeSpace:
    """Closed ranges of one width on some of the attributes; values are uniform."""

    dimensions: tuple[Dimension, ...]
    atoms: int
    width: int
    """Values in a range."""

    def rows(self, count: int, rng: Generator) -> Rows:
        low = rng.integers(0, _W1_VALUES - self.width, (count, self.atoms), np.int32, endpoint=True)
        return Rows(_choose(rng, count, len(self.dimensions), self.atoms), low, low + np.int32(self.width - 1))

    def points(self, count: int, rng: Generator) -> Ints:
        return rng.integers(0, _W1_VALUES, (count, len(self.dimensions)), np.int32)


def w1(count: int, rng: Generator, *, name: str = "W1", atoms: int = 5, width: float = 0.10) -> Workload:
    """20 attributes, all in every event; closed ranges of `width` of the domain on `atoms` of them."""
    dimensions = tuple(map(Dimension, _names(rng, 20)))
    return _workload(name, RangeSpace(dimensions, atoms, round(width * _W1_VALUES)), count, rng)


def w1b(count: int, rng: Generator) -> Workload:
    """W1 with ranges of 25%."""
    return w1(count, rng, name="W1b", width=0.25)


def w1c(count: int, rng: Generator) -> Workload:
    """W1 with ten ranges of 50% a filter."""
    return w1(count, rng, name="W1c", atoms=10, width=0.50)


# --- W2: many attributes, few of them in an event ---------------------------------------------------------------------

_W2_VALUES: Final = 100


@dataclass(frozen=True)
class SparseSpace:
    """100 attributes of 100 values; an event has 30, a filter five: a fifth equalities, else <=, >=, between."""

    dimensions: tuple[Dimension, ...]
    atoms: int = 5
    event_size: int = 30
    equalities: float = 0.20

    def rows(self, count: int, rng: Generator) -> Rows:
        shape = (count, self.atoms)
        ends = np.sort(rng.integers(0, _W2_VALUES, (*shape, 2), np.int32), axis=2)
        drawn = rng.integers(0, _W2_VALUES, shape, np.int32)
        kind = np.where(rng.random(shape) < self.equalities, 3, rng.integers(0, 3, shape))
        low = np.choose(kind, [np.int32(LOWEST), drawn, ends[:, :, 0], drawn])
        high = np.choose(kind, [drawn, np.int32(HIGHEST), ends[:, :, 1], drawn])
        return Rows(_choose(rng, count, len(self.dimensions), self.atoms), low, high)

    def points(self, count: int, rng: Generator) -> Ints:
        codes = np.full((count, len(self.dimensions)), ABSENT, np.int32)
        there = _choose(rng, count, len(self.dimensions), self.event_size).astype(np.intp)
        np.put_along_axis(codes, there, rng.integers(0, _W2_VALUES, there.shape, np.int32), axis=1)
        return codes


def w2(count: int, rng: Generator) -> Workload:
    """100 attributes, 30 of them in an event; five predicates of four kinds in a filter."""
    return _workload("W2", SparseSpace(tuple(map(Dimension, _names(rng, 100)))), count, rng)


# --- W3: a stock market -----------------------------------------------------------------------------------------------

_SYMBOLS: Final = 5000
_EXCHANGES: Final = 12
_SECTORS: Final = 11
_VENUES: Final = 1000
_VOLUMES: Final = 1_000_000
_SWING: Final = 0.10
"""Relative deviation of a price from its symbol's reference, either way."""

_W3_NAMES: Final = ("symbol", "price", "volume", "exchange", "side", "sector", "venue")
_W3_EQUALITIES: Final = frozenset({"symbol", "exchange", "side", "sector"})


@dataclass(frozen=True)
class StockSpace:
    """Quotes of 5000 symbols of Zipf popularity. Nine filters in ten name a symbol, the rest a sector and exchange."""

    dimensions: tuple[Dimension, ...]
    reference: Ints
    """Price in cents, by symbol."""
    sector: Ints
    """Sector, by symbol."""
    popularity: NDArray[np.float64]
    """Probability, by symbol."""
    equalities_only: bool = False

    def rows(self, count: int, rng: Generator) -> Rows:
        bounds = self._bounds(count, rng)
        if self.equalities_only:
            bounds = {name: bound for name, bound in bounds.items() if name in _W3_EQUALITIES}
        place = {dimension.name: position for position, dimension in enumerate(self.dimensions)}
        ordered = sorted(bounds, key=place.__getitem__)
        dims = [np.where(bounds[name][2], place[name], -1) for name in ordered]
        return Rows(
            np.stack(dims, axis=1).astype(np.int16),
            np.stack([bounds[name][0] for name in ordered], axis=1).astype(np.int32),
            np.stack([bounds[name][1] for name in ordered], axis=1).astype(np.int32),
        )

    def points(self, count: int, rng: Generator) -> Ints:
        symbol = self._symbols(count, rng)
        drawn = {
            "symbol": symbol,
            "price": np.rint(self.reference[symbol] * rng.uniform(1 - _SWING, 1 + _SWING, count)),
            "volume": rng.integers(1, _VOLUMES, count, endpoint=True),
            "exchange": rng.integers(0, _EXCHANGES, count),
            "side": rng.integers(0, 2, count),
            "sector": self.sector[symbol],
            "venue": rng.integers(0, _VENUES, count),
        }
        return np.stack([drawn[dimension.name] for dimension in self.dimensions], axis=1).astype(np.int32)

    def _bounds(self, count: int, rng: Generator) -> dict[str, tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]]:
        """Return low bound, high bound and presence of each filter's atom, by attribute."""
        symbol = self._symbols(count, rng)
        named = rng.random(count) < 0.90
        centre = self.reference[symbol] * rng.uniform(1 - _SWING, 1 + _SWING, count)
        half = centre * rng.uniform(0.01, 0.10, count) / 2
        volume = rng.integers(1, _VOLUMES, count, endpoint=True)
        venues = np.sort(rng.integers(0, _VENUES, (count, 2)), axis=1)
        exchange, side = rng.integers(0, _EXCHANGES, count), rng.integers(0, 2, count)
        return {
            "symbol": (symbol, symbol, named),
            "price": (np.rint(centre - half), np.rint(centre + half), np.full(count, True)),
            "volume": (volume, np.full(count, HIGHEST), rng.random(count) < 0.50),
            "exchange": (exchange, exchange, ~named | (rng.random(count) < 0.30)),
            "side": (side, side, rng.random(count) < 0.30),
            "sector": (self.sector[symbol], self.sector[symbol], ~named),
            "venue": (venues[:, 0], venues[:, 1], rng.random(count) < 0.30),
        }

    def _symbols(self, count: int, rng: Generator) -> NDArray[np.int64]:
        return rng.choice(len(self.popularity), count, p=self.popularity)


def w3(count: int, rng: Generator, *, equalities_only: bool = False) -> Workload:
    """Stock quotes of seven attributes; symbol, price band, volume, exchange, side, sector and venue range."""
    weights = rng.permutation(1.0 / np.arange(1, _SYMBOLS + 1))
    texts = {
        "symbol": _tickers(rng, _SYMBOLS),
        "exchange": _tickers(rng, _EXCHANGES),
        "side": ("buy", "sell"),
        "sector": _names(rng, _SECTORS),
    }
    names = [_W3_NAMES[i] for i in rng.permutation(len(_W3_NAMES))]
    space = StockSpace(
        tuple(Dimension(name, texts.get(name, ()), 100 if name == "price" else 1) for name in names),
        np.rint(np.exp(rng.uniform(np.log(500), np.log(50_000), _SYMBOLS))).astype(np.int32),
        rng.integers(0, _SECTORS, _SYMBOLS, np.int32),
        weights / weights.sum(),
        equalities_only,
    )
    return _workload("W3eq" if equalities_only else "W3", space, count, rng)


def w3eq(count: int, rng: Generator) -> Workload:
    """W3 with equalities only."""
    return w3(count, rng, equalities_only=True)


WORKLOADS: Final[dict[str, Callable[[int, Generator], Workload]]] = {
    "W1": w1,
    "W1b": w1b,
    "W1c": w1c,
    "W2": w2,
    "W3": w3,
    "W3eq": w3eq,
}
"""Every workload by name: `WORKLOADS["W1"](filters, numpy.random.default_rng(seed))`."""


def _workload(name: str, space: Space, count: int, rng: Generator) -> Workload:
    rows = space.rows(count, rng)
    return Workload(name, space, rows, _new_ids(count, rng), int(rng.integers(0, 2**63)))


def _new_ids(count: int, rng: Generator) -> Ids:
    """Return distinct ids from the whole id space, in random order."""
    while True:
        ids = rng.integers(0, 2**63, count, np.int64)
        if len(np.unique(ids)) == count:
            return ids


def _choose(rng: Generator, count: int, of: int, size: int) -> NDArray[np.int16]:
    """Return for each row `size` different positions below `of`, in random order."""
    chosen = np.empty((count, size), np.int16)
    for start in range(0, count, _CHUNK):
        part = chosen[start : start + _CHUNK]
        part[:] = rng.random((len(part), of)).argpartition(size - 1, axis=1)[:, :size]
    return rng.permuted(chosen, axis=1)


def _names(rng: Generator, count: int) -> tuple[str, ...]:
    """Return different words of four to nine letters, with a leading x to avoid the filter language's keywords."""
    return _words(rng, count, string.ascii_lowercase, 3, 8, "x")


def _tickers(rng: Generator, count: int) -> tuple[str, ...]:
    return _words(rng, count, string.ascii_uppercase, 3, 5, "")


def _words(rng: Generator, count: int, letters: str, shortest: int, longest: int, start: str) -> tuple[str, ...]:
    words: dict[str, None] = {}
    while len(words) < count:
        drawn = rng.integers(0, len(letters), rng.integers(shortest, longest, endpoint=True))
        words[start + "".join(letters[i] for i in drawn)] = None
    return tuple(words)
