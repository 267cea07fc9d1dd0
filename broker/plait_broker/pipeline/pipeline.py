"""The pipeline: publish -> admit -> match -> destinations -> disseminate -> deliver. Follow one event here.

`publish` takes events of clients, `receive_remote` events of other brokers. An event may wait in three places: a
client's event until other brokers know its advertisement, then until its tags are tested; another broker's event until
its tags are tested. `resume` continues it at the step after its wait.
"""

from __future__ import annotations

from functools import partial

from plait_core.errors import FrameError
from plait_core.wire import Publish
from plait_core.wire.frame_types.overlay_frames import CONFIRM, LOGGED
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.delivery import Deliveries
from ..clients.publish_receipts import PublishReceipts
from ..clients.sessions import Session
from ..context import BrokerContext
from ..drop_reasons import DropReason
from ..overlay import ReceivedEvent
from .admission import Admission, PublishRefused
from .advertisement_gate import AdvertisementGate
from .broker_events import BrokerEvents
from .disseminator import Disseminator
from .event_matcher import EventMatcher
from .sealed_matching import WaitingPublish


class EventPipeline:
    """Takes events from publishers to subscribers, to the log and to other brokers."""

    def __init__(
        self,
        context: BrokerContext,
        admission: Admission,
        gate: AdvertisementGate,
        matcher: EventMatcher,
        disseminator: Disseminator,
        deliveries: Deliveries,
        receipts: PublishReceipts,
        broker_events: BrokerEvents,
    ) -> None:
        self._settings = context.settings
        self._counters = context.counters
        self._observer = context.observer
        self._remember = context.observer.remember
        self._marked = context.observer.marked
        self._admission = admission
        self._gate = gate
        self._match = matcher.match
        self._sealed = matcher.sealed
        self._tags = matcher.sealed.tags
        self._keys_here = matcher.sealed.keys_here
        self._keys_elsewhere = matcher.sealed.keys_elsewhere
        self._disseminator = disseminator
        self._destinations = disseminator.destinations
        self._send = disseminator.send
        self.hold = disseminator.hold
        """The publishers that wait for full streams."""
        self._full = disseminator.hold.full
        self._acknowledge = disseminator.acknowledge
        self._deliveries = deliveries
        self._receipts = receipts
        self._broker_events = broker_events

    # --- events of clients --------------------------------------------------------------------------------------------

    def publish(self, session: Session, frame: Publish, now: float) -> None:
        """Take an event of a client. Raise PublishRefused if it goes nowhere."""
        if self._admission.draining:
            raise PublishRefused(DropReason.DRAINING, Code.DRAINING, "the broker is stopping", retryable=True)
        gate = self._gate
        if (gate.waits or len(gate.brokers) > 1) and gate.holds(session, frame, now):
            return
        if self._keys_here or self._keys_elsewhere or self._tags.waits:
            self._test_tags(session, frame, 0, now)
        else:  # most events
            self._admit(session, frame, 0, now)

    def _test_tags(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """Hold a sealed event whose tags are not tested yet; admit any other."""
        tested = self._keys_here or self._keys_elsewhere or self._tags.waits
        if not (tested and self._sealed.hold(session, frame, waited_us, now)):
            self._admit(session, frame, waited_us, now)

    def _admit(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """Take an event of a client from admission to delivery."""
        delay_us = session.link_delay_us + waited_us
        if not self._admission.admit(session, frame):
            self._disseminator.repeat(frame, delay_us, now)
            return
        matched = self._match(frame, self._keys_here or self._keys_elsewhere, now)
        subscriptions, durables, verdict = matched
        destinations = self._destinations(frame, verdict)
        awaited = durables or frame.confirm or self._settings.log_filter is not None
        if len(subscriptions) == 1 and not (destinations or awaited or self._marked):  # most events
            self._deliveries.deliver(subscriptions, None, frame, delay_us, now, True)
            return
        self._remember((now, frame, destinations))
        if self._marked or self._observer.telemetry is not None:
            self._observer.published(frame, subscriptions, durables, destinations, delay_us, now)
        tokens: list[int] | None = None
        if awaited or self._marked:
            tokens = self._disseminator.disseminate(frame, matched, destinations, delay_us, now)
        elif destinations:
            self._send(frame, destinations, delay_us, 0, now)
        if self._full:
            self.hold.published(session, destinations)
        if subscriptions:
            deliver = self._deliveries.deliver_traced if self._marked else self._deliveries.deliver
            deliver(subscriptions, tokens, frame, delay_us, now)
        elif not (durables or destinations):
            self._counters.dropped[DropReason.UNMATCHED] += 1

    # --- events of other brokers --------------------------------------------------------------------------------------

    def receive_remote(self, event: ReceivedEvent, now: float) -> None:
        """Take an event of another broker's publisher."""
        try:
            if event.frame.publisher == event.root:  # the broker itself has published it
                attributes = event.frame.attributes()  # first: an event that cannot be read is acked when it is dropped
                self._acknowledge(event, now)
                self._broker_events.deliver(event.frame, attributes, event.delay_us, now)
            elif not ((self._keys_here or self._tags.waits) and self._sealed.hold_remote(event, now)):
                self._admit_remote(event, now)
        except FrameError:
            self._disseminator.drop(event, DropReason.INVALID, now)

    def _admit_remote(self, event: ReceivedEvent, now: float) -> None:
        """Take an event of another broker from the duplicate check to delivery. Raise FrameError if it cannot be
        read."""
        _, _, frame, flags, delay_us, _, at = event
        if not self._admission.is_new(frame):
            self._disseminator.drop(event, DropReason.DUPLICATE, now, self._admission.refusal_code(frame))
            return
        self._counters.arrived += 1
        if now > at:  # it has waited for earlier events or for tests
            delay_us += round((now - at) * 1_000_000)
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self._disseminator.drop(event._replace(delay_us=delay_us), DropReason.EXPIRED, now)
            return
        if flags & MARKED:
            self._observer.follow(event, now)
        subscriptions, durables, verdict = self._match(frame, self._keys_here, now)
        if flags & LOGGED:
            subscriptions = []
        self._remember((now, frame, event))
        if self._marked or self._observer.telemetry is not None:
            self._observer.arrived(event, subscriptions, durables, delay_us, now)
        tokens: list[int] | None = None
        if flags & CONFIRM or durables or self._settings.log_filter is not None:
            tokens = self._disseminator.confirm(event, (subscriptions, durables, verdict), delay_us, now)
        else:
            self._acknowledge(event, now)
        if subscriptions:
            deliver = self._deliveries.deliver_traced if self._marked else self._deliveries.deliver
            deliver(subscriptions, tokens, frame, delay_us, now)

    # --- events that have waited --------------------------------------------------------------------------------------

    def resume(self, now: float) -> None:
        """Continue the events that need not wait any more, each at the step after its wait."""
        for session, frame, since in self._gate.take() if self._gate.waits else ():
            waited_us = round((now - since) * 1_000_000)
            self._receipts.answer(session, frame, partial(self._test_tags, session, frame, waited_us, now), now)
        for event in self._tags.take(now) if self._tags.waits else ():
            if isinstance(event, WaitingPublish):
                session, frame, waited_us, since = event
                waited_us += round((now - since) * 1_000_000)
                self._receipts.answer(session, frame, partial(self._admit, session, frame, waited_us, now), now)
                continue
            try:
                self._admit_remote(event, now)
            except FrameError:
                self._disseminator.drop(event, DropReason.INVALID, now)
