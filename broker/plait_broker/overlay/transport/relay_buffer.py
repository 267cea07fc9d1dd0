"""The copies of events that wait for one connection to another broker while it is full."""

from __future__ import annotations

from collections import deque
from typing import Final

from .event_copy import EventCopy

RELAY_BYTES_MAX: Final = 16 << 20
"""Bytes of copies that wait for one connection. Further copies are dropped, and their publisher's broker retransmits
them."""


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
        self._bytes += len(copy.frame.block)
        return True

    def take(self) -> EventCopy:
        """Remove the oldest copy and return it."""
        copy = self.copies.popleft()
        self._bytes -= len(copy.frame.block)
        return copy
