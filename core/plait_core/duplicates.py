"""Duplicate suppression: which of a publisher's sequence numbers were seen, in a window below the highest.

Brokers, clients and peers admit an event by this. Below the window nothing can be told apart any more, and such
numbers are refused as stale: an event is then never taken twice, at the price of naming late ones.
"""

from __future__ import annotations

from collections import OrderedDict
from enum import Enum, auto
from typing import Final


class Sighting(Enum):
    """What a sequence number is to us."""

    NEW = auto()
    BEHIND = auto()
    """Not seen before, though a later one was."""
    DUPLICATE = auto()
    STALE = auto()


BEHIND: Final = Sighting.BEHIND
NEW: Final = Sighting.NEW
"""The same, where every event asks: looking a member up in its enumeration costs ten times what a constant does."""


class DuplicateWindow:
    """Sequence numbers of many publishers. Bounded: `window` numbers each, and `publishers_max` publishers.

    Each publisher has one integer: bit i says whether `highest - i` was seen.
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
        """Tells what a number is, and remembers it."""
        known = self._seen.get(publisher)
        if known is None:
            self._remember(publisher, sequence, 1)
            return NEW
        highest, bits = known
        ahead = sequence - highest
        if ahead == 1 and bits is self._mask:  # one after another for a whole window: nothing to shift
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
        """Takes a sighting back: the event was refused, and may come again."""
        known = self._seen.get(publisher)
        if known is not None:
            highest, bits = known
            behind = highest - sequence
            if 0 <= behind < self._window:
                self._seen[publisher] = (highest, bits & ~(1 << behind))

    def highest(self, publisher: int) -> int | None:
        """The highest number seen of a publisher; None when it is not known, or not any more."""
        known = self._seen.get(publisher)
        return None if known is None else known[0]

    def touch(self, publisher: int) -> None:
        """This publisher is alive: others are forgotten before it."""
        if publisher in self._seen:
            self._seen.move_to_end(publisher)

    def _remember(self, publisher: int, highest: int, bits: int) -> None:
        self._seen[publisher] = (highest, bits)
        if len(self._seen) > self._publishers_max:
            self._seen.popitem(last=False)
