"""A lane: one direction of a link, with its own queue, and a window for what is on its way.

Control frames do not pass through the lane: they are written at once. Copies of events are written while the window has
room, and wait in the queue otherwise. The writer stamps what it writes (`ClockStamp`), and says whether it waits for
room. The neighbour echoes the last stamp with the number of events that have arrived since it (`StampEcho`): each stamp
once, and while the writer waits, whenever events arrive.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

from .lane_figures import LaneFigures
from .lane_queue import LaneQueue
from .lane_window import LaneWindow

STAMPS_MAX: Final = 4096
"""Remembered stamps, the latest: a neighbour echoes the last that it has."""

WRITE_S: Final = 0.001
"""Writes within this time count as one, so that many small ones are cheap to remember."""

TOGETHER_S: Final = 0.005
TOGETHER_SHARE: Final = 0.5
TOGETHER_COPIES: Final = 8
"""A write waits for what the lane carries in this time, or for this share of its window if that is less. It does not
wait if that is less than so many copies."""


class Write:
    """Copies that were written together."""

    __slots__ = ("at", "bytes", "copies")

    def __init__(self, at: float, copies: int, bytes: int) -> None:
        self.at = at
        self.copies = copies
        self.bytes = bytes


class Lane:
    """The direction of one link to the neighbour."""

    __slots__ = (
        "_confirmed", "_copy_bytes", "_last_us", "_sent", "_stamps", "_told", "_told_at", "_writes",
        "figures", "in_flight", "progress_at", "queue", "window",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.queue = LaneQueue()
        self.window = LaneWindow(now)
        self.figures = LaneFigures(now)
        self.in_flight = 0
        """Bytes of copies that were written, and of which the neighbour has not said that they have arrived."""
        self.progress_at = -inf
        """When the neighbour last said that copies have arrived."""
        self._sent = self._confirmed = 0
        """Copies that were written, and those that have arrived."""
        self._writes: deque[Write] = deque()
        """Those on their way."""
        self._copy_bytes = 0
        """Size of the copies that were written last."""
        self._stamps: deque[tuple[int, int]] = deque(maxlen=STAMPS_MAX)
        """Each stamp with the number of copies that were written before it."""
        self._last_us = 0
        self._told = False
        self._told_at = -inf
        """Whether the last stamp said that this lane waits, and since when."""

    @property
    def room(self) -> int:
        """Bytes of copies that may be written now. The last copy may exceed them, so they leave room for it. One copy
        may always be on its way. A small rest of the window counts as none, so that a write on a fast lane has many
        copies."""
        in_flight, window = self.in_flight, self.window
        limit = window.limit
        if not in_flight:
            return limit
        room = limit - in_flight - self._copy_bytes
        together = min(limit * TOGETHER_SHARE, window.capacity * TOGETHER_S)
        if together < TOGETHER_COPIES * self._copy_bytes:
            together = 0.0
        return room if room > 0 and room >= together else 0

    @property
    def drain_s(self) -> float:
        """The time that the lane needs for what waits and what is on its way, at its present capacity."""
        capacity = self.window.capacity
        return (self.queue.bytes + self.in_flight) / capacity if capacity and self.queue.items else 0.0

    @property
    def stamp_due(self) -> bool:
        """Whether the neighbour must learn that this lane waits: it echoes nothing else than stamps before."""
        return not self._told and self.in_flight > 0 and not self.room

    def silent_s(self, now: float) -> float:
        """Return for how long the neighbour has acknowledged nothing, although it knows that this lane waits."""
        return now - max(self._told_at, self.progress_at) if self._told and self._writes else 0.0

    def stamp(self, now: float) -> tuple[int, bool]:
        """Return the stamp of what is written now, and whether the lane waits."""
        self._last_us = at_us = max(self._last_us + 1, round(now * 1_000_000))
        self._stamps.append((at_us, self._sent))
        told, self._told = self._told, bool(self.queue) or not self.room
        if self._told and not told:
            self._told_at = now
        return at_us, self._told

    def note_backlog(self, now: float) -> None:
        """Note what waits, after copies have joined the queue and before some leave it, and once they have left."""
        self.figures.backlog_is(self.queue.items, self.queue.bytes, now)

    def wrote(self, size: int, copies: int, now: float) -> None:
        """Note that copies were written."""
        self.figures.wrote(size, copies, now)
        writes = self._writes
        self._sent += copies
        self.in_flight += size
        self._copy_bytes = size // copies
        if writes and now - writes[-1].at < WRITE_S:
            writes[-1].copies += copies
            writes[-1].bytes += size
        else:
            writes.append(Write(now, copies, size))

    def echoed(self, at_us: int, since: int, now: float) -> bool:
        """Take the echo of a stamp, and how many copies have arrived `since`. Return False if it acknowledges what was
        not sent: it confirms no more than was."""
        stamps = self._stamps
        if at_us > self._last_us:
            return False
        while stamps and stamps[0][0] < at_us:
            stamps.popleft()
        if not stamps or stamps[0][0] != at_us:
            return True  # of an old stamp
        arrived = stamps[0][1] + since
        news = min(arrived, self._sent) - self._confirmed
        if news > 0:
            self._confirmed += news
            self.progress_at = now
            in_flight, window = self.in_flight, self.window
            written_at = self._take(news)
            size, round_trip_s = in_flight - self.in_flight, now - written_at
            window.sample(written_at, now, size)
            limited = self.queue.items > 0 and not window.doubles
            self.figures.arrived(size, news, round_trip_s, window.base_s, limited=limited, now=now)
        return arrived <= self._sent

    def _take(self, copies: int) -> float:
        """Note that so many copies have arrived. Return when the last of them was written."""
        writes = self._writes
        while True:
            first = writes[0]
            if first.copies > copies:
                size = first.bytes * copies // first.copies
                first.copies -= copies
                first.bytes -= size
                self.in_flight -= size
                return first.at
            copies -= first.copies
            self.in_flight -= first.bytes
            writes.popleft()
            if not copies:
                return first.at
