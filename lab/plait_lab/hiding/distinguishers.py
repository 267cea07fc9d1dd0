"""Products of pairings that tell two hidden values apart, found by linear algebra (Boneh, Boyen, Goh 2005).

A row of a matrix is one random draw of all exponents. Its columns are the pairings of each known element of G1 with
each of G2, and the values under hashes, which a party can compare with what it computes. A null vector of all rows is a
product of pairings that is always one. A null vector for one hidden value that is none for another tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .exponent_groups import PRIME

SPARE_ROWS: Final = 8
"""Rows beyond the number of columns. They make a null vector by chance improbable."""


@dataclass(frozen=True)
class Knowledge:
    """What a party has in one draw: discrete logarithms by name."""

    g1: Mapping[str, int]
    g2: Mapping[str, int]
    hashed: Mapping[str, int]
    """Elements of GT of which it has the hash."""

    def columns(self) -> list[str]:
        """Return what each column of a matrix is."""
        return [f"e({left}, {right})" for left in self.g1 for right in self.g2] + [f"H({name})" for name in self.hashed]

    def row(self) -> list[int]:
        """Return one row of a matrix."""
        products = [left * right % PRIME for left in self.g1.values() for right in self.g2.values()]
        return products + list(self.hashed.values())


def rows_needed(known: Knowledge) -> int:
    """Return how many draws decide about a party that knows this much."""
    return len(known.columns()) + SPARE_ROWS


def distinguisher(one: Sequence[Knowledge], other: Sequence[Knowledge]) -> str:
    """Return a column by which draws of one hidden value and draws of another differ, or "" if no product tells.

    `one` has `rows_needed` draws; a few of `other` suffice.
    """
    assert len(one) >= rows_needed(one[0])
    names = one[0].columns()
    assert all(known.columns() == names for known in (*one[1:], *other)), "each draw has the same elements"
    matrix = np.array([known.row() for known in (*one, *other)], dtype=np.int64)
    remaining = _reduced(matrix, len(one))
    found = np.flatnonzero(remaining.any(axis=0))
    return names[int(found[0])] if len(found) else ""


def _reduced(matrix: np.ndarray[Any, Any], own: int) -> np.ndarray[Any, Any]:
    """Return the rows after the first `own` ones, reduced by those: what is left is not in their span."""
    for at, column in _pivots(matrix, own):
        below = matrix[at + 1 :, column].copy()
        touched = at + 1 + np.flatnonzero(below)
        factors = matrix[touched, column]
        matrix[touched, column:] = (matrix[touched, column:] - factors[:, None] * matrix[at, column:]) % PRIME
    return matrix[own:]


def _pivots(matrix: np.ndarray[Any, Any], own: int) -> Iterator[tuple[int, int]]:
    """Move a row with a one to each place on the way down, and yield the place with its column."""
    at = 0
    for column in range(matrix.shape[1]):
        candidates = np.flatnonzero(matrix[at:own, column])
        if not len(candidates):
            continue
        chosen = at + int(candidates[0])
        matrix[[at, chosen]] = matrix[[chosen, at]]
        matrix[at, column:] = matrix[at, column:] * pow(int(matrix[at, column]), -1, PRIME) % PRIME
        yield at, column
        at += 1
