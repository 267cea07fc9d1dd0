"""Notices of a subscription: gaps, late events, slow consumption and re-routes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Gap:
    """Matching events that did not arrive, or may not have arrived."""

    reason: str
    """The broker's drop reason, or one of these. `queue_full`: dropped by this client's buffer. `reconnected`:
    published while there was no session. `connection_lost`: in flight when a resumed connection broke. `log_lost`: the
    broker has another log than before, and undelivered events of the old log are lost. `not_convertible`: the event
    does not convert to `as_`.

    Of sealed events that do not open: `missing_key`: no keys for the event's epoch. `stale_epoch`: the epoch is over,
    or has not begun. `replayed`: the event was opened before, or published before this reader can tell.
    `another_realm`: sealed in another realm. `expired`: its sealed lifetime is over. `not_authentic`: changed, or
    wrongly signed. `missing`: events of a sealing session did not arrive within five seconds of their successors. It is
    reported where brokers see no condition of the filter. Events that a broker or this client dropped are among them.
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
"""An item of `subscription.notices()`."""


def add_notice(queue: deque[Notice], notice: Notice) -> None:
    """Append a notice to a queue. Consecutive losses for one reason are merged into one notice."""
    last = queue[-1] if queue else None
    if isinstance(notice, Gap) and isinstance(last, Gap) and last.reason == notice.reason:
        queue[-1] = _joined(last, notice)
    elif isinstance(notice, Late) and isinstance(last, Late) and last.dropped == notice.dropped:
        queue[-1] = replace(last, count=last.count + notice.count)
    else:
        queue.append(notice)


def _joined(earlier: Gap, later: Gap) -> Gap:
    count = earlier.count + later.count if earlier.count and later.count else 0
    if earlier.publisher and earlier.publisher == later.publisher:
        first, last = min(earlier.first, later.first), max(earlier.last, later.last)
        return Gap(earlier.reason, count, earlier.publisher, first, last)
    return Gap(earlier.reason, count)
