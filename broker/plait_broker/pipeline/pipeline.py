"""The pipeline: publish -> admit -> match -> destinations -> disseminate -> deliver. Follow one event here.

Of a single broker, the destinations are its own subscriptions, and dissemination is the log for those that are durable.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from plait_core.duplicates import BEHIND, NEW, DuplicateWindow, Sighting
from plait_core.errors import FrameError
from plait_core.events import EventId
from plait_core.filters import Filter
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.values import is_reserved
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.event_block import BLOCK_BYTES
from plait_core.wire.frame_types.overlay_frames import CONFIRM, LOGGED
from plait_core.wire.frame_types.session_frames import DURABLE, LATE, REPLAYED, Code, Late
from plait_core.wire.frame_types.trace_frames import MARKED

from ..clients.confirmations import LOG, Confirmations, Party
from ..clients.delivery import Deliveries
from ..clients.delivery_queue import Queued
from ..clients.durable_subscriptions import DurableSubscription, DurableSubscriptions, Entry
from ..clients.sessions import Session
from ..clients.subscriptions import Subscription
from ..counters import Counters
from ..drop_reasons import DropReason
from ..joining import Joining
from ..overlay import ReceivedEvent
from ..settings import BrokerSettings
from ..telemetry.event_records import BrokerTelemetry
from ..tracing.explainer import Explainer
from .sealed_matching import TagMatcher, TagVerdict
from .subscription_index import SubscriptionIndex

REFUSALS_MAX: Final = 65_536
"""Refused events that are remembered, of all publishers: what sixteen of them may have unconfirmed at once."""


_DOLLAR: Final = ord("$")
"""As a number it is found in bytes in a sixth of the time that it takes as bytes."""


class PublishRefused(Exception):
    """An event that is not admitted: what its publisher hears, and what it is counted as."""

    def __init__(self, reason: DropReason, code: str, message: str, hint: str = "", *, retryable: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.code = code
        self.message = message[:CLOSE_TEXT_MAX]
        self.hint = hint[:CLOSE_TEXT_MAX]
        self.retryable = retryable

    def anew(self) -> PublishRefused:
        """The same without a traceback, which would keep the refused event alive."""
        return PublishRefused(self.reason, self.code, self.message, self.hint, retryable=self.retryable)


class HeldPublish(NamedTuple):
    """An event of a client here that waits for its tags to be tested, and since when."""

    session: Session
    frame: Publish
    waited_us: int
    since: float


class EventPipeline:
    """Takes events from publishers to subscribers and log."""

    def __init__(
        self,
        settings: BrokerSettings,
        counters: Counters,
        interest: SubscriptionIndex,
        deliveries: Deliveries,
        durables: DurableSubscriptions,
        confirmations: Confirmations,
        explaining: Explainer,
        wall_offset_us: int,
    ) -> None:
        self.settings = settings
        self.log_filter: Filter | None = None
        self.telemetry: BrokerTelemetry | None = None
        self.duplicates = DuplicateWindow(settings.duplicate_window, settings.publishers_max)
        self._counters = counters
        self._interest = interest
        self._deliveries = deliveries
        self._durables = durables
        self._confirmations = confirmations
        self._explaining = explaining
        self._tracing = explaining.tracing
        self._remembered = explaining.memory.events
        self._wall_offset_us = wall_offset_us
        self.tags: TagMatcher[HeldPublish | ReceivedEvent] = TagMatcher(counters.tags)
        self._deposits_here = interest.deposits
        self._deposits_elsewhere: dict[int, bytes] = {}
        self._tokens = 0
        self._refusals: OrderedDict[EventId, PublishRefused] = OrderedDict()
        self._joining: Joining | None = None
        self._system_arrived: Callable[[ReceivedEvent, float], None]
        self.draining = False
        """Whether events are refused because the broker is stopping."""
        self._recovered: dict[int, int] = {}
        """By publisher, the highest sequence number logged before this broker started."""

    def join(self, joining: Joining, system_arrived: Callable[[ReceivedEvent, float], None]) -> None:
        """There are other brokers; `system_arrived` takes what they say themselves."""
        self._joining, self._system_arrived = joining, system_arrived
        self._deposits_elsewhere = joining.overlay.wanted.deposits

    def publish(self, session: Session, frame: Publish, now: float) -> None:
        """One event from its publisher; Refused when it goes nowhere."""
        if self.draining:
            raise PublishRefused(DropReason.DRAINING, Code.DRAINING, "the broker is stopping", retryable=True)
        if self._joining is not None and not self._joining.offering.has(session, frame):
            if not self._joining.offering.hold(session, frame, now):
                message = "too many events wait for other brokers to learn what is published here"
                raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, "advertise first", retryable=True)
            return
        if self._deposits_here or self._deposits_elsewhere or self.tags.waits:
            self.publish_offered(session, frame, 0, now)
        else:
            self.publish_tested(session, frame, 0, now)

    def publish_offered(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """The same, of which the other brokers know that it may come."""
        tags = self.tags
        if self._deposits_here or self._deposits_elsewhere or tags.waits:
            if tags.full:
                message = "too many sealed events wait for their tags to be tested"
                raise PublishRefused(DropReason.OUTBOX_ITEMS, Code.LIMIT, message, retryable=True)
            if tags.hold(("client", session.id), frame, HeldPublish(session, frame, waited_us, now), self._asking, now):
                return
        self.publish_tested(session, frame, waited_us, now)

    def publish_tested(self, session: Session, frame: Publish, waited_us: int, now: float) -> None:
        """The same, of whose tags all is known that will be."""
        self._counters.published += 1
        session.published += 1
        if not self._admit(session, frame, waited_us, now):
            return
        marked = self._tracing.live
        subscriptions, durables = self._tracing.match(frame) if marked else self._interest.match(frame)
        verdict = self._judge(frame) if self._deposits_here or self._deposits_elsewhere else None
        if verdict is not None:
            subscriptions = self._interest.fitting(subscriptions, verdict)
            durables = self._interest.fitting(durables, verdict)
        homes = self._joining.overlay.destinations(frame, verdict) if self._joining is not None else []
        for subscription in subscriptions:
            if not subscription.session.subscribe_open:
                subscriptions = self._permitted(subscriptions, frame, now)
                break
        self._remembered.append((now, frame, homes))
        delay_us = session.link_delay_us + waited_us
        plain = not (durables or marked or frame.confirm or self.log_filter is not None)
        if plain and not homes and len(subscriptions) == 1:  # what most events are
            self._deliveries.deliver(subscriptions, None, frame, delay_us, now, True)
            return
        if self.telemetry is not None:
            self.telemetry.published(frame, subscriptions, durables, homes, delay_us, now)
        if marked:
            self._tracing.published(frame, len(subscriptions) + len(durables), homes, delay_us)
        if not plain:
            self._disseminate(frame, subscriptions, durables, homes, delay_us, now)
        else:  # nothing to log, nobody to hear what becomes of it
            if homes and self._joining is not None:
                self._joining.overlay.dissemination.publish(frame, homes, delay_us, 0, now)
            if subscriptions:
                self._deliveries.deliver(subscriptions, None, frame, delay_us, now)
        if not subscriptions and not durables and not homes:
            self._counters.dropped[DropReason.UNMATCHED] += 1

    # --- admit --------------------------------------------------------------------------------------------------------

    def _admit(self, session: Session, frame: Publish, waited_us: int, now: float) -> bool:
        """Whether the event is to go on; False for one that was here before, which is no error."""
        publisher = frame.publisher
        if publisher != session.publisher or not publisher:
            raise PublishRefused(
                DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, "published under an id that is not this client's"
            )
        sighting = self.duplicates.see(publisher, frame.sequence)
        if sighting is not NEW and sighting is not BEHIND:
            return self._seen_before(frame, sighting, session.link_delay_us + waited_us, now)
        if frame.confirm or frame.lifetime_us or self._recovered or not session.publish_open or _DOLLAR in frame.block:
            try:
                self._check(session, frame)
            except PublishRefused as refused:
                if frame.confirm:
                    self.remember(frame.id, refused)
                raise
        self._counters.admitted += 1
        return True

    def recover(self, id: EventId) -> None:
        """An event that was logged before this broker started."""
        self.duplicates.see(id.publisher, id.sequence)
        self._recovered[id.publisher] = max(id.sequence, self._recovered.get(id.publisher, 0))

    def remember(self, id: EventId, refused: PublishRefused) -> None:
        """An event is refused for good: should its publisher repeat it, not having heard, it hears the same again."""
        self._refusals[id] = refused.anew()
        if len(self._refusals) > REFUSALS_MAX:
            forgotten, _ = self._refusals.popitem(last=False)
            self.duplicates.forget(*forgotten)

    def _check(self, session: Session, frame: Publish) -> None:
        """Of an event that is not plain, or of a publisher who may not publish everything: whether it may go on."""
        if self._recovered and frame.sequence < self._recovered.get(frame.publisher, 0):
            message = "a later event of yours was logged before the broker restarted, and order is kept"
            raise PublishRefused(DropReason.STALE, Code.STALE, message, retryable=True)
        if frame.block.find(b"$", BLOCK_BYTES) >= 0 and any(map(is_reserved, frame.attributes())):
            message = "names that begin with $ are for what brokers say"
            raise PublishRefused(DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, message, "choose another name")
        if not session.publish_open and not session.principal.publish.permit(frame.attributes()):
            raise PublishRefused(DropReason.NOT_ALLOWED, Code.NOT_ALLOWED, "this client may not publish that")
        if frame.lifetime_us and session.link_delay_us > frame.lifetime_us:
            raise PublishRefused(DropReason.EXPIRED, Code.EXPIRED, "its lifetime was over on arrival")
        pending = self._confirmations.pending(frame.publisher) if frame.confirm else 0
        if pending >= self.settings.unconfirmed_max:
            raise PublishRefused(
                DropReason.OUTBOX_ITEMS, Code.LIMIT, f"{pending} events await confirmation", retryable=True
            )

    def _seen_before(self, frame: Publish, sighting: Sighting, delay_us: int, now: float) -> bool:
        """A publisher that did not hear of an event repeats it: it hears again, and no subscriber here does."""
        if sighting is Sighting.STALE:
            raise PublishRefused(DropReason.STALE, Code.STALE, "below the window in which duplicates are told apart")
        refused = self._refusals.get(frame.id) if self._refusals else None
        if refused is not None:
            raise refused.anew()
        waits = self._confirmations.waits(frame.publisher, frame.sequence)
        recovered = bool(self._recovered) and frame.sequence <= self._recovered.get(frame.publisher, 0)
        if frame.confirm is Confirm.SUBSCRIBERS and recovered and not waits:
            message = "it was logged before the broker restarted; whether all subscribers have it is not known"
            raise PublishRefused(DropReason.DUPLICATE, Code.UNKNOWN, message)
        self._counters.dropped[DropReason.DUPLICATE] += 1
        if frame.confirm and not waits:
            parties = self._send_again(frame, delay_us, now)
            self._confirmations.begin(frame.publisher, frame.sequence, 0, parties, now)
        return False

    def _send_again(self, frame: Publish, delay_us: int, now: float) -> set[Party]:
        """That an event was seen here says nothing of other brokers: it may have come from one that died before it had
        sent it to all, or this one has started anew since. So they get it once more, and those that have it drop it."""
        if self._joining is None:
            return set()
        verdict = self._judge(frame) if self._deposits_elsewhere else None
        homes = self._joining.overlay.destinations(frame, verdict)
        return set(self._joining.publish(frame, homes, delay_us, now, frame.confirm)) if homes else set()

    # --- disseminate and deliver --------------------------------------------------------------------------------------

    def _disseminate(
        self,
        frame: Publish,
        subscriptions: list[Subscription],
        durables: list[DurableSubscription],
        homes: list[int],
        delay_us: int,
        now: float,
    ) -> None:
        confirm, tokens = frame.confirm, None
        asked = bool(confirm)
        parties: set[Party] = set()
        if asked or durables or self.log_filter is not None:
            subscribers = confirm is Confirm.SUBSCRIBERS
            if subscribers:
                tokens = self._new_tokens(subscriptions, parties)
            self._log(frame, durables, parties, delay_us, now, subscribers=subscribers)
        if homes:
            assert self._joining is not None, "other brokers are known through it"
            elsewhere = self._joining.publish(frame, homes, delay_us, now, confirm)
            if asked:
                parties.update(elsewhere)
        if asked:
            count = len(subscriptions) + len(durables)
            self._confirmations.begin(frame.publisher, frame.sequence, count, parties, now)
        if subscriptions and not self._tracing.live:
            self._deliveries.deliver(subscriptions, tokens, frame, delay_us, now)
        elif subscriptions:
            self._deliver_marked(subscriptions, tokens, frame, delay_us, now)

    def arrive(self, arrival: ReceivedEvent, now: float) -> None:
        """One event from another broker's publisher, for whoever it matches here."""
        try:
            if arrival.frame.publisher == arrival.root:
                self._system_arrived(arrival, now)
                return
            tags = self.tags
            if self._deposits_here or tags.waits:
                line = ("broker", arrival.root)
                if tags.full:
                    tags.hurry(line)
                if tags.hold(line, arrival.frame, arrival, self._interest.asking, now):
                    return
        except FrameError:
            self._unreadable(arrival, now)
            return
        self.arrive_tested(arrival, now)

    def arrive_tested(self, arrival: ReceivedEvent, now: float) -> None:
        """The same, of whose tags all is known that will be."""
        try:
            self._take_in(arrival, now)
        except FrameError:
            self._unreadable(arrival, now)

    def _take_in(self, arrival: ReceivedEvent, now: float) -> None:
        _, _, frame, flags, delay_us, _, at = arrival
        joining = self._joining
        assert joining is not None, "events come through it"
        sighting = self.duplicates.see(frame.publisher, frame.sequence)
        if sighting is not NEW and sighting is not BEHIND:
            self._repeated(arrival, now)
            return
        self._counters.arrived += 1
        if now > at:  # others had to come first
            delay_us += round((now - at) * 1_000_000)
        if frame.lifetime_us and delay_us > frame.lifetime_us:
            self._expire(arrival, delay_us, now)
            return
        marked = flags & MARKED
        if marked:
            self._tracing.follow(frame, arrival.root, now)
        match = self._match_here if marked or self._deposits_here else self._interest.match
        subscriptions, durables = match(frame)
        self._remembered.append((now, frame, arrival))
        if flags & LOGGED:
            subscriptions = []
        for subscription in subscriptions:
            if not subscription.session.subscribe_open:
                subscriptions = self._permitted(subscriptions, frame, now)
                break
        if marked:
            self._tracing.arrived(arrival, len(subscriptions) + len(durables), delay_us)
        if self.telemetry is not None:
            self.telemetry.arrived(frame, arrival.root, subscriptions, durables, delay_us, now)
        tokens: list[int] | None = None
        if flags & CONFIRM or durables or self.log_filter is not None:
            asked, parties = bool(flags & CONFIRM), set[Party]()
            tokens = self._new_tokens(subscriptions, parties) if asked else None
            self._log(frame, durables, parties, delay_us, now, subscribers=asked)
            joining.wait_for(arrival, parties, len(subscriptions) + len(durables), now)
        else:
            joining.overlay.dissemination.take(arrival.root, arrival.position, now)
        if subscriptions:
            deliver = self._deliver_marked if self._tracing.live else self._deliveries.deliver
            deliver(subscriptions, tokens, frame, delay_us, now)

    def _asking(self, frame: EventFrame) -> list[bytes]:
        """Deposits that an event of ours may be for."""
        asking = self._interest.asking(frame)
        return asking + self._joining.overlay.wanted.asking(frame) if self._joining is not None else asking

    def _match_here(self, frame: EventFrame) -> tuple[list[Subscription], list[DurableSubscription]]:
        """Whom an event is for that is marked, or may be sealed."""
        subscriptions, durables = self._tracing.match(frame) if self._tracing.live else self._interest.match(frame)
        verdict = self._judge(frame) if self._deposits_here else None
        if verdict is None:
            return subscriptions, durables
        return self._interest.fitting(subscriptions, verdict), self._interest.fitting(durables, verdict)

    def _judge(self, frame: EventFrame) -> TagVerdict | None:
        verdict = self.tags.judge(frame)
        if verdict is not None and verdict.malformed:
            self._counters.dropped[DropReason.BAD_TAGS] += 1
        return verdict

    def _repeated(self, arrival: ReceivedEvent, now: float) -> None:
        """An event that was here before: it has had its place in its stream, and is handed on no more."""
        joining = self._joining
        assert joining is not None, "it came through it"
        self._counters.dropped[DropReason.DUPLICATE] += 1
        self._explaining.ended(arrival.frame, DropReason.DUPLICATE, arrival.delay_us, now)
        joining.in_charge(arrival, now)
        if arrival.flags & CONFIRM:
            joining.answered(arrival, 0, "")

    def _expire(self, arrival: ReceivedEvent, delay_us: int, now: float) -> None:
        """An event that came too late for anyone: it has had its place in its stream, and dies here."""
        joining = self._joining
        assert joining is not None, "it came through it"
        self._counters.dropped[DropReason.EXPIRED] += 1
        self._explaining.lost(arrival.frame, DropReason.EXPIRED, delay_us, [joining.overlay.me], now)
        self._decline(arrival, Code.EXPIRED, now)

    def _unreadable(self, arrival: ReceivedEvent, now: float) -> None:
        """Whoever handed an event on could not know; its publisher's broker would do no better the next time."""
        self._counters.dropped[DropReason.INVALID] += 1
        self._decline(arrival, DropReason.INVALID, now)

    def _decline(self, arrival: ReceivedEvent, code: str, now: float) -> None:
        """Nobody here gets an event; its publisher's broker need not send it again."""
        joining = self._joining
        assert joining is not None, "it came through it"
        joining.in_charge(arrival, now)
        if arrival.flags & CONFIRM:
            joining.answered(arrival, 0, code)

    def _log(
        self,
        frame: EventFrame,
        durables: list[DurableSubscription],
        parties: set[Party],
        delay_us: int,
        now: float,
        *,
        subscribers: bool,
    ) -> None:
        """Log the event if someone wants it logged."""
        if durables or (self.log_filter is not None and self.log_filter.matches(frame.attributes())):
            position = self._durables.log(frame, delay_us, self.wall_us(now), durables)
            self._counters.logged += 1
            if self._tracing.live:
                self._tracing.stored(frame, durables, delay_us)
            parties.add((LOG, position))
            if subscribers:
                parties.update((durable.number, position) for durable in durables)

    def _new_tokens(self, subscriptions: list[Subscription], parties: set[Party]) -> list[int]:
        tokens = list(range(self._tokens + 1, self._tokens + len(subscriptions) + 1))
        self._tokens += len(tokens)
        for subscription, token in zip(subscriptions, tokens, strict=True):
            subscription.awaited.add(token)
            parties.add((subscription.number, token))
        return tokens

    def _deliver_marked(
        self, subscriptions: list[Subscription], tokens: list[int] | None, frame: EventFrame, delay_us: int, now: float
    ) -> None:
        """While some event is marked: this one may be it."""
        before = [(subscription, subscription.delivered) for subscription in subscriptions]
        self._deliveries.deliver(subscriptions, tokens, frame, delay_us, now)
        self._tracing.handed(frame, before, delay_us)

    def _permitted(self, subscriptions: list[Subscription], frame: EventFrame, now: float) -> list[Subscription]:
        attributes = frame.attributes()
        allowed: list[Subscription] = []
        for subscription in subscriptions:
            session = subscription.session
            if session.subscribe_open or session.principal.subscribe.permit(attributes):
                allowed.append(subscription)
            else:
                self._explaining.forbidden(frame, subscription, now)
        self._counters.dropped[DropReason.FORBIDDEN] += len(subscriptions) - len(allowed)
        return allowed

    # --- durable subscriptions ----------------------------------------------------------------------------------------

    def wall_us(self, now: float) -> int:
        """The broker's calendar: set once at its start, so that it never goes back while it runs."""
        return self._wall_offset_us + round(now * 1_000_000)

    def stored(self, entries: list[Entry], matched: list[list[DurableSubscription]], now: float) -> None:
        """Entries are safe: confirm them, and hand them to whoever keeps up."""
        for entry, durables in zip(entries, matched, strict=True):
            self._confirmations.acknowledge((LOG, entry.position))
            for durable in durables:
                if durable.keeps_up and durable.subscription is not None:
                    if self._takes(durable):
                        self._offer(durable, entry, now, replayed=False)
                    else:
                        durable.keeps_up = False
                        durable.next_position = entry.position

    def lost(self, entries: list[Entry], matched: list[list[DurableSubscription]], error: str) -> None:
        """Entries could not be stored: no durable subscription gets them, and their publishers hear so."""
        self._counters.dropped[DropReason.DURABILITY] += len(entries)
        why = f"it could not be stored: {error}"
        for entry, durables in zip(entries, matched, strict=True):
            for durable in durables:
                self._confirmations.fail((durable.number, entry.position), Code.DURABILITY, why)
            self._confirmations.fail((LOG, entry.position), Code.DURABILITY, why)

    def pump(self, durable: DurableSubscription, now: float) -> None:
        """Go on reading the log for a durable subscription, as far as its window and its connection allow."""
        while not durable.keeps_up and self._takes(durable):
            found = self._durables.readable(durable)
            if found is None:
                return
            self.read(durable, *found, now)

    def read(self, durable: DurableSubscription, entries: list[Entry], up_to: int, now: float) -> None:
        """Entries from its place on, which are all there are up to a position."""
        for entry in entries:
            if not self._takes(durable):
                return
            durable.next_position = entry.position + 1
            self._offer(durable, entry, now, replayed=True)
        durable.next_position = max(durable.next_position, up_to + 1)
        durable.keeps_up = durable.subscription is not None and durable.next_position > self._durables.stored

    def _takes(self, durable: DurableSubscription) -> bool:
        """Whether another delivery may be sent: its window is open and its connection takes it."""
        subscription = durable.subscription
        if subscription is None or durable.pending >= self.settings.durable_window:
            return False
        link = subscription.session.link
        return link is not None and link.takes_data

    def _offer(self, durable: DurableSubscription, entry: Entry, now: float, *, replayed: bool) -> None:
        subscription, frame, position = durable.subscription, entry.frame, entry.position
        assert subscription is not None
        party = (durable.number, position)
        verdict = self.tags.judge(frame) if durable.routing else None
        fits = verdict is None or verdict(durable.routing)
        if position in durable.beyond or not fits or not durable.filter.matches(frame.attributes()):
            self._confirmations.acknowledge(party)
            return
        session = subscription.session
        if not session.subscribe_open and not session.principal.subscribe.permit(frame.attributes()):
            self._counters.dropped[DropReason.FORBIDDEN] += 1
            self._confirmations.fail(party, Code.NOT_ALLOWED)
            return
        delay_us = entry.delay_us + max(0, self.wall_us(now) - entry.logged_us)
        late = bool(subscription.within_us) and delay_us + session.link_delay_us > subscription.within_us
        expired = bool(frame.lifetime_us) and delay_us > frame.lifetime_us
        if expired or (late and subscription.terms.late is Late.DROP):
            reason = DropReason.EXPIRED if expired else DropReason.LATE
            self._deliveries.drop(subscription, Queued(frame, now, 0, 0, position), reason, now)
            return
        durable.in_flight.add(position)
        flags = DURABLE | (LATE if late else 0) | (REPLAYED if replayed else 0)
        self._deliveries.write(subscription, frame, delay_us, flags, position)
        if self.telemetry is not None:
            self.telemetry.delivered_durably(subscription, frame, delay_us, late=late, replayed=replayed, now=now)
        if self._tracing.live:
            self._tracing.delivered(frame, [durable], delay_us)
