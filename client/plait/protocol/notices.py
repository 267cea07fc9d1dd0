"""Notices of a subscription: gaps, late events, slow consumption and re-routes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..options.limits import NOTICES_MAX


@dataclass(frozen=True, slots=True)
class Gap:
    """Matching events that did not arrive, or may not have arrived."""

    reason: str
    """The broker's drop reason, or one of these. `queue_full`: dropped by this client's buffer. `reconnected`:
    published while there was no session. `connection_lost`: in flight when a resumed connection broke. `log_lost`: the
    broker has another log than before, and undelivered events of the old log are lost. `not_convertible`: the event
    does not convert to `as_`.

    Of sealed events that do not open: `missing_key`: no keys for the event's epoch. `stale_epoch`: the epoch is over,
    or has not begun. `replayed`: the event was opened before. `another_realm`: sealed in another realm.
    `not_authentic`: changed, or wrongly signed.
    """
    count: int = 0
    """Number of events; 0 if unknown. With `connection_lost`: of all the client's subscriptions together."""
    publisher: int = 0
    first: int = 0
    last: int = 0
    """Sequence numbers of the first and last event if all are of one publisher; else all three are 0."""


@dataclass(frozen=True, slots=True)
class Late:
    """Events that missed the subscription's delay bound."""

    count: int
    dropped: bool
    """Whether the events were dropped on their path (`late="drop"`), or delivered with `event.late` (`late="flag"`)."""


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """The application reads more slowly than events arrive: a queue is filling up."""

    where: str
    """The place of the queue: `client` or `broker`."""
    pending: int
    """Events in the queue; 0 if the number is not known."""


@dataclass(frozen=True, slots=True)
class Rerouted:
    """The events of a publisher take another path than before."""

    publisher: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    """Ids of the brokers on the path."""


Notice: TypeAlias = Gap | Late | SlowConsumer | Rerouted


class Notices:
    """A bounded queue of notices. Consecutive losses for one reason are merged into one notice."""

    __slots__ = ("forgotten", "items")

    def __init__(self) -> None:
        self.items: deque[Notice] = deque()
        self.forgotten = 0
        """Notices that were discarded because the queue was full."""

    def add(self, notice: Notice) -> None:
        last = self.items[-1] if self.items else None
        if isinstance(notice, Gap) and isinstance(last, Gap) and last.reason == notice.reason:
            self.items[-1] = _joined(last, notice)
        elif isinstance(notice, Late) and isinstance(last, Late) and last.dropped == notice.dropped:
            self.items[-1] = replace(last, count=last.count + notice.count)
        else:
            if len(self.items) >= NOTICES_MAX:
                self.items.popleft()
                self.forgotten += 1
            self.items.append(notice)


def _joined(earlier: Gap, later: Gap) -> Gap:
    count = earlier.count + later.count if earlier.count and later.count else 0
    if earlier.publisher and earlier.publisher == later.publisher:
        first, last = min(earlier.first, later.first), max(earlier.last, later.last)
        return Gap(earlier.reason, count, earlier.publisher, first, last)
    return Gap(earlier.reason, count)
