"""All conjunctions of an index as one table of bits: a column per attribute, a row per slot of its states.

To match, take each attribute's row and OR them: positions that stay clear may match. An event without an attribute
takes the row of missing values, so absence excludes as well as presence. Only attributes with many constraints have a
column; conjunctions on other attributes are found through the attribute (`postings.py`).
"""

from __future__ import annotations

import numpy as np

from ..filters import Conjunction, Constraint
from ..values import Attributes
from .columns import BIT, CLEAR, Bits, Column, positions

COLUMN_MIN = 16
"""Constraints on an attribute before it gets a column. Below that, testing each of them costs less."""


class BitTable:
    """Conjunctions at positions. The position of a removed conjunction is used again."""

    def __init__(self) -> None:
        self._words = 1
        self._live: Bits = np.zeros(1, np.uint64)
        self._scanned: Bits = np.zeros(1, np.uint64)
        self.conjunctions: dict[int, Conjunction] = {}
        """By position."""
        self.scanned = 0
        """Number of conjunctions that only a scan finds."""
        self._free: list[int] = []
        self._next = 0
        self._by_attr: dict[str, dict[int, Constraint]] = {}
        self.columns: dict[str, Column] = {}
        """By attribute with many constraints."""

    def add(self, conjunction: Conjunction, *, scan: bool) -> int:
        """Store a conjunction and return its position. `scan`: only a scan of the table finds it."""
        at = self._free.pop() if self._free else self._appended()
        self.conjunctions[at] = conjunction
        self._live[at >> 6] |= BIT[at & 63]
        if scan:
            self._scanned[at >> 6] |= BIT[at & 63]
            self.scanned += 1
        for attr, constraint in conjunction.items():
            constraints = self._by_attr.setdefault(attr, {})
            constraints[at] = constraint
            column = self.columns.get(attr)
            if column is not None:
                column.write(at, constraint)
            if len(constraints) >= COLUMN_MIN and (column is None or column.stale):
                self.columns[attr] = Column(constraints, self._words)
        return at

    def remove(self, at: int) -> None:
        """Remove the conjunction at a position."""
        word, bit, clear = at >> 6, BIT[at & 63], CLEAR[at & 63]
        assert self._live[word] & bit, "a position is removed once"
        self._live[word] &= clear
        if self._scanned[word] & bit:
            self._scanned[word] &= clear
            self.scanned -= 1
        for attr in self.conjunctions.pop(at):
            constraints = self._by_attr[attr]
            del constraints[at]
            column = self.columns.get(attr)
            if column is not None:
                column.clear(at)
            if not constraints:
                del self._by_attr[attr]
                self.columns.pop(attr, None)
        self._free.append(at)

    def candidates(self, attributes: Attributes, *, scanned_only: bool) -> list[int]:
        """Return the positions that the columns do not exclude for an event: all, or those that only a scan finds."""
        bits = np.zeros(self._words, np.uint64)
        get = attributes.get
        for attr, column in self.columns.items():
            np.bitwise_or(bits, column.rows[column.slot(get(attr))], out=bits)
        return self._left(bits, self._scanned if scanned_only else self._live)

    def covering(self, conjunction: Conjunction) -> list[int]:
        """Return the positions of conjunctions that may cover a conjunction."""
        if not self.columns:  # nothing excludes any
            return list(self.conjunctions)
        bits = np.zeros(self._words, np.uint64)
        for attr, column in self.columns.items():
            constraint = conjunction.get(attr)
            bits |= column.constrained() if constraint is None else column.exclude_some(constraint)
        return self._left(bits, self._live)

    def covered(self, conjunction: Conjunction) -> list[int]:
        """Return the positions of conjunctions that a conjunction may cover."""
        bits = np.zeros(self._words, np.uint64)
        for attr, constraint in conjunction.items():
            column = self.columns.get(attr)
            if column is None:  # a covered conjunction must constrain this attribute, too, and few do
                return sorted(self._by_attr.get(attr, ()))
            bits |= column.reach_beyond(constraint)
        return self._left(bits, self._live)

    def intersecting(self, conjunction: Conjunction) -> list[int]:
        """Return the positions of conjunctions that may intersect a conjunction."""
        if not self.columns:
            return list(self.conjunctions)
        bits = np.zeros(self._words, np.uint64)
        for attr, constraint in conjunction.items():
            column = self.columns.get(attr)
            if column is not None:
                bits |= column.exclude_all(constraint)
        return self._left(bits, self._live)

    def _left(self, ruled_out: Bits, among: Bits) -> list[int]:
        np.bitwise_not(ruled_out, out=ruled_out)
        ruled_out &= among
        return positions(ruled_out)

    def _appended(self) -> int:
        at = self._next
        self._next += 1
        if at >= self._words * 64:
            room = np.zeros(self._words, np.uint64)
            self._words *= 2
            self._live = np.concatenate((self._live, room))
            self._scanned = np.concatenate((self._scanned, room))
            for column in self.columns.values():
                column.grow(self._words)
        return at
