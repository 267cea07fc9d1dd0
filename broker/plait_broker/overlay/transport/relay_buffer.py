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
        self.copies: deque[EventCopy] = deque()
        """The copies that wait, in order."""
        self._bytes = 0

    def add(self, copy: EventCopy) -> bool:
        """Append a copy. Return False if the buffer is full."""
        if self._bytes > RELAY_BYTES_MAX:
            return False
        self.copies.append(copy)
        self._bytes += _bytes_of(copy)
        return True

    def take(self) -> EventCopy:
        """Remove the oldest copy and return it."""
        copy = self.copies.popleft()
        self._bytes -= _bytes_of(copy)
        return copy


def _bytes_of(copy: EventCopy) -> int:
    """Return the bytes of a copy with all that it keeps in memory: a neighbour's frame has other destinations, too."""
    frame = copy.frame
    destinations = len(frame.destinations if isinstance(frame, Forward) else copy.destinations)
    return COPY_BYTES + len(frame.block) + DESTINATION_BYTES * destinations + HOP_BYTES * len(copy.path)
