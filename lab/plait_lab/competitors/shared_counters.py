"""What the processes of one trial tell each other: 64-bit cells in a shared file.

The parent says which phase is on, the publisher what it sent in each, each subscriber what it received of each and,
when asked for, the delay of every measured event. Nothing of this passes through what is being measured.
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
"""The last phase whose events have all been handed to the contender's library."""
READY: Final = 2
"""1 when the publisher is connected."""
LAG_NS: Final = 3
"""By how much the publisher itself missed its schedule, at worst, in the phase that is on."""
_SUBSCRIBERS: Final = 4
_SAMPLES: Final = 5
_HEADER: Final = 6
_CELL_BYTES: Final = 8
_BY_PHASE: Final = len(PHASES) + 1
"""Phases begin with 1; what is counted under 0 belongs to none."""

STOP: Final = -1


class SharedCounters:
    """The cells, as views: `received[phase][n]` is what subscriber `n` received of a phase."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.cells = memoryview(self._map).cast("q")
        self.subscribers = self.cells[_SUBSCRIBERS]
        self.samples = self.cells[_SAMPLES]
        self._views: list[memoryview[int]] = []
        self._at = _HEADER
        self.sent = self._view(_BY_PHASE)
        """By phase: events published so far."""
        self.expected = self._view(_BY_PHASE)
        """By phase: what each subscriber has received when nothing of it is lost."""
        self.received = [self._view(self.subscribers) for _ in range(_BY_PHASE)]
        self.breaks = [self._view(self.subscribers) for _ in range(_BY_PHASE)]
        """By phase and subscriber: how often another event came than the one that was next."""
        self.ready = self._view(self.subscribers)
        """By subscriber: 1 when it is subscribed."""

    @classmethod
    def create(cls, path: Path, subscribers: int, samples: int = 0) -> SharedCounters:
        """A new one with room for so many delays of each subscriber."""
        cells = _HEADER + 2 * _BY_PHASE + subscribers * (2 * _BY_PHASE + 1 + samples)
        with path.open("wb") as file:
            os.truncate(file.fileno(), cells * _CELL_BYTES)
            file.write(b"".join(cell.to_bytes(_CELL_BYTES, "little") for cell in (0, 0, 0, 0, subscribers, samples)))
        return cls(path)

    def delays(self, subscriber: int) -> memoryview[int]:
        """Room for the delays that one subscriber measures, in nanoseconds."""
        start = self._at + subscriber * self.samples
        return self.cells[start : start + self.samples]

    def all_in(self, phase: int) -> bool:
        """Whether every subscriber has everything of this phase that was sent."""
        return min(self.received[phase]) >= self.expected[phase]

    def close(self) -> None:
        """Lets go of the file."""
        for view in (*self._views, self.cells):
            view.release()
        self._map.close()

    def _view(self, cells: int) -> memoryview[int]:
        self._views.append(self.cells[self._at : self._at + cells])
        self._at += cells
        return self._views[-1]


class Window:
    """Holds a publisher back while more than `width` events of a phase are on their way, so that every contender is
    measured at the rate it sustains. What is lost does not hold it back for ever."""

    STALL_S: Final = 1.0
    """Without a single event received for so long, what is missing is taken for lost."""

    def __init__(self, board: SharedCounters, phase: int, width: int) -> None:
        self._expected = board.expected
        self._received = board.received[phase]
        self._phase = phase
        self._width = width
        self._given_up = 0
        self._seen = -1
        self._seen_at = 0.0

    def full(self) -> bool:
        """Whether to wait before sending more."""
        expected, received = self._expected[self._phase], min(self._received)
        if expected - self._given_up - received <= self._width:
            return False
        now = time.monotonic()
        if received != self._seen:
            self._seen, self._seen_at = received, now
        elif now - self._seen_at > self.STALL_S:
            self._given_up = expected - received
        return True
