"""The copies of events that wait for one connection to another broker while it is full."""

from __future__ import annotations

from collections import deque
from typing import Final

from plait_core.wire import Forward

from .event_copy import EventCopy

RELAY_BYTES_MAX: Final = 16 << 20
"""Bytes of copies that wait for one connection, counted as on the wire; in memory they take up to seven times as many.
Further copies are dropped, and their publisher's broker retransmits them."""

COPY_BYTES: Final = 64
DESTINATION_BYTES: Final = 24
HOP_BYTES: Final = 8
"""Bytes of a copy besides its block: at least these, for each destination, and for each broker on its path."""


class RelayBuffer:
    """One connection's."""

    __slots__ = ("_bytes", "copies")

    def __init__(self) -> None:
        self.copies: deque[tuple[EventCopy, float]] = deque()
        """The copies that wait, in order, each with the time for which it states its age."""
        self._bytes = 0

    def add(self, copy: EventCopy, at: float) -> bool:
        """Append a copy. Return False if the buffer is full."""
        if self._bytes > RELAY_BYTES_MAX:
            return False
        self.copies.append((copy, at))
        self._bytes += _bytes_of(copy)
        return True

    def take(self, now: float) -> tuple[EventCopy, int]:
        """Remove the oldest copy. Return it with its present age, and how long it has waited, in microseconds."""
        copy, at = self.copies.popleft()
        self._bytes -= _bytes_of(copy)
        waited_us = round((now - at) * 1_000_000)
        frame, tree, delay_us, flags, path, destinations = copy
        return (frame, tree, delay_us + waited_us, flags, path, destinations), waited_us


def _bytes_of(copy: EventCopy) -> int:
    """Return the bytes of a copy with all that it keeps in memory: a neighbour's frame has other destinations, too."""
    frame, _, _, _, path, to = copy
    destinations = len(frame.destinations if isinstance(frame, Forward) else to)
    return COPY_BYTES + len(frame.block) + DESTINATION_BYTES * destinations + HOP_BYTES * len(path)
