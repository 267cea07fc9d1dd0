"""The finest cells of one dimension, counted from 0, and sets of them as runs.

All arithmetic of the event space is done here and in `domains.py`, on integers, so nothing is rounded. (Thesis 2.3.1
halves real intervals. With rounding, a filter could miss an event.)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import TypeAlias

from .dz_text import bits_text

Run: TypeAlias = tuple[int, int]
"""Cells from the first up to, not including, the second."""

_end = itemgetter(1)


class Reach(Enum):
    """The relation of a side to an interval of cells."""

    OUTSIDE = "outside"
    PARTLY = "partly"
    INSIDE = "inside"  # the interval lies wholly in the side


@dataclass(frozen=True, slots=True)
class Side:
    """The cells that a filter allows in one dimension: disjoint, sorted runs with gaps between them.

    The cells of all allowed values are among them. If `exact`, they contain no other values.
    """

    runs: tuple[Run, ...]
    exact: bool = True

    @classmethod
    def of(cls, runs: Iterable[Run], exact: bool = True) -> Side:
        """Build a side from runs in any order. Empty runs are dropped, touching ones joined."""
        joined: list[Run] = []
        for first, end in sorted(run for run in runs if run[0] < run[1]):
            if joined and first <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((first, end))
        return cls(tuple(joined), exact)

    @classmethod
    def union(cls, sides: Iterable[Side]) -> Side:
        """Return the cells that any of the sides allows."""
        sides = list(sides)
        return cls.of((run for side in sides for run in side.runs), all(side.exact for side in sides))

    def intersection(self, other: Side) -> Side:
        """Return the cells that both sides allow."""
        ours, theirs = list(self.runs), list(other.runs)
        common: list[Run] = []
        while ours and theirs:
            common.append((max(ours[-1][0], theirs[-1][0]), min(ours[-1][1], theirs[-1][1])))
            (ours if ours[-1][0] >= theirs[-1][0] else theirs).pop()
        return Side.of(common, self.exact and other.exact)

    def coarsened(self, halvings: int) -> Side:
        """Return this side in coarser cells, made by `halvings` fewer halvings."""
        if not halvings:
            return self
        low = (1 << halvings) - 1
        aligned = not any(first & low or end & low for first, end in self.runs)
        runs = ((first >> halvings, (end + low) >> halvings) for first, end in self.runs)
        return Side.of(runs, self.exact and aligned)

    def reach(self, first: int, end: int) -> Reach:
        """Return how this side relates to the cells from `first` to before `end`."""
        place = bisect_right(self.runs, first, key=_end)
        if place == len(self.runs) or self.runs[place][0] >= end:
            return Reach.OUTSIDE
        inside = self.runs[place][0] <= first and end <= self.runs[place][1]
        return Reach.INSIDE if inside else Reach.PARTLY

    def common(self, first: int, end: int) -> int:
        """Return the number of its cells from `first` to before `end`."""
        total = 0
        for place in range(bisect_right(self.runs, first, key=_end), len(self.runs)):
            run_first, run_end = self.runs[place]
            if run_first >= end:
                break
            total += min(run_end, end) - max(run_first, first)
        return total

    def blocks_inside(self, size: int) -> int:
        """Return the number of blocks of `size` cells, aligned to their size, that lie wholly in this side."""
        return sum(max(0, end // size - -(-first // size)) for first, end in self.runs)

    def pieces(self, bits: int) -> list[str]:
        """Return the fewest dz-expressions of this dimension's own tree that make up this side (thesis 5.4.1: its
        credentials).
        """
        return [piece for first, end in self.runs for piece in _pieces(first, end, bits)]


def _pieces(first: int, end: int, bits: int) -> Iterator[str]:
    """Yield the largest aligned block that starts at `first` and ends by `end`, then the next.

    At most two of each size.
    """
    while first < end:
        aligned = (first & -first).bit_length() - 1 if first else bits
        halvings = min(aligned, (end - first).bit_length() - 1)
        yield bits_text(first >> halvings, bits - halvings)
        first += 1 << halvings
