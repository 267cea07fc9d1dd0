"""A subscription's queue at its home broker: bounded in items and bytes, ordered by priority, then by arrival.

It is used only while the subscriber's connection takes nothing. The subscription's policy decides what is dropped when
it is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from plait_core.events import EventId
from plait_core.limits import PRIORITY_MAX
from plait_core.wire import EventFrame
from plait_core.wire.frame_types.session_frames import Full

from ..drop_reasons import DropReason


class Queued(NamedTuple):
    """One delivery that waits."""

    frame: EventFrame
    arrived: float
    """Time at which the broker received the event, by its own clock."""
    delay_us: int
    """Delay that the event had accumulated by then."""
    flags: int
    token: int
    """Token of the subscriber's acknowledgement; 0 if none is awaited."""

    @property
    def size(self) -> int:
        """Bytes that it counts against the bounds."""
        return len(self.frame.block)


class QueueBounds(NamedTuple):
    """How much a queue may hold, and what happens beyond that."""

    items_max: int
    bytes_max: int
    full: Full


@dataclass(slots=True)
class Waiting:
    """Running totals of all queues of a broker, so that reading them visits no subscription."""

    items: int = 0
    bytes: int = 0
    slow: int = 0
    """Subscriptions whose subscriber was notified that it is slow."""


class DeliveryQueue:
    """Waiting deliveries of one subscription."""

    __slots__ = ("_lanes", "_slow", "_waiting", "bytes", "bytes_max", "full", "items", "items_max")

    def __init__(self, items_max: int, bytes_max: int, full: Full, waiting: Waiting | None = None) -> None:
        """`waiting`: the totals to update."""
        assert min(items_max, bytes_max) > 0
        self._waiting = waiting if waiting is not None else Waiting()
        self._slow = False
        self.items_max = items_max
        self.bytes_max = bytes_max
        self.full = full
        self.items = 0
        self.bytes = 0
        self._lanes: dict[int, deque[Queued]] = {}

    def __len__(self) -> int:
        return self.items

    @property
    def bounds(self) -> QueueBounds:
        """Its bounds and its policy. Queued deliveries beyond new bounds are dropped when the next one comes."""
        return QueueBounds(self.items_max, self.bytes_max, self.full)

    @bounds.setter
    def bounds(self, bounds: QueueBounds) -> None:
        self.items_max, self.bytes_max, self.full = bounds

    @property
    def slow(self) -> bool:
        """Whether the subscriber was notified that it is slow, and the queue has not been empty since."""
        return self._slow

    @slow.setter
    def slow(self, slow: bool) -> None:
        self._waiting.slow += slow - self._slow
        self._slow = slow

    def put(self, entry: Queued, room: int) -> list[tuple[Queued, DropReason]]:
        """Queue a delivery, and return what was dropped for it or instead of it. `room`: bytes that the client has
        left."""
        dropped: list[tuple[Queued, DropReason]] = []
        while reason := self._no_room(entry, room):
            victim = self._oldest(entry.frame.priority) if self._makes_room(entry, room) else None
            if victim is None:
                dropped.append((entry, reason))
                return dropped
            room += victim.size
            dropped.append((victim, reason))
        self._lanes.setdefault(entry.frame.priority, deque()).append(entry)
        self._count(1, entry.size)
        assert self.items <= self.items_max
        assert self.bytes <= self.bytes_max
        return dropped

    def pop(self) -> Queued | None:
        """Remove and return the next delivery: the oldest of the highest priority."""
        for priority in range(PRIORITY_MAX, -1, -1):
            lane = self._lanes.get(priority)
            if lane:
                return self._taken(lane, lane.popleft())
        return None

    def find(self, id: EventId) -> tuple[int, Queued] | None:
        """Return how many deliveries precede an event's, and its delivery. None: it is not queued."""
        before = 0
        for priority in range(PRIORITY_MAX, -1, -1):
            for entry in self._lanes.get(priority, ()):
                if entry.frame.id == id:
                    return before, entry
                before += 1
        return None

    def clear(self) -> Iterator[Queued]:
        """Empty the queue in the order of sending, and reset `slow`."""
        while (entry := self.pop()) is not None:
            yield entry
        self.slow = False

    def _no_room(self, entry: Queued, room: int) -> DropReason | None:
        if self.items >= self.items_max:
            return DropReason.OUTBOX_ITEMS
        too_large = entry.size > room or self.bytes + entry.size > self.bytes_max
        return DropReason.OUTBOX_BYTES if too_large else None

    def _makes_room(self, entry: Queued, room: int) -> bool:
        """Return whether the policy allows to drop others, and that could help."""
        return self.full is Full.DROP_OLDEST and entry.size <= min(self.bytes_max, room + self.bytes)

    def _oldest(self, priority_max: int) -> Queued | None:
        """Remove and return the oldest delivery of the lowest priority, up to this priority."""
        for priority in range(priority_max + 1):
            lane = self._lanes.get(priority)
            if lane:
                return self._taken(lane, lane.popleft())
        return None

    def _taken(self, lane: deque[Queued], entry: Queued) -> Queued:
        self._count(-1, -entry.size)
        if not lane:
            self._lanes.pop(entry.frame.priority, None)
        return entry

    def _count(self, items: int, bytes: int) -> None:
        self.items += items
        self.bytes += bytes
        self._waiting.items += items
        self._waiting.bytes += bytes
