"""The pipeline: publish -> admit -> match -> destinations -> disseminate -> deliver. Follow one event here.

`publish` takes events of clients, `receive_remote` events of other brokers. An event may wait in three places: a
client's event until other brokers know its advertisement, then until its tags are tested; another broker's event until
its tags are tested. `resume` continues it at the step after its wait.
"""

from __future__ import annotations

from collections.abc import Callable

from plait_core.errors import FrameError
from plait_core.values import Attributes
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.overlay_frames import CONFIRM, LOGGED
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.confirmations import Party
from ..clients.delivery import Deliveries
from ..clients.durable_delivery import DurableDelivery
from ..clients.publish_receipts import PublishReceipts
from ..clients.sessions import DurableSubscription, Session, Subscription
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..joining import Joining
from ..overlay import ReceivedEvent
from .admission import Admission, PublishRefused
from .sealed_events import SealedEvents
from .sealed_matching import WaitingPublish
from .subscription_index import SubscriptionIndex


class EventPipeline:
    """Takes events from publishers to subscribers, to the log and to other brokers."""

    def __init__(
        self,
        context: BrokerContext,
        admission: Admission,
        sealed: SealedEvents,
        index: SubscriptionIndex,
        joining: Joining,
        deliveries: Deliveries,
        durable_delivery: DurableDelivery,
        receipts: PublishReceipts,
    ) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._confirmations = context.confirmations
        self._observer = context.observer
        self._marked = context.observer.marked
        self._admission = admission
        self._gate = joining.offering
        self._sealed = sealed
        self._tags = sealed.tags
        self._keys_here = sealed.keys_here
        self._keys_elsewhere = sealed.keys_elsewhere
        self._index = index
        self._joining = joining
        self._deliveries = deliveries
        self._durable_delivery = durable_delivery
        self._receipts = receipts

    # --- events of clients --------------------------------------------------------------------------------------------

    def publish(self, session: Session, frame: Publish, now: float) -> None:
        """Take an event of a client. Raise PublishRefused if it goes nowhere."""
        if self._admission.draining:
            raise PublishRefused(DropReason.DRAINING, Code.DRAINING, "the broker is stopping", retryable=True)
        gate = self._gate
        if (gate.waits or len(gate.brokers) > 1) and not gate.passes(session, frame):
            if not gate.hold(session, frame, now):
                message = "too many events wait for other brokers to learn what is published here"
                raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, "advertise first", retryable=True)
        elif self._keys_here or self._keys_elsewhere or self._tags.waits:
            self._test_tags(session, frame, 0, now)
        else:
            self._admit(session, frame, 0, now)

    def _test_tags(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """Hold a sealed event whose tags are not tested yet; admit any other."""
        if not self._sealed.hold(session, frame, waited_us, now):
            self._admit(session, frame, waited_us, now)

    def _admit(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """Take an event of a client from admission to delivery."""
        delay_us = session.link_delay_us + waited_us
        if not self._admission.admit(session, frame):
            self._send_again(frame, delay_us, now)
            return
        index, observer, marked = self._index, self._observer, self._marked
        subscriptions, durables = observer.timed_match(index.match, frame) if marked else index.match(frame)
        verdict = self._sealed.verdict(frame) if self._keys_here or self._keys_elsewhere else None
        if verdict is not None:
            subscriptions, durables = self._sealed.fitting(subscriptions, durables, verdict)
        destinations = self._joining.overlay.destinations(frame, verdict)
        for subscription in subscriptions:
            if not subscription.session.subscribe_open:
                subscriptions = self._deliveries.permitted(subscriptions, frame, now)
                break
        awaited = durables or frame.confirm or self._settings.log_filter is not None
        if len(subscriptions) == 1 and not (destinations or awaited or marked):  # most events
            self._deliveries.deliver(subscriptions, None, frame, delay_us, now, True)
            return
        observer.published(frame, subscriptions, durables, destinations, delay_us, now)
        tokens: list[int] | None = None
        if destinations and not awaited:
            self._joining.publish(frame, destinations, delay_us, now, Confirm.NONE)
        elif awaited:
            tokens = self._disseminate(frame, subscriptions, durables, destinations, delay_us, now)
        if subscriptions:
            deliver = self._deliveries.deliver_traced if marked else self._deliveries.deliver
            deliver(subscriptions, tokens, frame, delay_us, now)
        elif not durables and not destinations:
            self._counters.dropped[DropReason.UNMATCHED] += 1

    def _disseminate(
        self,
        frame: Publish,
        subscriptions: list[Subscription],
        durables: list[DurableSubscription],
        destinations: list[int],
        delay_us: int,
        now: float,
    ) -> list[int] | None:
        """Stage an event for the log, send it to other brokers, and await what its publisher asked for. Return the
        tokens that the subscriptions acknowledge it by."""
        tokens: list[int] | None = None
        parties: set[Party] = set()
        subscribers = frame.confirm is Confirm.SUBSCRIBERS
        if subscribers:
            tokens = self._deliveries.new_tokens(subscriptions, parties)
        if durables or self._settings.log_filter is not None:
            self._durable_delivery.stage(frame, durables, parties, delay_us, now, subscribers=subscribers)
        if destinations:
            parties.update(self._joining.publish(frame, destinations, delay_us, now, frame.confirm))
        if frame.confirm:
            matched = len(subscriptions) + len(durables)
            self._confirmations.begin(frame.publisher, frame.sequence, matched, parties, now)
        return tokens

    def _send_again(self, frame: Publish, delay_us: int, now: float) -> None:
        """Send an event that was admitted before to other brokers again, if its publisher asks for confirmation anew.
        The broker that sent it first may have died, or this one restarted; brokers that have the event drop it."""
        if frame.confirm and not self._confirmations.waits(frame.publisher, frame.sequence):
            verdict = self._sealed.verdict(frame) if self._keys_elsewhere else None
            destinations = self._joining.overlay.destinations(frame, verdict)
            parties: set[Party] = set()
            if destinations:
                parties.update(self._joining.publish(frame, destinations, delay_us, now, frame.confirm))
            self._confirmations.begin(frame.publisher, frame.sequence, 0, parties, now)

    # --- events of other brokers --------------------------------------------------------------------------------------

    def receive_remote(self, event: ReceivedEvent, now: float) -> None:
        """Take an event of another broker's publisher."""
        try:
            if event.frame.publisher == event.root:  # the broker itself has published it
                self._joining.in_charge(event, now)
                self.deliver_system(event.frame, event.frame.attributes(), event.delay_us, now)
                return
            if not (self._keys_here or self._tags.waits) or not self._sealed.hold_remote(event, now):
                self._admit_remote(event, now)
        except FrameError:
            self._end_remote(event, DropReason.INVALID, DropReason.INVALID, now)

    def _admit_remote(self, event: ReceivedEvent, now: float) -> None:
        """Take an event of another broker from the duplicate check to delivery. Raise FrameError if it cannot be
        read."""
        _, _, frame, flags, delay_us, _, at = event
        if not self._admission.is_new(frame):
            self._observer.ended(frame, DropReason.DUPLICATE, event.delay_us, now)
            self._end_remote(event, DropReason.DUPLICATE, "", now)
            return
        self._counters.arrived += 1
        if now > at:  # it has waited for earlier events or for tests
            delay_us += round((now - at) * 1_000_000)
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self._observer.lost(frame, DropReason.EXPIRED, delay_us, [self._joining.overlay.me], now)
            self._end_remote(event, DropReason.EXPIRED, Code.EXPIRED, now)
            return
        if flags & MARKED:
            self._observer.follow(event, now)
        index, observer, marked = self._index, self._observer, self._marked
        subscriptions, durables = observer.timed_match(index.match, frame) if marked else index.match(frame)
        verdict = self._sealed.verdict(frame) if self._keys_here else None
        if verdict is not None:
            subscriptions, durables = self._sealed.fitting(subscriptions, durables, verdict)
        if flags & LOGGED:
            subscriptions = []
        for subscription in subscriptions:
            if not subscription.session.subscribe_open:
                subscriptions = self._deliveries.permitted(subscriptions, frame, now)
                break
        observer.arrived(event, subscriptions, durables, delay_us, now)
        tokens: list[int] | None = None
        if flags & CONFIRM or durables or self._settings.log_filter is not None:
            subscribers, parties = bool(flags & CONFIRM), set[Party]()
            tokens = self._deliveries.new_tokens(subscriptions, parties) if subscribers else None
            self._durable_delivery.stage(frame, durables, parties, delay_us, now, subscribers=subscribers)
            self._joining.wait_for(event, parties, len(subscriptions) + len(durables), now)
        else:
            self._joining.in_charge(event, now)
        if subscriptions:
            deliver = self._deliveries.deliver_traced if marked else self._deliveries.deliver
            deliver(subscriptions, tokens, frame, delay_us, now)

    def _end_remote(self, event: ReceivedEvent, reason: DropReason, code: str, now: float) -> None:
        """Drop an event of another broker and acknowledge it, so that it is not sent again. `code`: why its publisher
        gets no confirmation; empty if the event was delivered before."""
        self._counters.dropped[reason] += 1
        self._joining.in_charge(event, now)
        if event.flags & CONFIRM:
            self._joining.answered(event, 0, code)

    def deliver_system(self, frame: EventFrame, attributes: Attributes, delay_us: int, now: float) -> None:
        """Deliver an event that a broker has published itself."""
        found = self._index.match_system(attributes)
        allowed = [each for each in found if each.session.principal.system.permit(attributes)]
        self._counters.dropped[DropReason.FORBIDDEN] += len(found) - len(allowed)
        if allowed:
            self._deliveries.deliver_system(allowed, frame, delay_us, now)

    # --- events that have waited --------------------------------------------------------------------------------------

    def resume(self, now: float) -> None:
        """Continue the events that need not wait any more, each at the step after its wait."""
        if self._gate.waits:
            for session, frame, since in self._gate.take():
                self._continue(self._test_tags, session, frame, round((now - since) * 1_000_000), now)
            self._joining.overlay.settle(now)
        if self._tags.waits:
            for waiting in self._tags.take(now):
                if isinstance(waiting, WaitingPublish):
                    waited_us = waiting.waited_us + round((now - waiting.since) * 1_000_000)
                    self._continue(self._admit, waiting.session, waiting.frame, waited_us, now)
                    continue
                try:
                    self._admit_remote(waiting, now)
                except FrameError:
                    self._end_remote(waiting, DropReason.INVALID, DropReason.INVALID, now)
            self._joining.overlay.settle(now)

    def _continue(
        self,
        step: Callable[[Session, Publish, int, float], None],
        session: Session,
        frame: Publish,
        waited_us: int,
        now: float,
    ) -> None:
        try:
            step(session, frame, waited_us, now)
        except PublishRefused as refused:
            self._receipts.refuse(session.connection, frame, refused, now)
