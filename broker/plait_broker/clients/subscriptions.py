"""Drops and endings of subscriptions: each drop is counted, reported to its subscriber, and fails its confirmation."""

from __future__ import annotations

from math import inf
from typing import Final

from plait_core.wire.frame_types.session_frames import Done, Matching, Notice, NoticeKind

from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..pipeline.subscription_index import SubscriptionIndex
from .client_reports import ClientReports
from .delivery_queue import Queued
from .durable.durable_subscriptions import DurableSubscriptions
from .sessions import DurableSubscription, Session, Subscription

NOTICE_DELAY_S: Final = 0.05
"""Drops are reported together, at most this long after the first."""


class Subscriptions:
    """Drops deliveries and ends subscriptions, for all sessions."""

    def __init__(self, context: BrokerContext, index: SubscriptionIndex, durables: DurableSubscriptions) -> None:
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._index = index
        self._durables = durables
        self.reports = ClientReports(context)
        """Reports of clients about their deliveries."""
        self._unreported: dict[int, Subscription] = {}
        """By number, subscriptions with drops to report."""
        self.due_at = inf
        """When `tick` is to be called."""

    # --- drops --------------------------------------------------------------------------------------------------------

    def drop(self, subscription: Subscription, entry: Queued, reason: DropReason, now: float) -> None:
        """Drop one delivery."""
        self._counters.dropped[reason] += 1
        self._observer.dropped(subscription, entry, reason, now)
        if reason is not DropReason.FORBIDDEN:  # a notice would reveal that the event exists
            subscription.drop(entry, reason)
            self._unreported[subscription.number] = subscription
            self.due_at = min(self.due_at, now + NOTICE_DELAY_S)
        if entry.token:
            subscription.awaited.discard(entry.token)
            self._confirmations.fail((subscription.number, entry.token), reason)

    def drop_queued(self, subscription: Subscription, reason: DropReason, now: float) -> None:
        """Drop every queued delivery of a subscription that ends."""
        session = subscription.session
        session.backlog.pop(subscription.number, None)
        for entry in subscription.outbox.clear():
            session.queued_bytes -= entry.size
            self.drop(subscription, entry, reason, now)
        self._unreported.pop(subscription.number, None)

    def tick(self, now: float) -> None:
        """Report drops to their subscribers when it is time."""
        if now < self.due_at:
            return
        self.due_at = inf
        unreported, self._unreported = self._unreported, {}
        for subscription in unreported.values():
            self._report_drops(subscription)

    def _report_drops(self, subscription: Subscription) -> None:
        """Send the notices of a subscription's drops; without a client they add up until it is back."""
        if subscription.session.attached:
            for notice in subscription.take_notices():
                subscription.session.notify(notice)

    # --- a client that is back ----------------------------------------------------------------------------------------

    def resume(self, session: Session) -> None:
        """Send again what a broken connection may have lost: durable deliveries, notices and matching states."""
        assert session.connection is not None, "its client is back"
        for durable in session.durables:
            self._durables.rewind(durable)
        for advertisement in session.advertisements.values():
            session.connection.send(Matching(advertisement.id, advertisement.matching))
        session.notify_again()
        for subscription in session.subscriptions.values():
            self._report_drops(subscription)

    def disconnected(self, session: Session, now: float) -> None:
        """Note that a session's client loses its connection: until now it was seen."""
        for durable in session.durables:
            self._durables.touch(durable, now)

    # --- endings ------------------------------------------------------------------------------------------------------

    def end(self, subscription: Subscription, reason: DropReason, now: float, *, indexed: bool = True) -> None:
        """End a subscription, and drop its queue for that reason. A durable one is only detached."""
        if subscription.durable is not None:
            self.detach(subscription, subscription.durable, now)
            return
        if indexed and subscription.ending is None:
            self._index.remove(subscription)
        self.drop_queued(subscription, reason, now)
        for token in sorted(subscription.awaited):
            self._confirmations.fail((subscription.number, token), reason)
        if subscription.ending is None:
            self.reports.end(subscription, now)
        else:
            self.reports.drain(subscription, now)
        del subscription.session.subscriptions[subscription.id]

    def detach(self, subscription: Subscription, durable: DurableSubscription, now: float) -> None:
        """Detach a durable subscription from its client."""
        self.drop_queued(subscription, DropReason.GONE, now)
        self._durables.detach(durable, now)
        self.reports.end(subscription, now)
        subscription.session.durables.remove(durable)
        del subscription.session.subscriptions[subscription.id]

    def close_full(self, subscription: Subscription, reason: DropReason, now: float) -> None:
        """Close a subscription whose policy ends it when its queue is full."""
        subscription.session.notify(Notice(subscription.id, NoticeKind.CLOSED, reason), behind=True)
        self.end(subscription, reason, now)

    def drained(self, subscription: Subscription, now: float) -> None:
        """End a subscription that was to end once its queue has been delivered, and answer the request."""
        request, connection = subscription.ending, subscription.session.connection
        self.end(subscription, DropReason.GONE, now)
        if connection is not None and request:
            connection.send(Done(request), behind=True)
