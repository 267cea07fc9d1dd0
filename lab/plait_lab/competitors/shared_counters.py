"""The counters that the processes of a trial share: 64-bit cells in a file.

The parent sets the phase. The publisher counts the events sent in each; each subscriber counts those received and, if
requested, records the delay of every measured event. None of this passes through the measured system.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Final

from .stamps import PHASES

PHASE: Final = 0
"""The phase that the publisher may begin; `STOP` ends it."""
DONE: Final = 1
"""The last phase whose events were all passed to the contender's library."""
READY: Final = 2
"""1 when the publisher is connected."""
LAG_NS: Final = 3
"""The greatest lag of the publisher behind its schedule in the current phase."""
_SUBSCRIBERS: Final = 4
_SAMPLES: Final = 5
_HEADER: Final = 6
_CELL_BYTES: Final = 8
_BY_PHASE: Final = len(PHASES) + 1
"""Phases begin with 1; counts under 0 belong to none."""

STOP: Final = -1


class SharedCounters:
    """The cells, as views: `received[phase][n]` is the count that subscriber `n` received of a phase."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.cells = memoryview(self._map).cast("q")
        self.subscribers = self.cells[_SUBSCRIBERS]
        self.samples = self.cells[_SAMPLES]
        self._views: list[memoryview[int]] = []
        self._at = _HEADER
        self.sent = self._view(_BY_PHASE)
        """Events published so far, by phase."""
        self.expected = self._view(_BY_PHASE)
        """Deliveries of a subscriber without loss, by phase."""
        self.received = [self._view(self.subscribers) for _ in range(_BY_PHASE)]
        self.breaks = [self._view(self.subscribers) for _ in range(_BY_PHASE)]
        """Events that were not the expected next one, by phase and subscriber."""
        self.ready = self._view(self.subscribers)
        """1 when subscribed, by subscriber."""

    @classmethod
    def create(cls, path: Path, subscribers: int, samples: int = 0) -> SharedCounters:
        """Create counters with room for `samples` delays of each subscriber."""
        cells = _HEADER + 2 * _BY_PHASE + subscribers * (2 * _BY_PHASE + 1 + samples)
        with path.open("wb") as file:
            os.truncate(file.fileno(), cells * _CELL_BYTES)
            file.write(b"".join(cell.to_bytes(_CELL_BYTES, "little") for cell in (0, 0, 0, 0, subscribers, samples)))
        return cls(path)

    def delays(self, subscriber: int) -> memoryview[int]:
        """Return the cells for one subscriber's delays, in nanoseconds."""
        start = self._at + subscriber * self.samples
        return self.cells[start : start + self.samples]

    def all_in(self, phase: int) -> bool:
        """Return whether every subscriber has received everything of this phase."""
        return min(self.received[phase]) >= self.expected[phase]

    def close(self) -> None:
        """Release the file."""
        for view in (*self._views, self.cells):
            view.release()
        self._map.close()

    def _view(self, cells: int) -> memoryview[int]:
        self._views.append(self.cells[self._at : self._at + cells])
        self._at += cells
        return self._views[-1]


class Window:
    """Limits a publisher to `width` events of a phase in flight, so that contenders are measured at a sustainable rate.

    Lost events do not block it forever.
    """

    STALL_S: Final = 1.0
    """Seconds without an event after which the missing ones are taken as lost."""

    def __init__(self, counters: SharedCounters, phase: int, width: int) -> None:
        self._expected = counters.expected
        self._received = counters.received[phase]
        self._phase = phase
        self._width = width
        self._given_up = 0
        self._seen = -1
        self._seen_at = 0.0

    def full(self) -> bool:
        """Return whether to wait before sending more."""
        expected, received = self._expected[self._phase], min(self._received)
        if expected - self._given_up - received <= self._width:
            return False
        now = time.monotonic()
        if received != self._seen:
            self._seen, self._seen_at = received, now
        elif now - self._seen_at > self.STALL_S:
            self._given_up = expected - received
        return True
