"""Requests about durable subscriptions: open one or take it over, change it, close it, remove it, move its cursor.

One client at a time holds a durable subscription. While its client is not connected, the next client of the same
principal takes it over at once, also if the session could still be resumed: it reads on from the cursor, so nothing is
lost, and the client before learns of it when it resumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from plait_core.filters import Filter
from plait_core.rate_limit import TokenBucket
from plait_core.wire.frame_types.session_frames import (
    MOVED,
    Code,
    DurableAction,
    ManageDurable,
    Notice,
    NoticeKind,
    Start,
    Subscribe,
    Unsubscribe,
)

from ...adapter.install_waits import InstallWaits
from ...context import BrokerContext
from ...drop_reasons import DropReason
from ...outputs import LogRecord
from ...pipeline.subscription_index import SubscriptionIndex
from ..delivery_queue import QueueBounds
from ..request_failed import RequestFailed
from ..sessions import EARLIER_FILTERS_MAX, DurableSubscription, Session, Subscription
from ..subscriptions import Subscriptions
from .durable_delivery import DurableDelivery
from .durable_subscriptions import DurableSubscriptions, WaitingRequest

REMOVED: Final = "removed"
"""Why a subscription is closed whose durable subscription is deleted."""

MANAGED_PER_S, MANAGED_BURST = 10.0, 100.0
"""Durable subscriptions that one client may remove or move. Each request counts a backlog, and looks through the events
that wait for acks."""


class DurableRequests:
    """Carries out requests about durable subscriptions; they are answered once the log has stored their effect."""

    def __init__(
        self,
        context: BrokerContext,
        index: SubscriptionIndex,
        subscriptions: Subscriptions,
        durables: DurableSubscriptions,
        durable_delivery: DurableDelivery,
        install_waits: InstallWaits,
    ) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._index = index
        self._subscriptions = subscriptions
        self._durables = durables
        self._durable_delivery = durable_delivery
        self._install_waits = install_waits
        self._seeking: dict[int, tuple[DurableSubscription, WaitingRequest]] = {}
        """By ticket, cursors to move once the log has found the position of a time."""

    def open(self, subscription: Subscription, now: float) -> None:
        """Attach a new subscription of a client to its durable subscription, which is made or taken over."""
        session, terms, filter = subscription.session, subscription.terms, subscription.filter
        durable = self._durables.find(session.principal.name, terms.durable)
        if durable is None:
            durable = self._new(session, terms, filter, now)
        else:
            self._check_filter(durable, filter)
            if durable.subscription is not None:
                self._take_over(durable, durable.subscription, session, now)
        filter_before = durable.filter
        self._set_filter(durable, filter, terms.routing, session, now)
        subscription.number = durable.number
        subscription.durable = durable
        session.subscriptions[subscription.id] = subscription
        session.durables.append(durable)
        self._durables.attach(durable, subscription)
        self._install_waits.answer_when_installed(durable.number, (session.id, terms.request), stored=False)
        undo = partial(self._undo_open, subscription, durable, filter_before)
        self._durables.touch(durable, now, WaitingRequest(session.id, terms.request, undo))
        self._durable_delivery.pump(durable, now)

    def change(
        self,
        known: Subscription,
        durable: DurableSubscription,
        terms: Subscribe,
        filter: Filter,
        bounds: QueueBounds,
        now: float,
    ) -> None:
        """Replace the filter or the terms of an open one."""
        self._check_filter(durable, filter)
        session, before, filter_before, bounds_before = known.session, known.terms, known.filter, known.outbox.bounds
        self._set_filter(durable, filter, terms.routing, session, now)
        known.set_terms(terms, filter, bounds)

        def undo(now: float) -> None:
            if known.open and known.terms is terms:
                self._set_filter(durable, filter_before, before.routing, session, now)
                known.set_terms(before, filter_before, bounds_before)

        self._install_waits.answer_when_installed(durable.number, (session.id, terms.request), stored=False)
        self._durables.touch(durable, now, WaitingRequest(session.id, terms.request, undo))

    def close(self, subscription: Subscription, durable: DurableSubscription, frame: Unsubscribe, now: float) -> None:
        """Detach a durable subscription from its client, and delete it if the client asks for that."""
        self._subscriptions.detach(subscription, durable, now)
        waiting = WaitingRequest(subscription.session.id, frame.request)
        if frame.forget:
            self._remove(durable, waiting)
        else:
            self._durables.touch(durable, now, waiting)

    def manage(self, session: Session, frame: ManageDurable, now: float) -> None:
        """Remove a durable subscription of a client's principal, or move its cursor. Any client may hold it."""
        durable = self._durables.find(session.principal.name, frame.durable)
        if durable is None:
            message = f"principal {session.principal.name!r} has no durable subscription {frame.durable!r} here"
            raise RequestFailed(Code.UNKNOWN, message, "`plait durable ls` shows those of a broker")
        held = durable.subscription
        if held is not None and held.session.attached and not frame.force:
            message = f"durable subscription {durable.name!r} is held by {_named(held.session)}, which is connected"
            raise RequestFailed(Code.TAKEN, message, "stop that client first, or do it by force")
        if session.manage_rate is None:
            session.manage_rate = TokenBucket(MANAGED_PER_S, MANAGED_BURST, now)
        if not session.manage_rate.take(now, 1):
            message = "this client moves or removes too many durable subscriptions"
            raise RequestFailed(Code.LIMIT, message, retryable=True)
        waiting = WaitingRequest(session.id, frame.request)
        if frame.action is DurableAction.REMOVE:
            self._close_held(durable, REMOVED, now)
            self._remove(durable, waiting)
        elif any(sought is durable for sought, _ in self._seeking.values()):
            raise RequestFailed(Code.LIMIT, f"the cursor of {durable.name!r} is being moved already", retryable=True)
        elif frame.start is Start.TIME:
            self._seeking[self._durables.fetch_first_since(frame.start_at)] = durable, waiting
        else:
            self._seek(durable, self._durables.place(frame.start, frame.start_at), waiting, now)

    def fetched(
        self, ticket: int, records: Sequence[LogRecord], error: str | None, now: float
    ) -> WaitingRequest | None:
        """Move a cursor to the position that the log has found. After an error, return the request to refuse."""
        durable, waiting = self._seeking.pop(ticket)
        if error is None and self._durables.has(durable):
            self._seek(durable, records[0].position - 1 if records else self._durables.stored, waiting, now)
            return None
        return waiting

    def awaits(self, ticket: int) -> bool:
        """Return whether a read of the log is for one of these requests."""
        return ticket in self._seeking

    def _remove(self, durable: DurableSubscription, waiting: WaitingRequest) -> None:
        """Delete a detached one; its backlog is discarded, and counted."""
        self._discard(durable, durable.backlog.events, self._durables.next_position)
        self._index.remove(durable)
        self._durables.forget(durable, waiting)

    def _close_held(self, durable: DurableSubscription, reason: str, now: float) -> None:
        """Detach a durable subscription from the client that holds it, if there is one."""
        held = durable.subscription
        if held is not None:
            held.session.notify(Notice(held.id, NoticeKind.CLOSED, reason))
            self._subscriptions.detach(held, durable, now)

    def _seek(self, durable: DurableSubscription, place: int, waiting: WaitingRequest, now: float) -> None:
        """Move a cursor. A client that holds it opens the subscription again: its acks and duplicates are void."""
        self._close_held(durable, MOVED, now)
        self._discard(durable, self._durables.seek(durable, place), place)
        self._durables.touch(durable, now, waiting)

    def _discard(self, durable: DurableSubscription, events: int, up_to: int) -> None:
        """Count events that are not delivered because that was asked for. Their publishers wait no longer."""
        self._counters.dropped[DropReason.DISCARDED] += events
        why = f"durable subscription {durable.name!r} was removed, or moved past it"
        self._confirmations.fail_up_to(durable.number, up_to, DropReason.DISCARDED, why)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _new(self, session: Session, terms: Subscribe, filter: Filter, now: float) -> DurableSubscription:
        if len(self._durables) >= self._settings.current.durables_max:
            raise RequestFailed(Code.LIMIT, "the broker has as many durable subscriptions as it may")
        acknowledged = self._durables.place(terms.start, terms.start_at)
        owner, number = session.principal.name, self._index.new_number()
        durable = DurableSubscription(number, owner, terms.durable, filter, acknowledged)
        durable.since = now
        durable.since_us = terms.start_at if terms.start is Start.TIME else 0
        durable.routing, durable.depositor = terms.routing, session.depositor
        self._durables.add(durable)
        self._durables.count_backlog(durable)
        self._index.add(durable)
        return durable

    def _take_over(self, durable: DurableSubscription, held: Subscription, session: Session, now: float) -> None:
        """Detach a durable subscription from a client that is not connected. Refuse it while its client is."""
        holder = held.session
        if holder is session:
            raise RequestFailed(
                Code.TAKEN,
                f"this client has durable subscription {durable.name!r} open already",
                "close the other one first, or change its filter by update()",
                retryable=True,
            )
        if holder.attached:
            raise RequestFailed(
                Code.TAKEN,
                f"durable subscription {durable.name!r} is held by {_named(holder)}, which is connected",
                "stop that client: once it is disconnected, the next one takes the subscription over at once",
                retryable=True,
            )
        holder.notify(Notice(held.id, NoticeKind.CLOSED, Code.TAKEN))
        self._subscriptions.detach(held, durable, now)

    def _check_filter(self, durable: DurableSubscription, filter: Filter) -> None:
        """Refuse another filter while the backlog needs more earlier ones than are kept: nothing of it may be lost."""
        if filter != durable.filter and len(durable.earlier) >= EARLIER_FILTERS_MAX:
            raise RequestFailed(
                Code.LIMIT,
                f"the backlog of durable subscription {durable.name!r} spans {len(durable.earlier)} earlier filters",
                f"open it with its present filter until its backlog is read: {durable.filter.text}",
            )

    def _set_filter(
        self, durable: DurableSubscription, filter: Filter, routing: bytes, session: Session, now: float
    ) -> None:
        """Match later events against this filter. The backlog stays that of the filters before."""
        if durable.filter == filter and durable.routing == routing:
            return
        if durable.filter != filter:
            self._durables.remember_filter(durable, filter)
            durable.since = now
        if durable.routing not in (b"", routing):
            durable.tested_from = self._durables.next_position - 1
        if durable.routing != routing:
            durable.depositor = session.depositor
        self._index.change(durable, filter, routing)

    def _undo_open(
        self, subscription: Subscription, durable: DurableSubscription, filter_before: Filter, now: float
    ) -> None:
        """Undo a request that could not be stored: end its subscription, and remove what the log has never stored."""
        if subscription.open:
            self._subscriptions.detach(subscription, durable, now)
        known = self._durables.find(durable.owner, durable.name) is durable
        if not known or durable.subscription is not None:
            return  # forgotten, or attached by another request, which decides
        if not durable.in_log:
            self._index.remove(durable)
            self._durables.withdraw(durable, now)
        else:
            self._set_filter(durable, filter_before, durable.routing, subscription.session, now)


def _named(holder: Session) -> str:
    """Name a connected client, with its address."""
    address = holder.connection.caller.address if holder.connection is not None else ""
    return f"client {holder.name!r}" + (f" at {address}" if address else "")
