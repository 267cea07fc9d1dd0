"""Deliveries of durable subscriptions: events go to the log, and from the log to clients that acknowledge them."""

from __future__ import annotations

from collections.abc import Sequence

from plait_core.wire import EventFrame
from plait_core.wire.frame_types.session_frames import DURABLE, LATE, REPLAYED, Code, Late, Notice, NoticeKind

from ...context import BrokerContext
from ...drop_reasons import DropReason
from ...outputs import LogRecord
from ...pipeline.sealed_events import SealedEvents
from ..confirmations import LOG, Party
from ..delivery import Deliveries
from ..delivery_queue import Queued
from ..sessions import DurableSubscription
from ..subscriptions import Subscriptions
from .durable_subscriptions import DurableSubscriptions, Entry


class DurableDelivery:
    """Stages events for the log, and delivers its entries to durable subscriptions."""

    def __init__(
        self,
        context: BrokerContext,
        durables: DurableSubscriptions,
        subscriptions: Subscriptions,
        deliveries: Deliveries,
        sealed: SealedEvents,
    ) -> None:
        self._settings = context.settings
        self._clock = context.clock
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._durables = durables
        self._subscriptions = subscriptions
        self._deliveries = deliveries
        self._sealed = sealed

    # --- to the log ---------------------------------------------------------------------------------------------------

    def stage(
        self,
        frame: EventFrame,
        durables: list[DurableSubscription],
        parties: set[Party],
        delay_us: int,
        now: float,
        *,
        subscribers: bool,
    ) -> None:
        """Stage an event for the log if a durable subscription or the log filter matches it. Add the log to the parties
        and, if the publisher awaits `subscribers`, the durable subscriptions."""
        log_filter = self._settings.log_filter
        if durables or (log_filter is not None and log_filter.matches(frame.attributes())):
            position = self._durables.log(frame, delay_us, self._clock.wall_us(now), durables)
            self._counters.logged += 1
            self._observer.stored(frame, durables, delay_us)
            parties.add((LOG, position))
            if subscribers:
                parties.update((durable.number, position) for durable in durables)

    def storing(self, frame: EventFrame) -> set[Party]:
        """Return the log as the party of an event that was staged before, until it is stored."""
        position = self._durables.unstored(frame)
        return set() if position is None else {(LOG, position)}

    def stored(self, entries: list[Entry], matched: list[list[DurableSubscription]], now: float) -> None:
        """Confirm stored entries, and deliver them to the subscriptions that keep up."""
        for entry, durables in zip(entries, matched, strict=True):
            self._confirmations.acknowledge((LOG, entry.position))
            for durable in durables:
                if entry.position <= durable.acknowledged:
                    continue  # its cursor was moved past it
                durable.backlog.add(entry.position, len(entry.frame.block), entry.logged_us)
                if durable.caught_up and durable.subscription is not None:
                    if self._takes_delivery(durable):
                        self._deliver(durable, entry, now, replayed=False)
                    else:
                        durable.caught_up = False
                        durable.next_position = entry.position

    def lost(self, entries: list[Entry], matched: list[list[DurableSubscription]], error: str) -> None:
        """Fail the confirmations of entries that could not be stored. No durable subscription gets them."""
        self._counters.dropped[DropReason.DURABILITY] += len(entries)
        why = f"it could not be stored: {error}"
        for entry, durables in zip(entries, matched, strict=True):
            for durable in durables:
                self._confirmations.fail((durable.number, entry.position), Code.DURABILITY, why)
            self._confirmations.fail((LOG, entry.position), Code.DURABILITY, why)

    # --- from the log -------------------------------------------------------------------------------------------------

    def pump(self, durable: DurableSubscription, now: float) -> None:
        """Read on in the log for a durable subscription, as far as its window and its connection allow."""
        while not durable.caught_up and self._takes_delivery(durable):
            found = self._durables.readable(durable)
            if found is None:
                return
            self._deliver_read(durable, *found, now)

    def fetched(self, ticket: int, records: Sequence[LogRecord], lost: bool, error: str | None, now: float) -> None:
        """Take the answer to a Fetch."""
        if error is not None:
            self._durables.fetch_failed(ticket, now)
            return
        durable, entries, up_to = self._durables.fetched(ticket, records)
        subscription = durable.subscription
        if subscription is None:
            return
        if lost and subscription.session.connection is not None:
            if durable.next_position >= self._durables.first_position:  # it was damaged: `trimmed` counts the others
                self._counters.dropped[DropReason.RETENTION] += 1
            subscription.session.notify(Notice(subscription.id, NoticeKind.GAP, DropReason.RETENTION))
        self._deliver_read(durable, entries, up_to, now)
        self.pump(durable, now)

    def trimmed(self, first_position: int) -> None:
        """Count what the log has deleted, before a position, although durable subscriptions had not read it."""
        if first_position > self._durables.first_position:
            self._counters.dropped[DropReason.RETENTION] += self._durables.trimmed(first_position)

    def retry(self, now: float) -> None:
        """Read again for the subscriptions whose Fetch failed."""
        for durable in self._durables.retry(now):
            self.pump(durable, now)

    def _deliver_read(self, durable: DurableSubscription, entries: list[Entry], up_to: int, now: float) -> None:
        """Deliver entries that were read from its next position on; they cover all positions up to `up_to`."""
        for entry in entries:
            if not self._takes_delivery(durable):
                return
            durable.next_position = entry.position + 1
            self._deliver(durable, entry, now, replayed=True)
        durable.next_position = max(durable.next_position, up_to + 1)
        durable.caught_up = durable.subscription is not None and durable.next_position > self._durables.stored

    # --- one delivery -------------------------------------------------------------------------------------------------

    def _takes_delivery(self, durable: DurableSubscription) -> bool:
        """Return whether its window is open and its connection takes data."""
        subscription = durable.subscription
        if subscription is None or durable.pending >= self._settings.current.durable_window:
            return False
        connection = subscription.session.connection
        return connection is not None and connection.takes_data

    def _deliver(self, durable: DurableSubscription, entry: Entry, now: float, *, replayed: bool) -> None:
        """Deliver an entry if it matches and its client may receive it."""
        subscription, frame, position = durable.subscription, entry.frame, entry.position
        assert subscription is not None, "it has a connection that takes data"
        party = (durable.number, position)
        fits = position <= durable.tested_from or self._sealed.fits(frame, durable.number)
        if position in durable.beyond or not durable.filter_at(position).matches(frame.attributes()):
            self._confirmations.acknowledge(party)
            return
        if not fits:
            durable.pass_over(position)
            self._confirmations.acknowledge(party)
            return
        session = subscription.session
        if not session.subscribe_open and not session.principal.subscribe.permit(frame.attributes()):
            self._counters.dropped[DropReason.FORBIDDEN] += 1
            durable.pass_over(position)
            self._confirmations.fail(party, Code.NOT_ALLOWED)
            return
        delay_us = entry.delay_us + max(0, self._clock.wall_us(now) - entry.logged_us)
        late = bool(subscription.within_us) and delay_us + session.link_delay_us > subscription.within_us
        expired = bool(frame.lifetime_us) and delay_us > frame.lifetime_us
        if expired or (late and subscription.terms.late is Late.DROP):
            reason = DropReason.EXPIRED if expired else DropReason.LATE
            durable.pass_over(position)
            self._subscriptions.drop(subscription, Queued(frame, now, 0, 0, position), reason, now)
            return
        durable.in_flight.add(position)
        flags = DURABLE | (LATE if late else 0) | (REPLAYED if replayed else 0)
        self._deliveries.write(subscription, frame, delay_us, flags, position)
        self._observer.delivered_durably(durable, frame, delay_us, late=late, replayed=replayed, now=now)
