"""The last step of the pipeline: deliveries onto connections, or into outboxes while connections take nothing.

Here delay bounds and lifetimes are checked, policies drop, and every drop is counted, named to its subscriber and
reported to whoever waits for confirmation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Final

from plait_core.wire import ControlFrame, EventFrame, Forward
from plait_core.wire.delivery_writer import DeliveryFields
from plait_core.wire.frame_types.session_frames import CONFIRM, LATE, Full, Late, Notice, NoticeKind

from ..counters import Counters
from ..drop_reasons import DropReason
from ..settings import BrokerSettings
from ..telemetry.event_records import BrokerTelemetry
from ..tracing.explainer import Explainer
from .confirmations import Confirmations
from .connection import BURST_BYTES_MAX, Connection
from .delivery_queue import Queued
from .sessions import Session
from .subscriptions import Subscription

NOTICE_DELAY_S: Final = 0.05
"""Drops are told of together: at most this long after the first."""


class Deliveries:
    """Writes and queues deliveries for all sessions."""

    def __init__(
        self,
        broker: int,
        settings: BrokerSettings,
        counters: Counters,
        confirmations: Confirmations,
        explaining: Explainer,
        close: Callable[[Subscription, DropReason], None],
        ended: Callable[[Subscription], None],
    ) -> None:
        """`close` ends a subscription whose policy says so; `ended` hears of one that has delivered its last."""
        self.settings = settings
        self.telemetry: BrokerTelemetry | None = None
        self._path = (broker,)
        self._passed: tuple[int, ...] = ()
        self._passed_here: tuple[int, ...] = self._path
        """The path of an event that came, and the same with this broker at its end."""
        self._counters = counters
        self._run = self._run_us = 0
        self._confirmations = confirmations
        self._explaining = explaining
        self._close = close
        self._ended = ended
        self._to_tell: dict[int, Subscription] = {}
        self._tell_at: float | None = None

    def deliver(
        self,
        subscriptions: list[Subscription],
        tokens: list[int] | None,
        frame: EventFrame,
        delay_us: int,
        now: float,
        alone: bool = False,
    ) -> None:
        """Hand an event to the subscriptions that it matched: one frame for each session that takes it now. `tokens`
        are what each is to acknowledge it by. `alone`: it was published here, and has nowhere else to go; that it was
        published is recorded with its delivery."""
        if len(subscriptions) == 1:
            subscription = subscriptions[0]
            session = subscription.session
            link = session.link
            # whether the link takes data: a call less, for what is mostly the only event of a turn
            if (
                link is not None
                and not session.backlog
                and link.writable
                and link.data_bytes < BURST_BYTES_MAX
                and not link.closing
            ):
                late = self._timed(subscription, delay_us) if subscription.within_us else 0
                if late is not None:
                    token = tokens[0] if tokens else 0
                    flags = late | _asks(token) if token else late
                    self._write(link, session, frame, delay_us, ((subscription.id, flags, token),))
                    subscription.delivered += 1
                    telemetry = self.telemetry
                    if telemetry is not None and alone:
                        record = telemetry.passed  # by itself: Python finds it faster than where it is called at once
                        record(frame, subscription.number, subscription.within_us, delay_us, late, now)
                    elif telemetry is not None:
                        telemetry.delivered(subscription.number, subscription.within_us, frame, delay_us, late, now)
                    return
        if alone and self.telemetry is not None:
            self.telemetry.published(frame, subscriptions, (), (), delay_us, now)
        self._deliver_many(subscriptions, tokens or repeat(0), frame, delay_us, now)

    def _deliver_many(
        self, subscriptions: list[Subscription], tokens: Iterable[int], frame: EventFrame, delay_us: int, now: float
    ) -> None:
        direct: dict[Session, list[DeliveryFields]] = {}
        for subscription, token in zip(subscriptions, tokens, strict=False):
            session = subscription.session
            named = direct.get(session)
            if named is None:  # whoever takes one delivery of an event takes them all
                link = session.link
                if link is None or session.backlog or not link.takes_data:
                    self._queue(subscription, Queued(frame, now, delay_us, 0, token), now)
                    continue
                named = direct[session] = []
            late = self._timed(subscription, delay_us) if subscription.within_us else 0
            if late is None:
                self._queue(subscription, Queued(frame, now, delay_us, 0, token), now)
                continue
            named.append((subscription.id, late | _asks(token), token))
            subscription.delivered += 1
            telemetry = self.telemetry
            if telemetry is not None:
                telemetry.delivered(subscription.number, subscription.within_us, frame, delay_us, late, now)
        for session, deliveries in direct.items():
            if not deliveries:  # it was too late for all of them
                continue
            assert session.link is not None, "it took data a moment ago"
            if len(deliveries) <= _NAMED_MAX:
                self._write(session.link, session, frame, delay_us, deliveries)
                continue
            for start in range(0, len(deliveries), _NAMED_MAX):
                self._write(session.link, session, frame, delay_us, deliveries[start : start + _NAMED_MAX])

    def deliver_quietly(self, subscriptions: list[Subscription], frame: EventFrame, delay_us: int, now: float) -> None:
        """The same of what the broker says itself, which is not recorded: else each record would make others."""
        telemetry, self.telemetry = self.telemetry, None
        try:
            self.deliver(subscriptions, None, frame, delay_us, now)
        finally:
            self.telemetry = telemetry

    def pump(self, session: Session, now: float) -> None:
        """Write what is queued, while the connection takes it: subscriptions in turn, each in its own order."""
        link = session.link
        while session.backlog and link is not None and link.takes_data:
            number, subscription = next(iter(session.backlog.items()))
            del session.backlog[number]
            entry = subscription.outbox.pop()
            if entry is None:
                subscription.slow = False
                if subscription.ending is not None:
                    self._ended(subscription)
                continue
            session.backlog[number] = subscription  # to the end: others come first
            session.queued_bytes -= entry.size
            self._write_queued(link, subscription, entry, now)

    def drop_queued(self, subscription: Subscription, reason: DropReason, now: float) -> None:
        """Drop everything that waits for a subscription which ends."""
        session = subscription.session
        session.backlog.pop(subscription.number, None)
        for entry in subscription.outbox.clear():
            session.queued_bytes -= entry.size
            self.drop(subscription, entry, reason, now)
        self._to_tell.pop(subscription.number, None)

    def drop(self, subscription: Subscription, entry: Queued, reason: DropReason, now: float) -> None:
        """One delivery will not be: count it, and tell those concerned."""
        self._counters.dropped[reason] += 1
        self._explaining.dropped(subscription, entry, reason, now)
        if reason is not DropReason.FORBIDDEN:  # to be told of what one may not hear is to hear of it
            subscription.drop(entry, reason)
            self._to_tell[subscription.number] = subscription
            if self._tell_at is None:
                self._tell_at = now + NOTICE_DELAY_S
        if entry.token:
            subscription.awaited.discard(entry.token)
            self._confirmations.fail((subscription.number, entry.token), reason)

    def next_deadline(self) -> float | None:
        """When subscribers are to be told of drops."""
        return self._tell_at

    def tick(self, now: float) -> None:
        """Tell subscribers of drops, when it is time."""
        if self._tell_at is None or now < self._tell_at:
            return
        self._tell_at = None
        told, self._to_tell = self._to_tell, {}
        for subscription in told.values():
            self._tell_drops(subscription)

    def resumed(self, session: Session) -> None:
        """A client is back: tell it of what was dropped while it was away."""
        session.tell_again()
        for subscription in session.subscriptions.values():
            self._tell_drops(subscription)

    def _tell_drops(self, subscription: Subscription) -> None:
        """Of one that has no client now, drops add up until it is back."""
        if subscription.session.attached:
            for notice in subscription.take_notices():
                subscription.session.tell(notice)

    def write(self, subscription: Subscription, frame: EventFrame, delay_us: int, flags: int, position: int) -> None:
        """Write one delivery of a durable subscription, whose session is known to take it."""
        session = subscription.session
        assert session.link is not None, "durable deliveries are written to who takes them"
        subscription.delivered += 1
        if subscription.within_us:
            self._time(subscription, delay_us, flags & LATE)
        self._write(session.link, session, frame, delay_us, ((subscription.id, flags, position),))

    def _write(
        self, link: Connection, session: Session, frame: EventFrame, delay_us: int, deliveries: Sequence[DeliveryFields]
    ) -> None:
        if type(frame) is not Forward:
            link.deliver(frame, delay_us, self._path, deliveries)
        else:
            passed = frame.path
            if passed is not self._passed:  # mostly it is that of the event before
                self._passed, self._passed_here = passed, passed + self._path
            link.deliver(frame, delay_us, self._passed_here, deliveries)
        session.delivered += 1
        if delay_us != self._run_us:
            self.count()
            self._run_us = delay_us
        self._run += len(deliveries)

    def count(self) -> None:
        """Account for what was written. Deliveries in a row are mostly of one publisher and have one delay, so they are
        counted together: when another delay comes, and before someone looks."""
        run, self._run = self._run, 0
        if run:
            self._counters.delivered += run
            self._counters.delivery_delays.observe(self._run_us, run)

    def _write_queued(self, link: Connection, subscription: Subscription, entry: Queued, now: float) -> None:
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        frame = entry.frame
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self.drop(subscription, entry, DropReason.EXPIRED, now)
            return
        if not _may_hear(subscription, frame):
            self.drop(subscription, entry, DropReason.FORBIDDEN, now)
            return
        late = self._timed(subscription, delay_us)
        if late is None:
            self.drop(subscription, entry, DropReason.LATE, now)
            return
        self._counters.waiting_times.observe(max(0, delay_us - entry.delay_us))
        subscription.delivered += 1
        delivery = (subscription.id, late | _asks(entry.token), entry.token)
        self._write(link, subscription.session, frame, delay_us, (delivery,))
        if subscription.filter.system:
            return
        telemetry = self.telemetry
        if telemetry is not None:
            telemetry.delivered(subscription.number, subscription.within_us, frame, delay_us, late, now)
        self._explaining.waited(subscription, entry, delay_us, now)

    def _late(self, subscription: Subscription, delay_us: int) -> int | None:
        """The flags that lateness adds, or None when the subscription does not want late events."""
        if not subscription.within_us or delay_us + subscription.session.link_delay_us <= subscription.within_us:
            return 0
        return LATE if subscription.terms.late is Late.FLAG else None

    def _timed(self, subscription: Subscription, delay_us: int) -> int | None:
        """The same of a delivery that is written unless it is None: it counts towards how the bound is kept."""
        late = self._late(subscription, delay_us)
        if late is not None and subscription.within_us:
            self._time(subscription, delay_us, late)
        return late

    def _time(self, subscription: Subscription, delay_us: int, late: int) -> None:
        subscription.timed(delay_us, late and 1)
        self._counters.late += late and 1

    def _queue(self, subscription: Subscription, entry: Queued, now: float) -> None:
        session = subscription.session
        if self._late(subscription, entry.delay_us) is None:
            self.drop(subscription, entry, DropReason.LATE, now)
            return
        before = subscription.outbox.bytes
        dropped = subscription.outbox.put(entry, self.settings.session_outbox_bytes_max - session.queued_bytes)
        session.queued_bytes += subscription.outbox.bytes - before
        for victim, reason in dropped:
            self.drop(subscription, victim, reason, now)
        if dropped and subscription.outbox.full is Full.CLOSE:
            self._close(subscription, dropped[0][1])
            return
        if subscription.outbox.items:
            session.backlog.setdefault(subscription.number, subscription)
        self._warn(subscription)

    def _warn(self, subscription: Subscription) -> None:
        outbox = subscription.outbox
        if not subscription.slow and outbox.items >= self.settings.slow_fraction * outbox.items_max:
            subscription.slow = True
            _tell(subscription.session, Notice(subscription.id, NoticeKind.SLOW, count=outbox.items))


_NAMED_MAX: Final = 1024
"""Subscriptions that one deliver frame names: half of what a route holds."""


def _may_hear(subscription: Subscription, frame: EventFrame) -> bool:
    """Asked again of what was queued: the client may have come back with other permissions."""
    session = subscription.session
    if subscription.filter.system:
        return session.principal.system.permit(frame.attributes())
    return session.subscribe_open or session.principal.subscribe.permit(frame.attributes())


def _asks(token: int) -> int:
    return CONFIRM if token else 0


def _tell(session: Session, frame: ControlFrame) -> None:
    """To a client that is there; one that is not sees its gap when it resumes."""
    if session.link is not None:
        session.link.send(frame)
