"""The events of sealing sessions that a reader has seen: none of them opens twice.

Bounded: the session that ends first is forgotten first. From then on no unknown session that ends as early is accepted,
because it may be the one that was forgotten. So very late events are refused rather than replayed ones accepted.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

SESSIONS_SEEN_MAX: Final = 16_384
"""Sessions whose numbers are remembered: 8 KB each at the most, and some bytes for a session of few events."""


class SeenEvents:
    """The numbers that one reader has seen, by session."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, bytearray] = {}
        """A bit for each number."""
        self._ends: list[tuple[int, bytes]] = []
        """A heap of the sessions by their ends."""
        self._forgotten_us = 0
        """The latest end of a session that was forgotten."""

    def see(self, session: bytes, number: int, until_us: int) -> bool:
        """Record a number of a session that ends at this time. Return False if it was seen, or may have been."""
        seen = self._numbers.get(session)
        if seen is None:
            if until_us <= self._forgotten_us:
                return False
            seen = self._numbers[session] = bytearray()
            heappush(self._ends, (until_us, session))
            if len(self._ends) > SESSIONS_SEEN_MAX:
                self._forget_first()
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
        while self._ends and self._ends[0][0] < ended_us:
            self._forget_first()

    def _forget_first(self) -> None:
        self._forgotten_us, session = heappop(self._ends)
        del self._numbers[session]
