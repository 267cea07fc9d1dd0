"""Holes in the numbers of sealing sessions: events that somebody on the path withholds.

A session's events are numbered without holes, and the numbers are sealed. So a reader that gets all events of a session
notices a number that does not come. It does not notice the loss of a session's first or last events, nor of a whole
session. Bounded: at most HOLES_MAX numbers are waited for, and sessions that are not read any more are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Final

OPEN_S: Final = 5.0
"""Time for which a hole may stay open: an event that takes another path arrives later than its successors."""

SESSIONS_MAX: Final = 1024
HOLES_MAX: Final = 4096
"""Missing numbers that are waited for. What exceeds them is missing at once."""


class SessionHoles:
    """The numbers that one reader has seen of each session."""

    def __init__(self) -> None:
        self._next: OrderedDict[bytes, int] = OrderedDict()
        """For each session, the number after the highest."""
        self._waiting: deque[tuple[float, bytes, int]] = deque()
        """Numbers in the order in which they are given up, with the time; some have come meanwhile."""
        self._open: set[tuple[bytes, int]] = set()
        self._given_up = 0

    def saw(self, session: bytes, number: int, now: float) -> None:
        """Take the number of an event."""
        expected = self._next.get(session)
        if expected is not None and number < expected:
            self._open.discard((session, number))
            return
        if expected is not None:
            missing = range(expected, number)
            room = max(0, HOLES_MAX - len(self._waiting))
            for hole in missing[:room]:
                self._waiting.append((now + OPEN_S, session, hole))
                self._open.add((session, hole))
            self._given_up += max(0, len(missing) - room)
        self._next[session] = number + 1
        self._next.move_to_end(session)
        if len(self._next) > SESSIONS_MAX:
            self._next.popitem(last=False)

    def overdue(self, now: float) -> int:
        """Return how many events have been missing for too long, once."""
        while self._waiting and self._waiting[0][0] <= now:
            _, session, number = self._waiting.popleft()
            if (session, number) in self._open:
                self._open.discard((session, number))
                self._given_up += 1
        found, self._given_up = self._given_up, 0
        return found

    @property
    def next_at(self) -> float | None:
        """The time at which `overdue` may have an answer, or None without holes."""
        if self._given_up:
            return 0.0
        return self._waiting[0][0] if self._waiting else None
