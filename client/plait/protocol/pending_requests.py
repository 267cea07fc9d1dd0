"""Requests that the broker has not answered, by number, with their timeouts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto

from ..errors import LimitReached
from ..options.limits import REQUESTS_MAX
from .subscription_state import Terms


class Kind(Enum):
    SUBSCRIBE = auto()
    CHANGE = auto()
    UNSUBSCRIBE = auto()
    ADVERTISE = auto()
    UNADVERTISE = auto()
    ACKNOWLEDGE = auto()
    MANAGE = auto()


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the broker."""

    number: int
    kind: Kind
    about: int
    """The number of the subscription or advertisement."""
    encoded: bytes
    """Its frame, which is sent again on later connections."""
    terms: Terms | None = None
    """The new terms of the subscription; of a CHANGE only."""
    forget: bool = False
    """Whether the durable subscription's place in the log is given up; of an UNSUBSCRIBE only."""
    internal: bool = False
    """Whether the session itself sent the request, so that no caller waits for the answer."""


class PendingRequests:
    """All open requests, in the order in which they were sent."""

    def __init__(self) -> None:
        self._open: dict[int, Request] = {}
        self._timeouts: dict[int, float] = {}
        self.due_at = math.inf
        """The time of the next timeout, at the earliest: the request may have been answered meanwhile."""
        self._last = 0

    def number(self) -> int:
        """Return a number for the next request. Raise LimitReached when too many are open."""
        if len(self._open) >= REQUESTS_MAX:
            raise LimitReached(f"{REQUESTS_MAX} requests wait for an answer", retryable=True)
        self._last = self._last % (2**32 - 1) + 1
        return self._last

    def open(self, request: Request, deadline: float | None) -> None:
        """Add a request, with the time of its timeout."""
        self._open[request.number] = request
        if deadline is not None:
            self._timeouts[request.number] = deadline
            self.due_at = min(self.due_at, deadline)

    def replace(self, request: Request) -> None:
        """Replace an open request by another form of it. Its place and its timeout stay."""
        assert request.number in self._open
        self._open[request.number] = request

    def close(self, number: int) -> Request | None:
        """Remove a request. Return None if it is not open."""
        self._timeouts.pop(number, None)
        return self._open.pop(number, None)

    def all(self) -> list[Request]:
        """Return the open requests, oldest first."""
        return list(self._open.values())

    def due(self, now: float) -> list[Request]:
        """Remove and return the requests that have timed out."""
        if now < self.due_at:
            return []
        due = [number for number, at in self._timeouts.items() if at <= now]
        for number in due:
            del self._timeouts[number]
        self.due_at = min(self._timeouts.values(), default=math.inf)
        return [self._open.pop(number) for number in due]
