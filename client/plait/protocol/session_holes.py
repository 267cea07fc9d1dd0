"""Holes in the numbers of sealing sessions: events that somebody on the path withholds.

A session's events are numbered without holes, and the numbers are sealed. So a reader that gets all events of a session
notices a number that does not come. It does not notice the loss of a session's first or last events. Bounded: sessions
that are not read any more are forgotten, the least recently used first.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

OPEN_S: Final = 5.0
"""Time for which a hole may stay open: an event that takes another path arrives later than its successors."""

SESSIONS_MAX: Final = 1024
HOLES_MAX: Final = 4096
"""Open holes of one session. What exceeds them is reported at once."""


@dataclass(slots=True)
class _Numbers:
    next: int
    holes: dict[int, float] = field(default_factory=dict)
    """Missing numbers, each with the time at which it is reported."""


class SessionHoles:
    """The numbers that one reader has seen of each session."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[bytes, _Numbers] = OrderedDict()

    def saw(self, session: bytes, number: int, now: float) -> int:
        """Take the number of an event. Return how many events are missing that cannot be waited for."""
        numbers = self._sessions.get(session)
        if numbers is None:
            self._sessions[session] = _Numbers(number + 1)
            return self._forget_oldest()
        self._sessions.move_to_end(session)
        if number < numbers.next:
            numbers.holes.pop(number, None)
            return 0
        room = HOLES_MAX - len(numbers.holes)
        missing = range(numbers.next, number)
        numbers.holes |= dict.fromkeys(missing[:room], now + OPEN_S)
        numbers.next = number + 1
        return max(0, len(missing) - room)

    def overdue(self, now: float) -> int:
        """Return how many events have been missing for too long, once."""
        found = 0
        for numbers in self._sessions.values():
            over = [number for number, until in numbers.holes.items() if until <= now]
            for number in over:
                del numbers.holes[number]
            found += len(over)
        return found

    @property
    def next_at(self) -> float | None:
        """The time at which `overdue` has the next answer, or None without holes."""
        return min((until for numbers in self._sessions.values() for until in numbers.holes.values()), default=None)

    def _forget_oldest(self) -> int:
        if len(self._sessions) <= SESSIONS_MAX:
            return 0
        _, numbers = self._sessions.popitem(last=False)
        return len(numbers.holes)
