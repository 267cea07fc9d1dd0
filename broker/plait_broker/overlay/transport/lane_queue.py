"""The copies that wait in one lane: in order within each stream, by priority between streams.

Copies that have a destination in common, from one root, are of one stream and stay in order. So they wait in one line.
The line with the event of the highest priority at its head is written first; lines of equal priority take turns. A copy
for destinations of several lines joins these lines into one.

Copies wait in runs, which are of one line, one priority and one time. A busy lane then takes a step for each run, in
place of one for each copy.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from heapq import merge
from typing import Final, TypeAlias

from plait_core.wire import Forward
from plait_core.wire.delivery_writer import common_stream
from plait_core.wire.frame_types.group_frames import GroupBatch

from .event_copy import EventCopy

QUEUE_BYTES_MAX: Final = 16 << 20
"""Bytes of copies that wait in one lane, counted as on the wire; in memory they take up to seven times as many. Further
copies are dropped, and their publisher's broker retransmits them. Streams' windows keep a lane below this."""

JOINED_MAX: Final = 1024
"""Runs in the lines that one copy may join. A copy that would join more is refused, and retransmitted to each of its
destinations alone: a neighbour could make up such copies, and joining takes a microsecond for each run."""

COPY_BYTES: Final = 64
DESTINATION_BYTES: Final = 24
HOP_BYTES: Final = 8
"""Bytes of a copy besides its block: at least these, for each destination, and for each broker on its path."""

Key: TypeAlias = tuple[int, int]
"""Root and destination: a stream. Root and the complement of an epoch, which is negative: a stream group."""


class WaitingRun:
    """Copies that wait, of one line and one priority, and since one time."""

    __slots__ = ("at", "batches", "bytes", "copies", "flags", "number", "priority")

    def __init__(self, number: int, at: float, priority: int) -> None:
        self.number = number
        """In order of arrival."""
        self.at = at
        """The time for which the copies state their ages."""
        self.priority = priority
        self.copies: list[EventCopy] = []
        self.batches: list[GroupBatch] = []
        """Events of a stream group, in place of copies."""
        self.bytes = 0
        self.flags = 0
        """The flags of all copies together."""

    def add(self, copies: Sequence[EventCopy], size: int, flags: int) -> None:
        """Append copies."""
        self.copies += copies
        self.bytes += size
        self.flags |= flags

    def waited_us(self, now: float) -> int:
        """Return how long the copies have waited, in microseconds."""
        return round((now - self.at) * 1_000_000)


class Line:
    """Copies that stay in order."""

    __slots__ = ("keys", "priority", "runs")

    def __init__(self) -> None:
        self.runs: deque[WaitingRun] = deque()
        self.keys: list[Key] = []
        self.priority = 0


class LaneQueue:
    """The queue of one lane."""

    __slots__ = ("_arrived", "_by_key", "_ready", "bytes", "items")

    def __init__(self) -> None:
        self.items = 0
        """Copies."""
        self.bytes = 0
        self._arrived = 0
        self._by_key: dict[Key, Line] = {}
        self._ready: dict[int, OrderedDict[Line, None]] = {}
        """By the priority of their first copy, the lines in turn. No priority is there without lines."""

    def __len__(self) -> int:
        return self.items

    def add_all(self, copies: Sequence[EventCopy], at: float) -> int:
        """Append copies, which state their ages for the time `at`. Return how many were refused: the queue is full."""
        common = common_stream(copies)
        if common is not None:
            root, destination, priority, flags, block_bytes, hops = common
            size = block_bytes + len(copies) * (COPY_BYTES + DESTINATION_BYTES) + hops * HOP_BYTES
            if self.bytes + size <= QUEUE_BYTES_MAX:
                self._append(self._line_of((root, destination)), copies, size, priority, flags, at)
                return 0
        return sum(not self.add(copy, at) for copy in copies)

    def add(self, copy: EventCopy, at: float) -> bool:
        """Append a copy. Return False if the queue is full."""
        if self.bytes > QUEUE_BYTES_MAX:
            return False
        line = self._line(copy)
        if line is None:
            return False
        self._append(line, (copy,), bytes_of(copy), copy[0].priority, copy[3], at)
        return True

    def add_batch(self, batch: GroupBatch, at: float, priority: int = 0) -> bool:
        """Append events of a stream group, which are of one line. Return False if the queue is full. `priority`: the
        highest of the events, for they leave together."""
        if self.bytes > QUEUE_BYTES_MAX:
            return False
        line = self._line_of((batch.root, ~batch.epoch))
        self._append(line, (), COPY_BYTES + len(batch.events), priority, 0, at)
        line.runs[-1].batches.append(batch)
        self.items += 1
        return True

    @property
    def first(self) -> WaitingRun:
        """The run to write next."""
        return self._first_line().runs[0]

    @property
    def shared(self) -> bool:
        """Whether other lines take turns with the next one, or may overtake it."""
        return len(self._ready) > 1 or any(len(lines) > 1 for lines in self._ready.values())

    def remove(self, count: int) -> None:
        """Remove this many copies of the next run, which are written. Its line has had its turn."""
        line = self._first_line()
        run = line.runs[0]
        waiting = run.batches or run.copies
        left = len(waiting) - count
        size = run.bytes if not left else run.bytes * count // len(waiting)
        self._leave(line)
        if left:
            del waiting[:count]
            run.bytes -= size
        else:
            line.runs.popleft()
        self.items -= count
        self.bytes -= size
        if line.runs:
            self._enter(line)
        else:
            for key in line.keys:
                del self._by_key[key]

    def oldest_at(self) -> float | None:
        """Return the time since which the next copy waits, or None if none does."""
        return min((line.runs[0].at for lines in self._ready.values() for line in lines), default=None)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _first_line(self) -> Line:
        return next(iter(self._ready[max(self._ready)]))

    def _append(self, line: Line, copies: Sequence[EventCopy], size: int, priority: int, flags: int, at: float) -> None:
        runs = line.runs
        if not runs or runs[-1].at != at or runs[-1].priority != priority:
            self._arrived += 1
            runs.append(WaitingRun(self._arrived, at, priority))
            if len(runs) == 1:
                self._enter(line)
        runs[-1].add(copies, size, flags)
        self.items += len(copies)
        self.bytes += size

    def _enter(self, line: Line) -> None:
        line.priority = line.runs[0].priority
        self._ready.setdefault(line.priority, OrderedDict())[line] = None

    def _leave(self, line: Line) -> None:
        lines = self._ready[line.priority]
        del lines[line]
        if not lines:
            del self._ready[line.priority]

    def _line_of(self, key: Key) -> Line:
        """Return the line of one stream."""
        line = self._by_key.get(key)
        if line is None:
            line = self._by_key[key] = Line()
            line.keys.append(key)
        return line

    def _line(self, copy: EventCopy) -> Line | None:
        """Return the line of a copy, which has all its streams from now on; None if too much would be joined."""
        path, destinations = copy[4], copy[5]
        root, by_key = path[0], self._by_key
        if len(destinations) == 1:  # the common case
            return self._line_of((root, destinations[0][0]))
        keys = [(root, destination[0]) for destination in destinations]
        lines = list(dict.fromkeys(line for key in keys if (line := by_key.get(key)) is not None))
        if len(lines) > 1 and sum(len(line.runs) for line in lines) > JOINED_MAX:
            return None
        line = self._joined(lines) if lines else Line()
        for key in keys:
            if key not in by_key:
                by_key[key] = line
                line.keys.append(key)
        return line

    def _joined(self, lines: list[Line]) -> Line:
        first, others = lines[0], lines[1:]
        if not others:
            return first
        for line in lines:
            self._leave(line)
        first.runs = deque(merge(*(line.runs for line in lines), key=_number))
        for line in others:
            first.keys += line.keys
            self._by_key.update(dict.fromkeys(line.keys, first))
        self._enter(first)
        return first


def _number(run: WaitingRun) -> int:
    return run.number


def bytes_of(copy: EventCopy) -> int:
    """Return the bytes of a copy with all that it keeps in memory: a neighbour's frame has other destinations, too."""
    frame, _, _, _, path, to = copy
    destinations = len(frame.destinations if isinstance(frame, Forward) else to)
    return COPY_BYTES + len(frame.block) + DESTINATION_BYTES * destinations + HOP_BYTES * len(path)
