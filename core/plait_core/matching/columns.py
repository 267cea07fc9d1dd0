"""One attribute's states divided into slots, with a row of bits per slot: the conjunctions that no such state
satisfies.

A slot is a state (missing, incomparable, false, true) or a stretch of numbers or texts between two bounds. The bounds
are quantiles of the constraints themselves, so applications never declare a domain. Rows only exclude; the remaining
conjunctions are verified exactly. So stretches may be coarse.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..filters import Constraint, ValueSet
from ..values import Value, ValueKind, kind_of

Bits: TypeAlias = NDArray[np.uint64]
Slots: TypeAlias = list[tuple[int, int]]
"""Stretches of slots, each as (first, one after the last)."""

MISSING, OTHER, FALSE, TRUE, FIRST_NUMBER = range(5)
BOUNDS_MAX = 31
"""Bounds of each kind. 32 stretches of numbers and of texts exclude all but a few percent of a band's neighbours."""

FITTED_TO_MAX = 512
"""Constraints sampled for the quantiles: more would not move a bound by a whole stretch."""

BIT = [np.uint64(1 << i) for i in range(64)]
CLEAR = [~bit for bit in BIT]


class Column:
    """The rows of one attribute over `words` * 64 conjunctions."""

    def __init__(self, constraints: Mapping[int, Constraint], words: int) -> None:
        """Fit bounds to `constraints`, which are keyed by position."""
        numbers, texts = _ends(islice(constraints.values(), 0, None, 1 + len(constraints) // FITTED_TO_MAX))
        self._numbers: list[float] = _quantiles([_float(end) for end in numbers])
        self._texts: list[str] = _quantiles(texts)
        self._first_text = FIRST_NUMBER + len(self._numbers) + 1
        self._slots = self._first_text + len(self._texts) + 1
        self.rows = self._painted(constraints, words)
        self.fitted = len(constraints)
        self.written = 0

    @property
    def stale(self) -> bool:
        """True if so much was written since that the bounds may no longer fit. Refitting then costs O(1) per write."""
        return self.written > 6 * self.fitted + 32

    def slot(self, value: Value) -> int:
        """Return the slot of an attribute's value (None: missing)."""
        if value is None:
            return MISSING
        kind = kind_of(value)
        if kind is ValueKind.NUMBER:
            return self._number_slot(value)
        if kind is ValueKind.TEXT:
            return self._text_slot(value)
        return OTHER if kind is None else TRUE if value else FALSE

    def slots(self, constraint: Constraint) -> Slots:
        """Return the slots in which some state satisfies `constraint`."""
        found: Slots = []
        if constraint.absent:
            found.append((MISSING, MISSING + 1))
        if constraint.others:
            found.append((OTHER, OTHER + 1))
        found.extend((FALSE + flag, FALSE + flag + 1) for flag in constraint.bools)
        if constraint.numbers is not None:
            found += _span_slots(constraint.numbers, self._number_slot, FIRST_NUMBER, self._first_text)
        if constraint.texts is not None:
            found += _span_slots(constraint.texts, self._text_slot, self._first_text, self._slots)
        return found

    def _number_slot(self, value: object) -> int:
        return FIRST_NUMBER + bisect_right(self._numbers, _float(value))

    def _text_slot(self, value: Any) -> int:
        return self._first_text + bisect_right(self._texts, value)

    def write(self, at: int, constraint: Constraint) -> None:
        """Write a constraint at a position whose bits are clear."""
        word, bit, clear = at >> 6, BIT[at & 63], CLEAR[at & 63]
        bits = self.rows[:, word]
        bits |= bit
        for start, stop in self.slots(constraint):
            bits[start:stop] &= clear
        self.written += 1

    def clear(self, at: int) -> None:
        """Clear the bits of a position, so that it excludes nothing."""
        self.rows[:, at >> 6] &= CLEAR[at & 63]

    def grow(self, words: int) -> None:
        """Make room for `words` * 64 positions."""
        more = np.zeros((self._slots, words - self.rows.shape[1]), np.uint64)
        self.rows = np.concatenate((self.rows, more), axis=1)

    # --- rows of a whole constraint, for relations between filters ----------------------------------------------------

    def constrained(self) -> Bits:
        """Return the constraints on this attribute. Each of them excludes a missing or an incomparable value."""
        found: Bits = self.rows[MISSING] | self.rows[OTHER]
        return found

    def exclude_some(self, constraint: Constraint) -> Bits:
        """Return the conjunctions that exclude a slot of `constraint`; these cannot cover it."""
        found: Bits = np.bitwise_or.reduce(self.rows[self._inside(constraint)], axis=0)
        return found

    def exclude_all(self, constraint: Constraint) -> Bits:
        """Return the conjunctions that exclude every slot of `constraint`; these cannot intersect it."""
        found: Bits = np.bitwise_and.reduce(self.rows[self._inside(constraint)], axis=0)
        return found

    def reach_beyond(self, constraint: Constraint) -> Bits:
        """Return the conjunctions that admit a slot outside `constraint`; it cannot cover these."""
        found: Bits = np.bitwise_and.reduce(self.rows[~self._inside(constraint)], axis=0)
        return ~found

    def _inside(self, constraint: Constraint) -> NDArray[np.bool_]:
        inside = np.zeros(self._slots, bool)
        for start, stop in self.slots(constraint):
            inside[start:stop] = True
        return inside

    def _band_stretches(self, bands: Mapping[int, ValueSet | None]) -> NDArray[np.intp]:
        """Return position, first slot and slot after the last of each band, as `slots` would compute them."""
        low = np.array([-np.inf if band is None or band.low is None else _float(band.low) for band in bands.values()])
        high = np.array([np.inf if band is None or band.high is None else _float(band.high) for band in bands.values()])
        start = FIRST_NUMBER + np.searchsorted(self._numbers, low, side="right")
        stop = FIRST_NUMBER + 1 + np.searchsorted(self._numbers, high, side="right")
        return np.stack((np.fromiter(bands, np.intp), start, stop), axis=1)

    def _painted(self, constraints: Mapping[int, Constraint], words: int) -> Bits:
        bands = {at: constraint.numbers for at, constraint in constraints.items() if _is_band(constraint)}
        others = ((at, constraint) for at, constraint in constraints.items() if at not in bands)
        flat = [n for at, constraint in others for slots in self.slots(constraint) for n in (at, *slots)]
        stretches = np.array(flat, np.intp).reshape(-1, 3)
        at, start, stop = np.concatenate((stretches, self._band_stretches(bands))).T
        ruled_out = np.zeros((self._slots, words * 64), bool)
        ruled_out[:, list(constraints)] = True
        for slot in range(self._slots):
            ruled_out[slot, at[(start <= slot) & (slot < stop)]] = False
        return np.packbits(ruled_out, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def _is_band(constraint: Constraint) -> bool:
    """Return whether the constraint is one stretch of numbers. Most are, and numpy places all of those at once."""
    numbers, texts, bools, others, absent = constraint
    return numbers is not None and texts is None and numbers.points is None and not (bools or others or absent)


def positions(bits: Bits) -> list[int]:
    """Return the positions of set bits, ascending. Most words are empty, so only the others are unpacked."""
    words = bits.nonzero()[0]
    if len(words) > 8:
        unpacked = np.unpackbits(bits[words].astype("<u8", copy=False).view(np.uint8), bitorder="little")
        at = unpacked.nonzero()[0]
        spread: list[int] = (words[at >> 6] * 64 + (at & 63)).tolist()
        return spread
    found: list[int] = []
    for word, left in zip(words.tolist(), bits[words].tolist(), strict=True):
        while left:
            lowest = left & -left
            found.append(word * 64 + lowest.bit_length() - 1)
            left ^= lowest
    return found


def _span_slots(span: ValueSet, slot: Callable[[object], int], first: int, last: int) -> Slots:
    low, high, _, _, points, _, _ = span
    if points is not None:
        return [(at, at + 1) for at in set(map(slot, points))]
    return [(first if low is None else slot(low), last if high is None else slot(high) + 1)]


def _float(number: object) -> float:
    """Convert monotonically, so that a number between two ends has a slot between theirs."""
    try:
        return float(number)  # type: ignore[arg-type]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")  # type: ignore[operator]


def _ends(constraints: Iterable[Constraint]) -> tuple[list[int | float], list[str]]:
    numbers: list[int | float] = []
    texts: list[str] = []
    for constraint in constraints:
        for span in (constraint.numbers, constraint.texts):
            if span is not None:
                for end in (span.low, span.high) if span.points is None else span.points:
                    if isinstance(end, str):
                        texts.append(end)
                    elif end is not None:
                        numbers.append(end)
    return numbers, texts


def _quantiles(ends: list[float] | list[str]) -> list:  # type: ignore[type-arg]
    ordered = sorted(ends)
    picked = (ordered[i * len(ordered) // (BOUNDS_MAX + 1)] for i in range(1, BOUNDS_MAX + 1) if ordered)
    return sorted(set(picked))
