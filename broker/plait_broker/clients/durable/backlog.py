"""The backlog of one durable subscription: how many stored events it has not acknowledged, their size, and their age.

Events are counted in ranges of positions, at most RANGES_MAX of them, so the memory is bounded however long a client is
away. The count of events is exact. Within a range, sizes are averages and the age is that of its oldest event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RANGES_MAX: Final = 64
"""Ranges of one backlog. With more of them, neighbours are joined: the age is exact to about a 32nd of the backlog."""


@dataclass(slots=True)
class _Range:
    events: int
    bytes: int
    oldest_us: int


class Backlog:
    """Stored events that one durable subscription has not acknowledged."""

    __slots__ = ("_ranges", "_shift", "bytes", "events", "uncounted")

    def __init__(self) -> None:
        self.events = 0
        self.bytes = 0
        self.uncounted = range(0)
        """Positions that are still to be counted, after a start of the broker or another move of the cursor."""
        self._shift = 0
        """Positions of a range: 2 to the power of this."""
        self._ranges: dict[int, _Range] = {}

    @property
    def complete(self) -> bool:
        """Whether everything that waits is counted."""
        return not self.uncounted

    @property
    def oldest_us(self) -> int:
        """Calendar time at which the oldest event that waits was logged; 0 if none waits."""
        return min((part.oldest_us for part in self._ranges.values()), default=0)

    def add(self, position: int, size: int, logged_us: int) -> None:
        """Count an event that waits."""
        number = position >> self._shift
        part = self._ranges.get(number)
        if part is None:
            self._ranges[number] = _Range(1, size, logged_us)
            if len(self._ranges) > RANGES_MAX:
                self._join()
        else:
            part.events += 1
            part.bytes += size
            part.oldest_us = min(part.oldest_us, logged_us)
        self.events += 1
        self.bytes += size

    def remove(self, position: int) -> None:
        """Count an event no more: it is acknowledged or dropped."""
        if position in self.uncounted:
            return
        number = position >> self._shift
        part = self._ranges.get(number)
        if part is None:
            return
        size = part.bytes // part.events
        part.events -= 1
        part.bytes -= size
        self.events -= 1
        self.bytes -= size
        if not part.events:
            self.bytes -= part.bytes
            del self._ranges[number]

    def remove_before(self, position: int) -> int:
        """Count no range that lies before a position; return the number of events in these."""
        count = 0
        for number in [number for number in self._ranges if (number + 1) << self._shift <= position]:
            part = self._ranges.pop(number)
            self.events -= part.events
            self.bytes -= part.bytes
            count += part.events
        return count

    def clear(self, uncounted: range = range(0)) -> None:
        """Count anew, beginning with nothing. `uncounted`: positions that will be counted later."""
        self._ranges.clear()
        self.events = self.bytes = self._shift = 0
        self.uncounted = uncounted

    def _join(self) -> None:
        """Double the size of the ranges until they are few."""
        while len(self._ranges) > RANGES_MAX // 2:
            self._shift += 1
            joined: dict[int, _Range] = {}
            for number, part in self._ranges.items():
                known = joined.setdefault(number >> 1, part)
                if known is not part:
                    known.events += part.events
                    known.bytes += part.bytes
                    known.oldest_us = min(known.oldest_us, part.oldest_us)
            self._ranges = joined
