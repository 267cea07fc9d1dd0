"""Virtual time: a heap of things to happen, and the clocks that nodes read, which drift and whose calendars jump.

Nothing here or elsewhere in the simulator reads a real clock; what happens at one instant happens in the order in which
it was asked for. Same seed, same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

Action: TypeAlias = Callable[[], None]

CALENDAR_US: Final = 1_700_000_000_000_000
"""What the calendar says when a run begins."""

_GRAIN_S: Final = 1e-6
"""Added to a deadline that is converted from a node's clock, so that rounding never wakes it too early."""


class Timeline:
    """Things to happen, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Action]] = []
        self._asked = 0

    def at(self, when: float, action: Action) -> None:
        """Let something happen at a time, or now if that is past."""
        self._asked += 1
        heapq.heappush(self._heap, (max(when, self.now), self._asked, action))

    def after(self, delay_s: float, action: Action) -> None:
        """Let something happen in a while."""
        assert delay_s >= 0, "the past is over"
        self.at(self.now + delay_s, action)

    def run(self, until: float) -> None:
        """Let everything happen that is due by then."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, action = heapq.heappop(heap)
            assert when >= self.now, "time does not go back"
            self.now = when
            self.steps += 1
            action()
        self.now = until


@dataclass(slots=True)
class Clock:
    """A node's two clocks: one that only goes forward, a little fast or slow; and a calendar that may be set."""

    timeline: Timeline
    drift: float = 0.0
    """How much faster than true time it runs: 500e-6 is a bad crystal."""
    offset_s: float = 0.0
    """What its monotonic clock said at the beginning: hosts boot at different times."""
    calendar_s: float = 0.0
    """How wrong its calendar is."""

    def now(self) -> float:
        return self.offset_s + self.timeline.now * (1 + self.drift)

    def wall_us(self) -> int:
        return CALENDAR_US + round((self.timeline.now + self.calendar_s) * 1_000_000)

    def true_time(self, local: float) -> float:
        """When this clock will say `local`."""
        return (local - self.offset_s) / (1 + self.drift) + _GRAIN_S
