"""A subscription's queue at its home broker: bounded in items and bytes, first by priority, then by arrival.

It is used only while the subscriber's connection takes nothing; what does not fit is dropped by the policy that the
subscription declared, and named.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from plait_core.limits import PRIORITY_MAX
from plait_core.wire import EventFrame
from plait_core.wire.session_frames import Full

from .reasons import DropReason


class Queued(NamedTuple):
    """One delivery that waits."""

    frame: EventFrame
    arrived: float
    """When the broker received the event, by its own clock."""
    delay_us: int
    """The delay that it had accumulated by then."""
    flags: int
    token: int
    """What the subscriber acknowledges it by; 0 when nobody waits for that."""

    @property
    def size(self) -> int:
        return len(self.frame.block)


class Outbox:
    """Deliveries of one subscription, waiting."""

    __slots__ = ("_lanes", "bytes", "bytes_max", "full", "items", "items_max")

    def __init__(self, items_max: int, bytes_max: int, full: Full) -> None:
        assert min(items_max, bytes_max) > 0
        self.items_max = items_max
        self.bytes_max = bytes_max
        self.full = full
        self.items = 0
        self.bytes = 0
        self._lanes: dict[int, deque[Queued]] = {}

    def __len__(self) -> int:
        return self.items

    def put(self, entry: Queued, room: int) -> list[tuple[Queued, DropReason]]:
        """Queue a delivery where the client has `room` bytes left; what was dropped for it, or instead of it."""
        dropped: list[tuple[Queued, DropReason]] = []
        while reason := self._no_room(entry, room):
            victim = self._oldest(entry.frame.priority) if self._makes_room(entry, room) else None
            if victim is None:
                dropped.append((entry, reason))
                return dropped
            room += victim.size
            dropped.append((victim, reason))
        self._lanes.setdefault(entry.frame.priority, deque()).append(entry)
        self.items += 1
        self.bytes += entry.size
        assert self.items <= self.items_max
        assert self.bytes <= self.bytes_max
        return dropped

    def pop(self) -> Queued | None:
        """The next to be sent: highest priority, longest there."""
        for priority in range(PRIORITY_MAX, -1, -1):
            lane = self._lanes.get(priority)
            if lane:
                return self._taken(lane, lane.popleft())
        return None

    def clear(self) -> Iterator[Queued]:
        """Empties it, in the order of sending."""
        while (entry := self.pop()) is not None:
            yield entry

    def _no_room(self, entry: Queued, room: int) -> DropReason | None:
        if self.items >= self.items_max:
            return DropReason.OUTBOX_ITEMS
        too_large = entry.size > room or self.bytes + entry.size > self.bytes_max
        return DropReason.OUTBOX_BYTES if too_large else None

    def _makes_room(self, entry: Queued, room: int) -> bool:
        """Whether dropping others is allowed, and could help."""
        return self.full is Full.DROP_OLDEST and entry.size <= min(self.bytes_max, room + self.bytes)

    def _oldest(self, priority_max: int) -> Queued | None:
        """Takes out the oldest of the lowest priority, unless that is above the newcomer's."""
        for priority in range(priority_max + 1):
            lane = self._lanes.get(priority)
            if lane:
                return self._taken(lane, lane.popleft())
        return None

    def _taken(self, lane: deque[Queued], entry: Queued) -> Queued:
        self.items -= 1
        self.bytes -= entry.size
        if not lane:
            self._lanes.pop(entry.frame.priority, None)
        return entry
