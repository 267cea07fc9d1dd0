"""The copies of events for one neighbour, from the plan of the strategy to the bytes on the link."""

from __future__ import annotations

from typing import TypeAlias

from plait_core.wire.delivery_writer import ForwardFields

EventCopy: TypeAlias = ForwardFields
"""One copy of an event: frame, tree, age in microseconds, flags, path with this broker last, and destinations. The
neighbour becomes responsible for exactly these destinations. It is a plain tuple: every event needs one."""


class CopyRun:
    """An output of the overlay: copies for one link, in order, which were made at the same time."""

    __slots__ = ("at", "copies", "flags", "link")

    def __init__(self, link: int, at: float) -> None:
        self.link = link
        self.copies: list[EventCopy] = []
        self.flags = 0
        """The flags of all copies together."""
        self.at = at
        """The time for which the copies state their ages."""
