"""What the broker was asked and has not answered: by number, with a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from plait_core.wire import ControlFrame

from ..errors import LimitReached
from ..options.limits import REQUESTS_MAX
from .deadlines import Deadlines
from .subscription_state import Terms


class Kind(Enum):
    SUBSCRIBE = auto()
    CHANGE = auto()
    UNSUBSCRIBE = auto()
    ADVERTISE = auto()
    UNADVERTISE = auto()
    ACKNOWLEDGE = auto()


@dataclass(frozen=True, slots=True)
class Request:
    """One question. `frame` asks it, again if need be."""

    number: int
    kind: Kind
    about: int
    """The subscription or advertisement."""
    frame: ControlFrame
    terms: Terms | None = None
    """Of a change: what the subscription's terms become."""
    internal: bool = False
    """Asked by the session itself after a reconnect: nobody waits for the answer."""


class PendingRequests:
    """All questions that are open, in the order in which they were asked."""

    def __init__(self) -> None:
        self._open: dict[int, Request] = {}
        self._deadlines: Deadlines[int] = Deadlines()
        self._last = 0

    def number(self) -> int:
        """A number for the next request."""
        if len(self._open) >= REQUESTS_MAX:
            raise LimitReached(f"{REQUESTS_MAX} requests wait for an answer", retryable=True)
        self._last = self._last % (2**32 - 1) + 1
        return self._last

    def open(self, request: Request, deadline: float | None) -> None:
        """A request is being asked."""
        self._open[request.number] = request
        if deadline is not None:
            self._deadlines.set(request.number, deadline)

    def close(self, number: int) -> Request | None:
        """The answer came, or nobody waits for it any more."""
        self._deadlines.discard(number)
        return self._open.pop(number, None)

    def all(self) -> list[Request]:
        """Open requests, oldest first."""
        return list(self._open.values())

    def due(self, now: float) -> list[Request]:
        """Takes those whose time is up."""
        return [self._open.pop(number) for number in self._deadlines.due(now)]

    def next_deadline(self) -> float | None:
        """When the next one's time is up."""
        return self._deadlines.next()
