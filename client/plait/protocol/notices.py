"""What a subscription did not get, or not in time: the items of `subscription.events()`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..options.limits import NOTICES_MAX


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that matched and did not come, or may not have come."""

    reason: str
    """`queue_full`: dropped here; `reconnected`: published while there was no session; `connection_lost`: on their way
    when a resumed connection broke; `log_lost`: the broker keeps another log than before, and what a durable
    subscription had not had of the old one is gone; `not_convertible`: not what `as_` needs; or the broker's reason.

    Of sealed events that do not open: `missing_key`: no keys of its epoch; `stale_epoch`: it is over, or has not begun;
    `replayed`: it was opened before; `another_realm`; `not_authentic`: changed, or not signed as it says."""
    count: int = 0
    """How many; 0 when that is not known. After `connection_lost`: of all the client's subscriptions together."""
    publisher: int = 0
    first: int = 0
    last: int = 0
    """Their first and last sequence number when all are of one publisher; else all three are 0."""


@dataclass(frozen=True, slots=True)
class Late:
    """Events that missed the subscription's delay bound."""

    count: int
    dropped: bool
    """Whether they were dropped on the way (`late="drop"`), or came with `event.late` set (`late="flag"`)."""


@dataclass(frozen=True, slots=True)
class SlowConsumer:
    """The application is slower than its events: the queue that is named fills up."""

    where: str
    """`client` or `broker`."""
    pending: int
    """Events that wait there; 0 when that is not known."""


@dataclass(frozen=True, slots=True)
class Rerouted:
    """A publisher's events come another way than before."""

    publisher: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    """Ids of the brokers passed."""


Notice: TypeAlias = Gap | Late | SlowConsumer | Rerouted


class Notices:
    """Notices that wait to be read, bounded. Losses in a row for one reason grow one notice instead of many."""

    __slots__ = ("forgotten", "items")

    def __init__(self) -> None:
        self.items: deque[Notice] = deque()
        self.forgotten = 0
        """Notices that nobody read before there were too many."""

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
