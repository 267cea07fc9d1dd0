"""The last step of the pipeline: deliveries go onto connections, or into queues while connections take nothing.

Here delay bounds, lifetimes and the subscribers' rights are checked, and queue policies are applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Final

from plait_core.wire import Delivery, EventFrame, Forward
from plait_core.wire.frame_types.session_frames import CONFIRM, LATE, Full, Late, Notice, NoticeKind

from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..pipeline.observer import NO_DESTINATIONS
from .confirmations import Party
from .connection import BURST_BYTES_MAX, Connection
from .delivery_queue import Queued
from .sessions import Session, Subscription
from .subscriptions import Subscriptions


class Deliveries:
    """Writes and queues deliveries for all sessions."""

    def __init__(self, context: BrokerContext, subscriptions: Subscriptions) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._observer = context.observer
        self._subscriptions = subscriptions
        self._tokens = 0
        self._path = (context.id,)
        self._passed: tuple[int, ...] = ()
        self._passed_here: tuple[int, ...] = self._path
        """The path of the last received event, and the same path with this broker at its end."""
        self._run = self._run_us = 0

    # --- before a delivery --------------------------------------------------------------------------------------------

    def permitted(self, subscriptions: list[Subscription], frame: EventFrame, now: float) -> list[Subscription]:
        """Return the subscriptions whose clients may receive an event; count the others as forbidden."""
        attributes = frame.attributes()
        allowed: list[Subscription] = []
        for subscription in subscriptions:
            session = subscription.session
            if session.subscribe_open or session.principal.subscribe.permit(attributes):
                allowed.append(subscription)
            else:
                self._observer.forbidden(frame, subscription, now)
        self._counters.dropped[DropReason.FORBIDDEN] += len(subscriptions) - len(allowed)
        return allowed

    def new_tokens(self, subscriptions: list[Subscription], parties: set[Party]) -> list[int]:
        """Return a token for each subscription to acknowledge its delivery by, and add them to the parties."""
        tokens = list(range(self._tokens + 1, self._tokens + len(subscriptions) + 1))
        self._tokens += len(tokens)
        for subscription, token in zip(subscriptions, tokens, strict=True):
            subscription.awaited.add(token)
            parties.add((subscription.number, token))
        return tokens

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def deliver(
        self,
        subscriptions: list[Subscription],
        tokens: list[int] | None,
        frame: EventFrame,
        delay_us: int,
        now: float,
        alone: bool = False,
    ) -> None:
        """Deliver an event to the subscriptions that it matched: one frame for each session that takes it now.
        `tokens`: by which each acknowledges it. `alone`: a client here has published it for this subscription only; the
        observer gets both steps in one call."""
        if len(subscriptions) == 1:
            subscription = subscriptions[0]
            session = subscription.session
            connection = session.connection
            # `connection.takes_data` in place: most turns have one event, and this saves a call
            if (
                connection is not None
                and not session.backlog
                and connection.writable
                and connection.data_bytes < BURST_BYTES_MAX
                and not connection.closing
            ):
                late = self._timed(subscription, delay_us) if subscription.within_us else 0
                if late is not None:
                    token = tokens[0] if tokens else 0
                    flags = late | CONFIRM if token else late
                    self._write(connection, session, frame, delay_us, ((subscription.id, flags, token),))
                    subscription.delivered += 1
                    if alone:
                        passed = self._observer.passed
                        if passed is None:
                            self._observer.remember((now, frame, NO_DESTINATIONS))
                        else:
                            passed(frame, subscription.number, subscription.within_us, delay_us, late, now)
                    else:
                        delivered = self._observer.delivered
                        if delivered is not None:
                            delivered(subscription.number, subscription.within_us, frame, delay_us, late, now)
                    return
        if alone:
            self._observer.remember((now, frame, NO_DESTINATIONS))
            if self._observer.telemetry is not None:
                self._observer.published(frame, subscriptions, [], [], delay_us, now)
        self._deliver_many(subscriptions, tokens or repeat(0), frame, delay_us, now)

    def deliver_traced(
        self, subscriptions: list[Subscription], tokens: list[int] | None, frame: EventFrame, delay_us: int, now: float
    ) -> None:
        """Deliver an event that may be traced, and report which subscriptions took it and which queued it."""
        before = [(subscription, subscription.delivered) for subscription in subscriptions]
        self.deliver(subscriptions, tokens, frame, delay_us, now)
        self._observer.tracing.handed(frame, before, delay_us)

    def deliver_system(self, subscriptions: list[Subscription], frame: EventFrame, delay_us: int, now: float) -> None:
        """Deliver an event of a broker. It is not recorded: else each record would cause others."""
        self._deliver_many(subscriptions, repeat(0), frame, delay_us, now, recorded=False)

    def _deliver_many(
        self,
        subscriptions: list[Subscription],
        tokens: Iterable[int],
        frame: EventFrame,
        delay_us: int,
        now: float,
        *,
        recorded: bool = True,
    ) -> None:
        delivered = self._observer.delivered if recorded else None
        direct: dict[Session, list[Delivery]] = {}
        for subscription, token in zip(subscriptions, tokens, strict=False):
            session = subscription.session
            named = direct.get(session)
            if named is None:  # a session that takes one delivery of an event takes them all
                connection = session.connection
                if connection is None or session.backlog or not connection.takes_data:
                    self._queue(subscription, Queued(frame, now, delay_us, 0, token), now)
                    continue
                named = direct[session] = []
            late = self._timed(subscription, delay_us) if subscription.within_us else 0
            if late is None:
                self._queue(subscription, Queued(frame, now, delay_us, 0, token), now)
                continue
            named.append((subscription.id, late | CONFIRM if token else late, token))
            subscription.delivered += 1
            if delivered is not None:
                delivered(subscription.number, subscription.within_us, frame, delay_us, late, now)
        for session, deliveries in direct.items():
            if not deliveries:  # it was too late for all of them
                continue
            assert session.connection is not None, "it took data a moment ago"
            if len(deliveries) <= _NAMED_MAX:
                self._write(session.connection, session, frame, delay_us, deliveries)
                continue
            for start in range(0, len(deliveries), _NAMED_MAX):
                self._write(session.connection, session, frame, delay_us, deliveries[start : start + _NAMED_MAX])

    def write(self, subscription: Subscription, frame: EventFrame, delay_us: int, flags: int, position: int) -> None:
        """Write one delivery of a durable subscription. Its connection must take data."""
        session = subscription.session
        assert session.connection is not None, "only connections that take data get durable deliveries"
        subscription.delivered += 1
        if subscription.within_us:
            self._count_delay(subscription, delay_us, flags & LATE)
        self._write(session.connection, session, frame, delay_us, ((subscription.id, flags, position),))

    def _write(
        self,
        connection: Connection,
        session: Session,
        frame: EventFrame,
        delay_us: int,
        deliveries: Sequence[Delivery],
    ) -> None:
        if type(frame) is not Forward:
            connection.deliver(frame, delay_us, self._path, deliveries)
        else:
            passed = frame.path
            if passed is not self._passed:  # events in a row mostly share one path
                self._passed, self._passed_here = passed, passed + self._path
            connection.deliver(frame, delay_us, self._passed_here, deliveries)
        session.delivered += 1
        if delay_us != self._run_us:
            self.count()
            self._run_us = delay_us
        self._run += len(deliveries)

    def count(self) -> None:
        """Add the deliveries since the last call to the counters. Deliveries in a row mostly have one delay, so they
        are counted together: when the delay changes, and before the counters are read."""
        run, self._run = self._run, 0
        if run:
            self._counters.delivered += run
            self._counters.delivery_delays.observe(self._run_us, run)

    # --- queued deliveries --------------------------------------------------------------------------------------------

    def _queue(self, subscription: Subscription, entry: Queued, now: float) -> None:
        session, outbox = subscription.session, subscription.outbox
        settings = self._settings.current
        if self._late(subscription, entry.delay_us) is None:
            self._subscriptions.drop(subscription, entry, DropReason.LATE, now)
            return
        before = outbox.bytes
        dropped = outbox.put(entry, settings.session_outbox_bytes_max - session.queued_bytes)
        session.queued_bytes += outbox.bytes - before
        for victim, reason in dropped:
            self._subscriptions.drop(subscription, victim, reason, now)
        if dropped and outbox.full is Full.CLOSE:
            self._subscriptions.close_full(subscription, dropped[0][1], now)
            return
        if outbox.items:
            session.backlog.setdefault(subscription.number, subscription)
        if not subscription.slow and outbox.items >= settings.slow_fraction * outbox.items_max:
            subscription.slow = True
            if session.connection is not None:  # a client that is away sees its gap when it resumes
                session.connection.send(Notice(subscription.id, NoticeKind.SLOW, count=outbox.items))

    def pump(self, session: Session, now: float) -> None:
        """Write queued deliveries while the connection takes them: subscriptions in turn, each in its own order."""
        connection = session.connection
        while session.backlog and connection is not None and connection.takes_data:
            number, subscription = next(iter(session.backlog.items()))
            del session.backlog[number]
            entry = subscription.outbox.pop()
            if entry is None:
                subscription.slow = False
                if subscription.ending is not None:
                    self._subscriptions.drained(subscription, now)
                continue
            session.backlog[number] = subscription  # to the end: others come first
            session.queued_bytes -= entry.size
            self._write_queued(connection, subscription, entry, now)

    def _write_queued(self, connection: Connection, subscription: Subscription, entry: Queued, now: float) -> None:
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        frame = entry.frame
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self._subscriptions.drop(subscription, entry, DropReason.EXPIRED, now)
            return
        if not _may_receive(subscription, frame):
            self._subscriptions.drop(subscription, entry, DropReason.FORBIDDEN, now)
            return
        late = self._timed(subscription, delay_us)
        if late is None:
            self._subscriptions.drop(subscription, entry, DropReason.LATE, now)
            return
        self._counters.waiting_times.observe(max(0, delay_us - entry.delay_us))
        subscription.delivered += 1
        delivery = (subscription.id, late | CONFIRM if entry.token else late, entry.token)
        self._write(connection, subscription.session, frame, delay_us, (delivery,))
        if not subscription.filter.system:
            self._observer.waited(subscription, entry, delay_us, late, now)

    # --- delay bounds -------------------------------------------------------------------------------------------------

    def _late(self, subscription: Subscription, delay_us: int) -> int | None:
        """Return the flag of a late delivery, or 0. None: it is late and the subscription drops late events."""
        if not subscription.within_us or delay_us + subscription.session.link_delay_us <= subscription.within_us:
            return 0
        return LATE if subscription.terms.late is Late.FLAG else None

    def _timed(self, subscription: Subscription, delay_us: int) -> int | None:
        """Return what `_late` does for a delivery that is written now, and count its delay."""
        late = self._late(subscription, delay_us)
        if late is not None and subscription.within_us:
            self._count_delay(subscription, delay_us, late)
        return late

    def _count_delay(self, subscription: Subscription, delay_us: int, late: int) -> None:
        subscription.record_delay(delay_us, late and 1)
        self._counters.late += late and 1


_NAMED_MAX: Final = 1024
"""Subscriptions that one Deliver frame names: half of what a route holds."""


def _may_receive(subscription: Subscription, frame: EventFrame) -> bool:
    """Check rights again for a queued event: the client may have resumed with other permissions."""
    session = subscription.session
    if subscription.filter.system:
        return session.principal.system.permit(frame.attributes())
    return session.subscribe_open or session.principal.subscribe.permit(frame.attributes())
