"""What the processes of one trial tell each other: 64-bit cells in a shared file.

The parent says which phase is on, the publisher what it sent, each subscriber what it received and, when asked for,
the delay of every event. Nothing of this passes through what is being measured.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path
from typing import Final

PHASE: Final = 0
"""The phase that the publisher may begin; `STOP` ends it."""
DONE: Final = 1
"""The last phase whose events have all been handed to the contender's library."""
READY: Final = 2
"""1 when the publisher is connected."""
SENT: Final = 3
"""Events published so far."""
EXPECTED: Final = 4
"""What each counter has reached when nothing of them is lost."""
LAG_NS: Final = 5
"""By how much the publisher itself missed its schedule, at worst."""
_SUBSCRIBERS: Final = 6
_SAMPLES: Final = 7
_HEADER: Final = 8
_CELL_BYTES: Final = 8

STOP: Final = -1


class Board:
    """The cells. `counts[n]` is what subscriber `n` received, `ready[n]` whether it is subscribed."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self.cells = memoryview(self._map).cast("q")
        self.subscribers = self.cells[_SUBSCRIBERS]
        self.samples = self.cells[_SAMPLES]
        first = _HEADER + self.subscribers
        self.counts = self.cells[_HEADER:first]
        self.ready = self.cells[first : first + self.subscribers]
        self._first_sample = first + self.subscribers

    @classmethod
    def create(cls, path: Path, subscribers: int, samples: int = 0) -> Board:
        """A new one with room for so many delays of each subscriber."""
        size = (_HEADER + subscribers * (2 + samples)) * _CELL_BYTES
        with path.open("wb") as file:
            os.truncate(file.fileno(), size)
            file.write(b"".join(cell.to_bytes(_CELL_BYTES, "little") for cell in (0,) * 6 + (subscribers, samples)))
        return cls(path)

    def delays(self, subscriber: int) -> memoryview[int]:
        """Room for the delays that one subscriber measures, in nanoseconds."""
        start = self._first_sample + subscriber * self.samples
        return self.cells[start : start + self.samples]

    def close(self) -> None:
        """Lets go of the file."""
        self.delays(0).release()
        for view in (self.counts, self.ready, self.cells):
            view.release()
        self._map.close()


class Window:
    """Holds a publisher back while more than `width` events are on their way, so that every contender is measured at
    the rate it sustains. What is lost does not hold it back for ever."""

    STALL_S: Final = 1.0
    """Without a single event received for so long, what is missing is taken for lost."""

    def __init__(self, board: Board, width: int) -> None:
        self._board = board
        self._width = width
        self._given_up = 0
        self._seen = -1
        self._seen_at = 0.0

    def full(self, expected: int) -> bool:
        """Whether to wait before sending more."""
        received = min(self._board.counts)
        if expected - self._given_up - received <= self._width:
            return False
        now = time.monotonic()
        if received != self._seen:
            self._seen, self._seen_at = received, now
        elif now - self._seen_at > self.STALL_S:
            self._given_up = expected - received
        return True
