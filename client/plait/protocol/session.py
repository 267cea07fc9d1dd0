"""A client's session with its home broker, without I/O. The driver performs the I/O and passes in bytes and the time.

A publish goes from `publish` to the publish queue and out through `take_output`; its receipt becomes `Confirmed`. A
delivery goes from `receive` to the queue of its `SubscriptionState`, from which the application takes it.

The driver calls `connected`, `receive`, `disconnected` and `tick`. Then it carries out `take_output`, handles
`take_updates`, and wakes the readers of `take_readable`. `Session._resume` and `DesiredState.resubscribe_all` restore
the session after a lost connection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from plait_core import Attributes, Event, PlaitError, Randomness, new_id
from plait_core.limits import BROKERS_MAX
from plait_core.wire import Confirm, Deliver, Frame, encode_plain_publish, encode_publish
from plait_core.wire.frame_types.session_frames import (
    MOVED,
    Brokers,
    Code,
    Done,
    Failed,
    HoldPublishes,
    Matching,
    Notice,
    NoticeKind,
    Receipt,
    Refusal,
    Unseen,
)

from ..errors import BufferFull, Closed, ConnectionLost, DeadlineMissed, Refused, refusal
from ..options.addresses import Address
from ..options.settings import SessionSettings
from .broker_connection import BrokerConnection, State
from .desired_state import DesiredState
from .notices import Gap, Late, SlowConsumer
from .outputs import (
    Confirmed,
    Ended,
    Lost,
    MatchingChanged,
    NotConfirmed,
    Opened,
    Output,
    PongReceived,
    PublishesLost,
    SessionUpdate,
    Write,
)
from .publish_queue import PublishQueue, Retained
from .subscription_state import Phase, Signals, SubscriptionState

Headers: TypeAlias = dict[str, str]
NO_HEADERS: Final[Headers] = {}

_OPEN: Final = State.OPEN
_ENDED: Final = State.ENDED
_PHASE_ENDED: Final = Phase.ENDED
"""Constants for the hot path: looking up a member of an enumeration costs ten times as much."""

_LATE: Final = "late"
"""The broker's drop reason for events that missed the delay bound."""


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counters since the client was made."""

    published: int
    confirmed: int
    refused: int
    """Publishes that the broker refused."""
    expired: int
    """Publishes whose lifetime ended before they were sent or confirmed."""
    waiting: int
    """Publishes that are not sent, or not confirmed, yet."""
    waiting_bytes: int
    lost: int
    """Deliveries that were in flight when a resumed connection broke."""
    publishes_lost: int
    """Publishes without confirmation that were in flight when a resumed connection broke."""
    publishes_uncertain: int
    """Publishes without confirmation that may have been lost, at most: the broker had not acknowledged them, and then
    lost the session, as a killed broker does. Use confirmation to know."""
    connections: int
    """Number of welcomes from brokers."""


class Session:
    """The session of one client, over all its connections."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        settings: SessionSettings,
        randomness: Randomness,
        token: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`token` is called at every attempt to connect. `randomness` draws ids and backoff times."""
        self.publishes = PublishQueue(settings.outbox)
        self.connection = BrokerConnection(addresses, settings, randomness, token, self.publishes.ping_sent)
        self.signals = Signals()
        self.publisher = self.connection.publisher
        self.writable = True
        """Whether the transport accepts publishes. Control frames are sent regardless."""
        self.settings = settings
        self.brokers: dict[int, str] = {}
        """Names of brokers, by id, as announced by the home broker."""
        self._randomness = randomness
        self.updates: list[SessionUpdate] = []
        """Updates to take."""
        self.desired = DesiredState(self.connection, settings, self.signals, self.updates)
        self._reports = self.desired.reports
        self._sequence = 0
        self._delivered = 0  # Deliver frames received in the broker's current session
        self._reading = True
        self._confirmed = self._refused = self._expired = self._lost = self._connections = 0
        self._publishes_lost = self._publishes_uncertain = 0
        self._handlers: dict[type[Frame], Callable[..., None]] = {
            Done: self.desired.done,
            Failed: self.desired.failed,
            Receipt: self._receive_receipt,
            Refusal: self._receive_refusal,
            Notice: self._receive_notice,
            HoldPublishes: self._receive_hold,
            Matching: self._receive_matching,
            Brokers: self._receive_brokers,
        }

    # --- the connection -----------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Start to connect."""
        self.connection.start(now)

    def connected(self, now: float) -> None:
        """Continue with the handshake: the connection is open."""
        self.connection.connected(now)
        self._apply_connection_changes(now)

    def disconnected(self, now: float, reason: str = "") -> None:
        """Handle a connection that broke or could not be opened."""
        self.connection.disconnected(now, reason)
        self._apply_connection_changes(now)

    def receive(self, data: bytes, now: float) -> bool:
        """Process received bytes. Return whether the driver has more to do than to wake readers."""
        connection, controlled, subscriptions = self.connection, False, self.desired.subscriptions
        delivered = self._delivered
        frames = connection.read(data, now)
        while frames:
            half_s = connection.rtt.half_s
            for frame in frames:
                if type(frame) is Deliver:
                    self._delivered += 1
                    for number, flags, position in frame.deliveries:
                        subscription = subscriptions.get(number)
                        if subscription is not None and subscription.phase is not _PHASE_ENDED:
                            subscription.receive(frame, flags, position, half_s)
                else:
                    controlled = True
                    self._receive_control(frame, now)
                    if connection.state is not _OPEN:
                        break
            frames = connection.take(now) if connection.decoder.more else []
        if self._reports.idle and self._delivered != delivered:
            controlled = self._reports.arm(now)
        if not (controlled or self.signals.overflowing or self.signals.dirty) and connection.state is _OPEN:
            return False  # only readers are to be woken
        if connection.changes:
            self._apply_connection_changes(now)
        if self.signals.overflowing or self.signals.dirty:
            self._handle_signals(now)
        return controlled or self.has_output or connection.state is not _OPEN

    def tick(self, now: float) -> None:
        """Process all timers that are due."""
        self.connection.tick(now)
        self._apply_connection_changes(now)
        for sequence, confirm in self.publishes.expire(now):
            self._expired += 1
            if confirm:
                missed = DeadlineMissed("its lifetime was over before it was confirmed")
                self.updates.append(NotConfirmed(sequence, missed))
        self.desired.tick(now)
        self._reports.tick(now, writable=self.writable)
        self._handle_signals(now)

    def next_deadline(self) -> float:
        """Return the time at which `tick` must be called; inf when there is none."""
        desired = self.desired
        return min(
            self.connection.due_at,
            self.publishes.expiries.next_at,
            desired.requests.due_at,
            desired.retries.next_at,
            self._reports.due_at,
        )

    def take_output(self, now: float) -> list[Output]:
        """Return the outputs that the driver must carry out, in order."""
        self._handle_signals(now)
        is_open = self.connection.state is _OPEN
        if is_open and self.signals.acknowledging:
            self.desired.send_acknowledgements()
        outputs, chunks = self.connection.take_output()
        if self.writable and is_open and self.publishes.sendable:
            chunks += self.publishes.take(now)
        if chunks:
            outputs.append(Write(chunks))
        return outputs

    def take_single(self) -> bytes | None:
        """Return the frame of a single queued publish if there is no other output over an open connection; else None.

        The driver writes the frame at once. The session's other state does not change.
        """
        connection = self.connection
        if not self.writable or connection.state is not _OPEN or connection.control or connection.outputs:
            return None
        if self.signals.dirty:
            return None
        return self.publishes.take_single()

    @property
    def has_output(self) -> bool:
        """Whether `take_output` has an output."""
        connection = self.connection
        if self.signals.dirty or connection.control or connection.outputs:
            return True
        return self.writable and self.publishes.sendable and connection.state is _OPEN

    def take_updates(self) -> list[SessionUpdate]:
        """Return the updates since the last call."""
        updates = self.updates.copy()
        self.updates.clear()
        return updates

    def take_readable(self) -> list[SubscriptionState]:
        """Return the subscriptions that have something new for their reader."""
        awake, self.signals.readable = self.signals.readable, []
        return awake

    def close(self, now: float, error: PlaitError | None = None) -> None:
        """End the session. If there is a connection, send what is queued and then a Close."""
        last: list[bytes] = []
        if self.connection.state is _OPEN:
            self.desired.send_acknowledgements()
            self._reports.report_all()
            while self.publishes.queue:
                last += self.publishes.take(now)
        self.connection.end(error, last)
        self._apply_connection_changes(now)

    @property
    def is_open(self) -> bool:
        """Whether the client is connected to a broker."""
        return self.connection.state is _OPEN

    @property
    def ended(self) -> bool:
        return self.connection.state is _ENDED

    def stats(self) -> SessionStats:
        """Return the counters."""
        return SessionStats(
            self._sequence,
            self._confirmed,
            self._refused,
            self._expired,
            self.publishes.items,
            self.publishes.size_bytes,
            self._lost,
            self._publishes_lost,
            self._publishes_uncertain,
            self._connections,
        )

    # --- publishing ---------------------------------------------------------------------------------------------------

    def publish(
        self,
        attributes: Attributes,
        payload: bytes,
        published_us: int,
        priority: int = 0,
        headers: Headers = NO_HEADERS,
    ) -> int:
        """Queue a checked event that is sent once. Return its sequence number. The caller checks `publishes.full`
        first."""
        sequence = self._sequence + 1
        event = Event(attributes, payload, self.publisher, sequence, published_us, 0, priority, headers)
        self.publishes.add(encode_publish(event))
        self._sequence = sequence
        return sequence

    def publish_plain(self, attributes: object, payload: object, published_us: int) -> int:
        """Queue an event whose parts are unchecked. Return its sequence number, or 0 if a part needs checks or
        conversion."""
        sequence = self._sequence + 1
        frame = encode_plain_publish(attributes, payload, self.publisher, sequence, published_us)
        if frame is None:
            return 0
        self.publishes.add(frame)
        self._sequence = sequence
        return sequence

    def publish_retained(
        self,
        attributes: Attributes,
        payload: bytes,
        published_us: int,
        priority: int,
        headers: Headers,
        *,
        lifetime_us: int,
        confirm: Confirm,
        now: float,
    ) -> int:
        """Queue an event that needs confirmation or has a limited lifetime. Return its sequence number."""
        sequence = self._sequence + 1
        event = Event(dict(attributes), payload, self.publisher, sequence, published_us, lifetime_us, priority, headers)
        expires_at = now + lifetime_us / 1_000_000 if lifetime_us else None
        self.publishes.retain(Retained(event, confirm, encode_publish(event, confirm), now, expires_at))
        self._sequence = sequence
        return sequence

    def barrier(self) -> int:
        """Queue a ping behind all publishes. Return its nonce. Its pong shows that the broker has processed them."""
        nonce = new_id(self._randomness)
        self.publishes.add_barrier(nonce)
        return nonce

    def ping(self, now: float) -> int:
        """Send a ping. Return its nonce. Raise ConnectionLost when there is no connection."""
        if not self.is_open:
            raise ConnectionLost("there is no connection now")
        return self.connection.ping(now)

    # --- frames -------------------------------------------------------------------------------------------------------

    def _receive_control(self, frame: Frame, now: float) -> None:
        handler = self._handlers.get(type(frame))
        if handler is not None:
            handler(frame, now)
            return
        nonce = self.connection.handle(frame, now)
        if nonce is not None:
            self.publishes.pong_received(nonce)
            self.updates.append(PongReceived(nonce, self.connection.rtt.measured_s))
        self._apply_connection_changes(now)

    def _receive_receipt(self, frame: Receipt, now: float) -> None:
        for sequence, matched in zip(frame.sequences, frame.matched, strict=False):
            if self.publishes.confirmed(sequence):
                self._confirmed += 1
                self.updates.append(Confirmed(sequence, matched))

    def _receive_refusal(self, frame: Refusal, now: float) -> None:
        if frame.code == Code.DRAINING and frame.retryable:
            return  # the event is kept, and sent to the next broker
        self._refused += 1
        self.publishes.confirmed(frame.sequence)
        error = refusal(frame.code, frame.message, hint=frame.hint, retryable=frame.retryable)
        self.updates.append(NotConfirmed(frame.sequence, error))

    def _receive_hold(self, frame: HoldPublishes, now: float) -> None:
        self.publishes.held = frame.held

    def _receive_notice(self, frame: Notice, now: float) -> None:
        subscription = self.desired.subscriptions.get(frame.subscription)
        if subscription is None:
            return
        match frame.kind:
            case NoticeKind.GAP if frame.reason == _LATE:
                subscription.record_late(Late(frame.count, dropped=True))
            case NoticeKind.GAP:
                subscription.record_gap(Gap(frame.reason, frame.count, frame.publisher, frame.first, frame.last))
            case NoticeKind.SLOW:
                subscription.add_notice(SlowConsumer("broker", frame.count))
            case NoticeKind.CLOSED if frame.reason == MOVED:
                self.desired.begin_again(subscription)
            case NoticeKind.CLOSED:
                self.desired.end(subscription, _closed_by_broker(frame))

    def _receive_brokers(self, frame: Brokers, now: float) -> None:
        before = self.brokers if len(self.brokers) < BROKERS_MAX else {}
        # Names of dead brokers are kept: their events may still arrive.
        self.brokers = before | dict(zip(frame.ids, frame.names, strict=True))

    def _receive_matching(self, frame: Matching, now: float) -> None:
        advertisement = self.desired.advertisements.get(frame.advertisement)
        if advertisement is not None and advertisement.matching != frame.matching:
            advertisement.matching = frame.matching
            self.updates.append(MatchingChanged(advertisement.id, advertisement.matching))

    # --- changes of the connection ------------------------------------------------------------------------------------

    def _apply_connection_changes(self, now: float) -> None:
        for change in self.connection.take_changes():
            match change:
                case Opened():
                    self._connections += 1
                    self._reading = True
                    self.updates.append(change)
                    self._count_lost_publishes(resumed=change.resumed)
                    if change.resumed:
                        self._resume()
                    else:
                        self._delivered = 0
                        self.desired.resubscribe_all(log_changed=change.log_changed)
                    assert self.connection.welcome is not None, "Welcome was just received"
                    self._reports.opened(self.connection.welcome.report_s, now)
                case Lost():
                    self._reports.closed()
                    self._rewind()
                    self.updates.append(change)
                case Ended(error):
                    self._reports.closed()
                    self._end_all(error)
                    self.updates.append(change)

    def _resume(self) -> None:
        """Continue a session that the broker still has. Deliveries in flight are lost, except logged ones, which are
        repeated."""
        assert self.connection.welcome is not None, "Welcome was just received"
        missing = self.connection.welcome.delivered - self._delivered
        if missing > 0:
            self._lost += missing
            subscriptions = self.desired.subscriptions
            for subscription in subscriptions.values():
                if not subscription.terms.durable:  # logged events are sent again
                    subscription.record_gap(Gap("connection_lost", missing), counted=len(subscriptions) == 1)
                    if len(subscriptions) == 1:  # else it is not known whose they were
                        subscription.account.drop(Unseen.CONNECTION_LOST.value, 0, 0, missing, received=False)
        self._delivered = self.connection.welcome.delivered
        self.desired.resend_requests()

    def _count_lost_publishes(self, *, resumed: bool) -> None:
        """Count the publishes without confirmation that were lost, or may have been lost, with the last connection."""
        assert self.connection.welcome is not None, "Welcome was just received"
        published = self.connection.welcome.published if resumed else None
        lost, certain = self.publishes.count_lost(published), published is not None
        if lost:
            self._publishes_lost += lost if certain else 0
            self._publishes_uncertain += 0 if certain else lost
            self.updates.append(PublishesLost(lost, certain))

    def _rewind(self) -> None:
        """Prepare kept publishes for the next connection. Report those whose outcome can no longer be found out."""
        for sequence in self.publishes.rewind():
            unknown = ConnectionLost("the connection broke before its outcome was known", hint="it may have arrived")
            self.updates.append(NotConfirmed(sequence, unknown))

    def _end_all(self, error: PlaitError | None) -> None:
        ending = error if error is not None else Closed("the client is closed")
        for sequence in self.publishes.clear():
            self.updates.append(NotConfirmed(sequence, ending))
        self.desired.end_all(error)

    # --- signals of subscriptions -------------------------------------------------------------------------------------

    def _handle_signals(self, now: float) -> None:
        signals = self.signals
        if signals.overflowing:
            overflowing, signals.overflowing = signals.overflowing, []
            for subscription in overflowing:
                if not subscription.blocking and subscription.id in self.desired.subscriptions:
                    self._end_full(subscription)
            signals.dirty = True
        if signals.dirty:
            signals.dirty = False
            reading = not any(subscription.blocking for subscription in self.desired.subscriptions.values())
            if reading != self._reading and self.is_open:
                self._reading = reading
                self.connection.pause(not reading, now)

    def _end_full(self, subscription: SubscriptionState) -> None:
        waiting = len(subscription.queue)
        error = BufferFull(f"its buffer of {waiting} events is full", hint="read faster, or choose another policy")
        self.desired.terminate(subscription, error)


def _closed_by_broker(notice: Notice) -> PlaitError:
    if notice.reason.startswith("outbox"):
        return BufferFull("its queue at the broker is full", hint="read faster, or choose another policy")
    if notice.reason == Code.TAKEN:
        message = "another client has taken it over while this one was not connected"
        return refusal(Code.TAKEN, message, hint="let one client at a time hold a durable subscription")
    if notice.reason == "removed":
        return Refused("the durable subscription was removed at the broker", code=notice.reason)
    return Refused(f"the broker closed it: {notice.reason or 'no reason given'}", code=notice.reason)
