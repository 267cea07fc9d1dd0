"""The copies that wait in one lane: in order within each stream, by priority between streams.

Copies that have a destination in common, from one root, are of one stream and stay in order. So they wait in one line.
The line with the event of the highest priority at its head is written first; lines of equal priority take turns. A copy
for destinations of several lines joins these lines into one.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import merge
from typing import Final, TypeAlias

from plait_core.limits import PRIORITY_MAX
from plait_core.wire import Forward

from .event_copy import EventCopy

QUEUE_BYTES_MAX: Final = 16 << 20
"""Bytes of copies that wait in one lane, counted as on the wire; in memory they take up to seven times as many. Further
copies are dropped, and their publisher's broker retransmits them. Streams' windows keep a lane below this."""

JOINED_MAX: Final = 1024
"""Copies in the lines that one copy may join. A copy that would join more is refused, and retransmitted to each of its
destinations alone: a neighbour could make up such copies, and joining takes a microsecond for each that waits."""

COPY_BYTES: Final = 64
DESTINATION_BYTES: Final = 24
HOP_BYTES: Final = 8
"""Bytes of a copy besides its block: at least these, for each destination, and for each broker on its path."""

Key: TypeAlias = tuple[int, int]
"""Root and destination: a stream."""

Item: TypeAlias = tuple[int, EventCopy, float, int]
"""Number in order of arrival, the copy, the time for which it states its age, and its bytes."""


class Line:
    """Copies that stay in order."""

    __slots__ = ("items", "keys", "priority")

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.keys: list[Key] = []
        self.priority = 0


class LaneQueue:
    """The queue of one lane."""

    __slots__ = ("_arrived", "_by_key", "_ready", "bytes", "items")

    def __init__(self) -> None:
        self.items = 0
        self.bytes = 0
        self._arrived = 0
        self._by_key: dict[Key, Line] = {}
        self._ready: list[OrderedDict[Line, None]] = [OrderedDict() for _ in range(PRIORITY_MAX + 1)]
        """By the priority of their first copy, the lines in turn."""

    def __len__(self) -> int:
        return self.items

    def add(self, copy: EventCopy, at: float) -> bool:
        """Append a copy. Return False if the queue is full."""
        if self.bytes > QUEUE_BYTES_MAX:
            return False
        line = self._line(copy)
        if line is None:
            return False
        self._arrived += 1
        size = bytes_of(copy)
        line.items.append((self._arrived, copy, at, size))
        if len(line.items) == 1:
            self._enter(line)
        self.items += 1
        self.bytes += size
        return True

    def take(self, now: float) -> tuple[EventCopy, int]:
        """Remove the next copy. Return it with its present age, and how long it has waited, in microseconds."""
        lines = next(lines for lines in reversed(self._ready) if lines)
        line, _ = lines.popitem(last=False)
        _, copy, at, size = line.items.popleft()
        if line.items:
            self._enter(line)
        else:
            for key in line.keys:
                del self._by_key[key]
        self.items -= 1
        self.bytes -= size
        waited_us = round((now - at) * 1_000_000)
        frame, tree, delay_us, flags, path, destinations = copy
        return (frame, tree, delay_us + waited_us, flags, path, destinations), waited_us

    def oldest_at(self) -> float | None:
        """Return the time since which the next copy waits, or None if none does."""
        return min((line.items[0][2] for lines in self._ready for line in lines), default=None)

    def _enter(self, line: Line) -> None:
        line.priority = line.items[0][1][0].priority
        self._ready[line.priority][line] = None

    def _line(self, copy: EventCopy) -> Line | None:
        """Return the line of a copy, which has all its streams from now on; None if too much would be joined."""
        path, destinations = copy[4], copy[5]
        root, by_key = path[0], self._by_key
        if len(destinations) == 1:  # the common case
            key = (root, destinations[0][0])
            line = by_key.get(key)
            if line is None:
                line = by_key[key] = Line()
                line.keys.append(key)
            return line
        keys = [(root, destination[0]) for destination in destinations]
        lines = list(dict.fromkeys(line for key in keys if (line := by_key.get(key)) is not None))
        if len(lines) > 1 and sum(len(line.items) for line in lines) > JOINED_MAX:
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
            del self._ready[line.priority][line]
        first.items = deque(merge(*(line.items for line in lines), key=_number))
        for line in others:
            first.keys += line.keys
            self._by_key.update(dict.fromkeys(line.keys, first))
        self._enter(first)
        return first


def _number(item: Item) -> int:
    return item[0]


def bytes_of(copy: EventCopy) -> int:
    """Return the bytes of a copy with all that it keeps in memory: a neighbour's frame has other destinations, too."""
    frame, _, _, _, path, to = copy
    destinations = len(frame.destinations if isinstance(frame, Forward) else to)
    return COPY_BYTES + len(frame.block) + DESTINATION_BYTES * destinations + HOP_BYTES * len(path)
