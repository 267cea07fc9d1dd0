"""The reference for an index: a dense numpy scan for speed, and brute force for correctness.

Both use the workload's numbers and not Plait's filters. The scan compares every filter with every event without an
index, as fast as numpy permits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from plait_core.filters import Filter
from plait_core.values import Attributes

from .workloads import ABSENT, Dimension, Ints, Workload

_BLOCK: Final = 16_384
"""Filters scanned at a time: the masks of 20 attributes then fit a second-level cache."""


class Matching(Protocol):
    """An index that matches events."""

    def match(self, attributes: Attributes) -> list[int]: ...


class Changing(Matching, Protocol):
    """An index whose filters change."""

    def add(self, id: int, filter: Filter) -> None: ...

    def remove(self, id: int) -> None: ...


class Codes:
    """Maps events to the codes of a workload's dimensions, as the inverse of `Dimension.value`."""

    def __init__(self, dimensions: tuple[Dimension, ...]) -> None:
        self._coders = [(dimension.name, _coder(dimension)) for dimension in dimensions]

    def of(self, attributes: Attributes) -> Ints:
        """Return a code for every dimension, ABSENT where the event lacks it."""
        values = [
            ABSENT if (value := attributes.get(name)) is None else code(value) if code else value
            for name, code in self._coders
        ]
        return np.array(values, np.int32)


class DenseScan:
    """Compares every bound of every filter with the event: one boolean mask over all filters, no index."""

    def __init__(self, workload: Workload) -> None:
        low, high = workload.dense()
        self._codes = Codes(workload.dimensions)
        self._blocks = [_Block(low, high, workload.ids, start) for start in range(0, len(workload), _BLOCK)]

    def match(self, attributes: Attributes) -> list[int]:
        """Return the ids of the filters that the event matches."""
        point = self._codes.of(attributes)[:, None]
        return [id for block in self._blocks for id in block.match(point)]


class _Block:
    def __init__(self, low: Ints, high: Ints, ids: NDArray[np.int64], start: int) -> None:
        part = slice(start, start + _BLOCK)
        self._low, self._high = np.ascontiguousarray(low[:, part]), np.ascontiguousarray(high[:, part])
        self._ids = ids[part]
        self._above = np.empty(self._low.shape, np.bool_)
        self._below = np.empty(self._low.shape, np.bool_)

    def match(self, point: Ints) -> list[int]:
        np.less_equal(self._low, point, out=self._above)
        np.greater_equal(self._high, point, out=self._below)
        np.bitwise_and(self._above, self._below, out=self._above)
        found: list[int] = self._ids[np.bitwise_and.reduce(self._above, axis=0).nonzero()[0]].tolist()
        return found


class BruteForce:
    """Matches row by row over the atoms of several workloads of one space: the expected results."""

    def __init__(self, *workloads: Workload) -> None:
        self._codes = Codes(workloads[0].dimensions)
        self._parts = [(workload.rows, workload.ids) for workload in workloads]

    def match(self, attributes: Attributes) -> list[int]:
        """Return the ids of the filters that the event matches, over all workloads."""
        point = self._codes.of(attributes)
        return list(chain.from_iterable(self._matching(point)))

    def _matching(self, point: Ints) -> Iterable[list[int]]:
        for rows, ids in self._parts:
            codes = point[rows.dims]
            holds = (rows.dims < 0) | ((codes != ABSENT) & (rows.low <= codes) & (codes <= rows.high))
            yield ids[holds.all(axis=1)].tolist()


class WrongAnswer(Exception):
    """An index returned other ids than brute force."""


def check_index(index: Matching, truth: BruteForce, live: set[int] | None, events: Iterable[Attributes]) -> int:
    """Return the number of events checked; raise WrongAnswer at the first whose ids differ from brute force.

    `live`: the ids that are in the index, None for all that `truth` knows.
    """
    count = 0
    for attributes in events:
        found, expected = index.match(attributes), set(truth.match(attributes))
        if live is not None:
            expected &= live
        if len(found) != len(expected) or set(found) != expected:
            wrong = sorted(islice(set(found) ^ expected, 5)) or "an id given twice"
            raise WrongAnswer(f"{len(found)} ids for {len(expected)}; of those: {wrong}; event {attributes}")
        count += 1
    return count


def _coder(dimension: Dimension) -> Callable[..., int] | None:
    if dimension.texts:
        return {text: code for code, text in enumerate(dimension.texts)}.__getitem__
    if dimension.scale == 1:
        return None
    scale = dimension.scale
    return lambda value: round(value * scale)
