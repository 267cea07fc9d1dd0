"""Virtual time: a heap of actions, and the clocks of nodes, which drift and whose calendars jump.

The simulator never reads a real clock. Actions of one instant run in the order in which they were scheduled. Same seed,
same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

Action: TypeAlias = Callable[[], None]

CALENDAR_US: Final = 1_700_000_000_000_000
"""The calendar's time at the start of a run."""

_GRAIN_S: Final = 1e-6
"""Added to a deadline converted from a node's clock, so that rounding never wakes it too early."""


class Timeline:
    """The scheduled actions, in order."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, Action]] = []
        self._asked = 0

    def at(self, when: float, action: Action) -> None:
        """Schedule an action, at once if the time has passed."""
        self._asked += 1
        heapq.heappush(self._heap, (max(when, self.now), self._asked, action))

    def after(self, delay_s: float, action: Action) -> None:
        """Schedule an action after a delay."""
        assert delay_s >= 0, "the past is over"
        self.at(self.now + delay_s, action)

    def run(self, until: float) -> None:
        """Run all actions that are due by a time."""
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
    """A node's clocks: a monotonic one with drift, and a calendar that may be set."""

    timeline: Timeline
    drift: float = 0.0
    """Its rate relative to true time: 500e-6 is a bad crystal."""
    offset_s: float = 0.0
    """Its monotonic time at the start of a run: hosts boot at different times."""
    calendar_s: float = 0.0
    """The error of its calendar."""

    def now(self) -> float:
        return self.offset_s + self.timeline.now * (1 + self.drift)

    def wall_us(self) -> int:
        return CALENDAR_US + round((self.timeline.now + self.calendar_s) * 1_000_000)

    def true_time(self, local: float) -> float:
        """Return the true time at which this clock reads `local`."""
        return (local - self.offset_s) / (1 + self.drift) + _GRAIN_S
