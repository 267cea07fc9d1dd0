"""The events of sealing sessions that a reader has seen: none of them opens twice.

Bounded: at the bound, the publisher with the most sessions loses the one that ends first. From then on no unknown
session of this publisher that ends as early is accepted, because it may be the one that was forgotten. So very late
events are refused rather than replayed ones accepted, and a publisher of many sessions harms no other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

SESSIONS_SEEN_MAX: Final = 16_384
"""Sessions whose numbers are remembered: 8 KB each at the most, and some bytes for a session of few events."""


@dataclass(slots=True)
class _Publisher:
    ends: list[tuple[int, bytes]] = field(default_factory=list)
    """A heap of its sessions by their ends."""
    forgotten: tuple[int, bytes] = (0, b"")
    """The last of its sessions that was forgotten. Those that sort after it were not."""


class SeenEvents:
    """The numbers that one reader has seen, by session. Publishers are authentic ones."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, bytearray] = {}
        """A bit for each number."""
        self._publishers: dict[int, _Publisher] = {}
        """Those with sessions."""
        self._ended_us = 0
        """All sessions that ended earlier are forgotten."""

    def see(self, publisher: int, session: bytes, number: int, until_us: int) -> bool:
        """Record a number of a session that ends at this time. Return False if it was seen, or may have been."""
        seen = self._numbers.get(session)
        if seen is None:
            if until_us < self._ended_us:
                return False
            its = self._publishers.setdefault(publisher, _Publisher())
            if (until_us, session) <= its.forgotten:
                return False
            seen = self._numbers[session] = bytearray()
            heappush(its.ends, (until_us, session))
            if len(self._numbers) > SESSIONS_SEEN_MAX:
                self._make_room()
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(seen):
            seen.extend(bytes(place + 1 - len(seen)))
        if seen[place] & bit:
            return False
        seen[place] |= bit
        return True

    def unsee(self, session: bytes, number: int) -> None:
        """Let a number be seen again."""
        seen, place = self._numbers.get(session), number >> 3
        if seen is not None and place < len(seen):
            seen[place] &= ~(1 << (number & 7))

    def forget(self, ended_us: int) -> None:
        """Forget the sessions that ended before a time."""
        self._ended_us = max(self._ended_us, ended_us)
        for publisher, its in list(self._publishers.items()):
            while its.ends and its.ends[0][0] < ended_us:
                self._forget_first(its)
            if not its.ends:
                del self._publishers[publisher]

    def _make_room(self) -> None:
        """Forget a session of the publisher with the most. Of several, the one whose session ends first."""
        publisher, its = max(self._publishers.items(), key=lambda pair: (len(pair[1].ends), -pair[1].ends[0][0]))
        self._forget_first(its)
        if not its.ends:  # as many publishers as sessions: nothing may be remembered of a publisher without any
            self._ended_us = max(self._ended_us, its.forgotten[0] + 1)
            del self._publishers[publisher]

    def _forget_first(self, its: _Publisher) -> None:
        its.forgotten = heappop(its.ends)
        del self._numbers[its.forgotten[1]]
