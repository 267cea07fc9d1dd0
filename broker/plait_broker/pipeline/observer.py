"""The observers of the pipeline: each step reports to history, telemetry and trace with one call.

Steps that every event takes are attributes, bound anew when telemetry starts or stops. Without telemetry and marked
events a step costs one append to the history, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from plait_core.telemetry import TO_BROKER
from plait_core.wire import Destination, EventFrame, Forward
from plait_core.wire.frame_types.trace_frames import MARKED

from ..drop_reasons import DropReason
from ..telemetry.event_records import BrokerTelemetry
from ..tracing.event_history import EventHistory
from ..tracing.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clients.delivery_queue import Queued
    from ..clients.sessions import DurableSubscription, Session, Subscription
    from ..overlay import ReceivedEvent
    from ..overlay.transport.event_copy import EventCopy

    Matched: TypeAlias = tuple[list[Subscription], list[DurableSubscription]]
    Connected: TypeAlias = Callable[[Session], None]
    Subscribed: TypeAlias = Callable[[Subscription | DurableSubscription], None]
    Delivered: TypeAlias = Callable[[int, int, EventFrame, int, int, float], None]

NO_DESTINATIONS: Final[list[int]] = []
"""Entry of the history for events that are for this broker's subscriptions alone."""


class Passed(Protocol):
    """The steps *match* and *deliver* of an event of a client, delivered at once to one subscription and no other."""

    def __call__(
        self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /
    ) -> None: ...


class EventObserver:
    """One broker's."""

    def __init__(self, me: int, history: EventHistory, tracing: Tracing) -> None:
        self._me = me
        self.history: Final = history
        self.tracing: Final = tracing
        self.marked: Final = tracing.live
        """The marked events; empty nearly always."""
        self.remember: Final = history.events.append
        """Appends time, frame and whereabouts of an event to the history."""
        self.observe(None)

    def observe(self, telemetry: BrokerTelemetry | None) -> None:
        """Start telemetry, or stop it with None."""
        self.telemetry = telemetry
        self.passed: Passed | None = None if telemetry is None else self._passed
        """None: call `remember` instead. Most events take this step, and a Python call would double its cost."""
        self.delivered: Delivered | None = None if telemetry is None else telemetry.delivered
        self.subscribed: Subscribed | None = None if telemetry is None else telemetry.subscribed
        """A subscription is open, or its filter has changed."""
        self.connected: Connected | None = None if self.telemetry is None else self.telemetry.connected
        """A client has a new session."""

    # --- match --------------------------------------------------------------------------------------------------------

    def published(
        self,
        frame: EventFrame,
        subscriptions: list[Subscription],
        durables: list[DurableSubscription],
        destinations: list[int],
        delay_us: int,
        now: float,
    ) -> None:
        """An event of a client has matched. Call it while there is telemetry or a marked event, after `remember`."""
        if self.telemetry is not None:
            self.telemetry.published(frame, subscriptions, durables, destinations, delay_us, now)
        if self.marked:
            self.tracing.published(frame, len(subscriptions) + len(durables), destinations, delay_us)

    def _passed(self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float) -> None:
        self.remember((now, frame, NO_DESTINATIONS))
        assert self.telemetry is not None, "else `passed` is None"
        self.telemetry.passed(frame, number, within_us, delay_us, flags, now)

    def arrived(
        self,
        event: ReceivedEvent,
        subscriptions: list[Subscription],
        durables: list[DurableSubscription],
        delay_us: int,
        now: float,
    ) -> None:
        """An event of another broker has matched. Call it as `published`."""
        if event.flags & MARKED:
            self.tracing.arrived(event, len(subscriptions) + len(durables), delay_us)
        if self.telemetry is not None:
            self.telemetry.arrived(event.frame, event.root, subscriptions, durables, delay_us, now)

    # --- disseminate and store ----------------------------------------------------------------------------------------

    def stored(self, frame: EventFrame, durables: list[DurableSubscription], delay_us: int) -> None:
        """An event is staged for the log."""
        if self.marked:
            self.tracing.stored(frame, durables, delay_us)

    def relayed(self, frame: EventFrame, delay_us: int, now: float) -> None:
        """A marked copy from another broker goes on from here."""
        self.tracing.came(frame, delay_us, now)

    def forwarded(self, copy: EventCopy, to: tuple[int, int], waited_us: int, now: float) -> None:
        """A copy is written for a neighbour; `to`: its id, and the delay of the link."""
        frame, _, delay_us, flags, path, destinations = copy
        if self.telemetry is not None and frame.publisher != path[0]:  # events of brokers are not recorded
            self.telemetry.forwarded(frame, to[0], delay_us, len(path), len(destinations), now)
        if flags & MARKED:
            self.tracing.sent(frame, to, delay_us, path, destinations, waited_us, now)

    # --- deliver ------------------------------------------------------------------------------------------------------

    def delivered_durably(
        self, durable: DurableSubscription, frame: EventFrame, delay_us: int, *, late: bool, replayed: bool, now: float
    ) -> None:
        """One delivery of a durable subscription is written."""
        if self.telemetry is not None and durable.subscription is not None:
            subscription = durable.subscription
            self.telemetry.delivered_durably(subscription, frame, delay_us, late=late, replayed=replayed, now=now)
        if self.marked:
            self.tracing.delivered(frame, [durable], delay_us)

    def waited(self, subscription: Subscription, entry: Queued, delay_us: int, late: int, now: float) -> None:
        """A delivery is written after it was queued."""
        if self.delivered is not None:
            self.delivered(subscription.number, subscription.within_us, entry.frame, delay_us, late, now)
        self.history.waited(entry.frame, subscription.number, now)
        if self.marked:
            self.tracing.delivered(entry.frame, [subscription], delay_us, delay_us - entry.delay_us)

    # --- in the client ------------------------------------------------------------------------------------------------

    def client_reported(self, subscription: Subscription, handed_out: int, waiting: int, now: float) -> None:
        """A client has handed out further deliveries, and others wait there."""
        if self.telemetry is not None and not subscription.filter.system:
            self.telemetry.client_reported(subscription, handed_out, waiting, now)

    def unseen(self, subscription: Subscription, reason: str, last: tuple[int, int], change: int, now: float) -> None:
        """The number of deliveries that an application has not seen has changed. `last`: publisher and sequence number
        of the last of them."""
        if self.telemetry is not None and not subscription.filter.system:
            self.telemetry.unseen(subscription, reason, last, change, now)

    # --- drops --------------------------------------------------------------------------------------------------------

    def dropped(self, subscription: Subscription, entry: Queued, reason: DropReason, now: float) -> None:
        """One delivery is dropped."""
        self.history.drop(entry.frame, reason, now, subscription=subscription.number)
        if self.telemetry is not None and not subscription.filter.system:
            self.telemetry.dropped_delivery(subscription, entry, reason, now)
        if self.marked:
            waited_us = max(0, round((now - entry.arrived) * 1_000_000))
            self.tracing.dropped(entry.frame, reason, entry.delay_us + waited_us, subscription.number)

    def forbidden(self, frame: EventFrame, subscription: Subscription, now: float) -> None:
        """A subscription does not get an event that its client has no right to."""
        reason, number = DropReason.FORBIDDEN, subscription.number
        self.history.drop(frame, reason, now, subscription=number)
        if self.telemetry is not None:
            self.telemetry.dropped(frame, reason, 0, now, subject=number)
        if self.marked:
            self.tracing.dropped(frame, reason, 0, number)

    def ended(self, frame: EventFrame, reason: DropReason, delay_us: int, now: float) -> None:
        """A whole event is dropped."""
        self.history.drop(frame, reason, now)
        if self.telemetry is not None:
            self.telemetry.dropped(frame, reason, delay_us, now)
        self._follow_copy(frame, delay_us, now)
        if self.marked:
            self.tracing.dropped(frame, reason, delay_us)

    def lost(
        self, frame: EventFrame, reason: str, delay_us: int, destinations: Sequence[Destination | int], now: float
    ) -> None:
        """A copy of an event is dropped on its way to these brokers."""
        brokers = [each if isinstance(each, int) else each[0] for each in destinations]
        root = frame.path[0] if isinstance(frame, Forward) else self._me
        telemetry = None if frame.publisher == root else self.telemetry  # events of brokers are not recorded
        for broker in brokers:
            self.history.drop(frame, reason, now, broker=broker)
            if telemetry is not None:
                telemetry.dropped(frame, reason, delay_us, now, subject=broker, flags=TO_BROKER)
        self._follow_copy(frame, delay_us, now)
        if self.marked:
            self.tracing.lost(frame, reason, delay_us, *brokers)

    def _follow_copy(self, frame: EventFrame, delay_us: int, now: float) -> None:
        if isinstance(frame, Forward) and frame.flags & MARKED:
            self.relayed(frame, delay_us, now)

    # --- marked events ------------------------------------------------------------------------------------------------

    def mark(self, session: Session, frame: EventFrame, now: float) -> bool:
        """Trace an event of a client. Return False beyond the rate limit."""
        return self.tracing.mark(session.id, frame.id, now)

    def unmark(self, frame: EventFrame) -> None:
        """Stop tracing an event that was refused."""
        self.tracing.unmark(frame.id)

    def follow(self, event: ReceivedEvent, now: float) -> None:
        """Trace a marked event of another broker."""
        self.tracing.follow(event.frame, event.root, now)

    def timed_match(self, match: Callable[[EventFrame], Matched], frame: EventFrame) -> Matched:
        """Match an event, and measure the time if the event is marked."""
        trail = self.marked.get(frame.id)
        if trail is None:
            return match(frame)
        began = self.tracing.stopwatch()
        matched = match(frame)
        trail.match_us = round((self.tracing.stopwatch() - began) * 1_000_000)
        return matched

    def tick(self, now: float) -> None:
        """Forget marked events after LIVE_S."""
        self.tracing.tick(now)
