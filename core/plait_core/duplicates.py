"""Duplicate suppression: the sequence numbers seen from each publisher, in a window below the highest.

Brokers, clients and peers admit an event by this. A number below the window is refused as stale, because the window no
longer knows whether it was seen. So no event is ever accepted twice, at the price of refusing very late ones.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum, auto
from typing import Final


class Sighting(Enum):
    """The classification of a sequence number."""

    NEW = auto()
    BEHIND = auto()
    """First seen now, below a higher number that was seen before."""
    DUPLICATE = auto()
    STALE = auto()


BEHIND: Final = Sighting.BEHIND
NEW: Final = Sighting.NEW
"""Constants for the hot path: a lookup in the enumeration costs ten times as much."""


class DuplicateWindow:
    """The sequence numbers of many publishers. Bounded: `window` numbers each, and `publishers_max` publishers.

    Each publisher has one integer. Bit i is set if `highest - i` was seen.
    """

    def __init__(self, window: int, publishers_max: int) -> None:
        assert min(window, publishers_max) > 0
        self._window = window
        self._mask = (1 << window) - 1
        self._publishers_max = publishers_max
        self._seen: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def see(self, publisher: int, sequence: int) -> Sighting:
        """Classify a sequence number and record it as seen."""
        known = self._seen.get(publisher)
        if known is None:
            self._remember(publisher, sequence, 1)
            return NEW
        highest, bits = known
        ahead = sequence - highest
        if ahead == 1 and bits is self._mask:  # a full window without gaps: nothing to shift
            self._seen[publisher] = (sequence, bits)
            return NEW
        if ahead > 0:
            kept = (bits << ahead if ahead < self._window else 0) & self._mask | 1
            self._seen[publisher] = (sequence, self._mask if kept == self._mask else kept)
            return NEW
        if -ahead >= self._window:
            return Sighting.STALE
        bit = 1 << -ahead
        if bits & bit:
            return Sighting.DUPLICATE
        self._seen[publisher] = (highest, bits | bit)
        return BEHIND if ahead else NEW

    def forget(self, publisher: int, sequence: int) -> None:
        """Remove a number from the window: the event was refused, and its publisher may send it again."""
        known = self._seen.get(publisher)
        if known is not None:
            highest, bits = known
            behind = highest - sequence
            if 0 <= behind < self._window:
                self._seen[publisher] = (highest, bits & ~(1 << behind))

    def highest(self, publisher: int) -> int | None:
        """Return the highest number seen of a publisher, or None if the publisher is unknown or was evicted."""
        known = self._seen.get(publisher)
        return None if known is None else known[0]

    def touch(self, publisher: int) -> None:
        """Mark the publisher as recently used: others are evicted before it."""
        if publisher in self._seen:
            self._seen.move_to_end(publisher)

    def _remember(self, publisher: int, highest: int, bits: int) -> None:
        self._seen[publisher] = (highest, bits)
        if len(self._seen) > self._publishers_max:
            self._seen.popitem(last=False)
