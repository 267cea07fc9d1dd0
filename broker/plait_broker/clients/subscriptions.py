"""A subscription at its home broker: a filter with an owner and terms, its queue, and what became of its events."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plait_core.filters import Filter
from plait_core.wire.frame_types.session_frames import Notice, NoticeKind, Subscribe

from ..drop_reasons import DropReason
from ..histograms import DelayHistogram
from .delivery_queue import DeliveryQueue, Queued

if TYPE_CHECKING:
    from .durable_subscriptions import DurableSubscription
    from .sessions import Session


@dataclass(slots=True)
class Gap:
    """Drops for one reason that the subscriber has not been told of yet."""

    count: int
    publisher: int
    """0, as `first` and `last`, when they are of several."""
    first: int
    last: int


class Subscription:
    """One open subscription. `number` names it in the broker, `id` in its session."""

    __slots__ = (
        "awaited",
        "delays",
        "delivered",
        "dropped",
        "durable",
        "ending",
        "filter",
        "gaps",
        "id",
        "late",
        "number",
        "outbox",
        "routing",
        "session",
        "since",
        "terms",
        "within_us",
    )

    def __init__(self, number: int, session: Session, terms: Subscribe, filter: Filter, outbox: DeliveryQueue) -> None:
        self.number = number
        self.id = terms.subscription
        self.session = session
        self.terms = terms
        self.within_us = terms.within_us
        self.filter = filter
        self.routing = terms.routing
        self.outbox = outbox
        self.durable: DurableSubscription | None = None
        self.since = 0.0
        """When it was opened, or its filter changed last, by the broker's own clock."""
        self.delivered = 0
        self.late = 0
        """Deliveries that came beyond its bound."""
        self.delays: DelayHistogram | None = None
        """Of its deliveries while it has a bound, with the way to its client: how the bound is kept."""
        self.dropped: Counter[DropReason] = Counter()
        self.gaps: dict[DropReason, Gap] = {}
        self.awaited: set[int] = set()
        """Tokens of deliveries that a publisher waits for."""
        self.ending: int | None = None
        """The request that ended it, to be answered when its queue has been delivered."""

    @property
    def slow(self) -> bool:
        """Whether it fell behind so far that its subscriber was told."""
        return self.outbox.slow

    @slow.setter
    def slow(self, slow: bool) -> None:
        self.outbox.slow = slow

    def timed(self, delay_us: int, late: int) -> None:
        """A delivery is written: how long it will have been under way, and whether that is too long."""
        self.late += late
        if self.delays is None:
            self.delays = DelayHistogram()
        self.delays.observe(max(0, delay_us + self.session.link_delay_us))

    def drop(self, entry: Queued, reason: DropReason) -> None:
        """Account for one delivery that will not be."""
        self.dropped[reason] += 1
        frame, gap = entry.frame, self.gaps.get(reason)
        if gap is None:
            self.gaps[reason] = Gap(1, frame.publisher, frame.sequence, frame.sequence)
            return
        gap.count += 1
        if gap.publisher == frame.publisher:
            gap.first, gap.last = min(gap.first, frame.sequence), max(gap.last, frame.sequence)
        else:
            gap.publisher = gap.first = gap.last = 0

    def take_notices(self) -> list[Notice]:
        """The notices of drops not told of yet, one for each reason."""
        gaps, self.gaps = self.gaps, {}
        return [
            Notice(self.id, NoticeKind.GAP, reason, gap.count, gap.publisher, gap.first, gap.last)
            for reason, gap in gaps.items()
        ]
