"""A client's session with its home broker, without I/O: time, bytes and wishes in; bytes, deliveries and news out.

Follow one publish: `publish` -> outbox -> `take_output`; its receipt -> `Confirmed`. Follow one delivery: `receive` ->
`SubscriptionState.arrive` -> the interest's queue, from which the face takes it. The face calls `connected`, `receive`,
`disconnected` and `tick` as the world turns, then carries out `take_output` and looks at `take_updates` and
`take_readable`. What survives a broken connection, and how, is in `Session._resumed` and `DesiredState.anew`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from plait_core import Attributes, Event, PlaitError, Randomness, new_id
from plait_core.limits import BROKERS_MAX
from plait_core.wire import Confirm, Deliver, Frame, encode_plain_publish, encode_publish
from plait_core.wire.frame_types.session_frames import (
    Brokers,
    Code,
    Done,
    Failed,
    Matching,
    Notice,
    NoticeKind,
    Receipt,
    Refusal,
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
"""Asked for with every event: looking a member up in its enumeration costs ten times what a constant does."""

_LATE: Final = "late"
"""The broker's reason for what a delay bound dropped."""


@dataclass(frozen=True, slots=True)
class SessionStats:
    """Counts since the client was made."""

    published: int
    confirmed: int
    refused: int
    """Publishes that the broker refused."""
    expired: int
    """Publishes whose lifetime was over before they could be sent or confirmed."""
    waiting: int
    """Publishes that are not sent, or not confirmed, yet."""
    waiting_bytes: int
    lost: int
    """Deliveries that were on their way when a resumed connection broke."""
    publishes_lost: int
    """Publishes without confirmation that were on their way when a resumed connection broke."""
    publishes_uncertain: int
    """The same where the broker has forgotten the session, as one that was killed has: so many at most were lost,
    namely all that it had not shown to have. Whoever must know asks for confirmation."""
    connections: int
    """Times that a broker said welcome."""


class Session:
    """One client's session, over all its connections."""

    def __init__(
        self,
        addresses: tuple[Address, ...],
        settings: SessionSettings,
        randomness: Randomness,
        token: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`token` is asked for at every attempt; `randomness` draws ids and waits."""
        self.connection = BrokerConnection(addresses, settings, randomness, token)
        self.publishes = PublishQueue(settings.outbox)
        self.connection.ping_sent = self.publishes.ping_sent
        self.signals = Signals()
        self.publisher = self.connection.publisher
        self.writable = True
        """Whether the transport takes publishes; control frames go out regardless."""
        self.settings = settings
        self.brokers: dict[int, str] = {}
        """Names of brokers, as far as the home broker has told them."""
        self._randomness = randomness
        self._updates: list[SessionUpdate] = []
        self.desired = DesiredState(self.connection, settings, self.signals, self._updates)
        self._sequence = 0
        self._delivered = 0  # deliver frames that came in the broker's present session
        self._reading = True
        self._confirmed = self._refused = self._expired = self._lost = self._connections = 0
        self._publishes_lost = self._publishes_uncertain = 0
        self._handlers: dict[type[Frame], Callable[..., None]] = {
            Done: self.desired.done,
            Failed: self.desired.failed,
            Receipt: self._receipt,
            Refusal: self._refusal,
            Notice: self._notice,
            Matching: self._matching,
            Brokers: self._brokers,
        }

    # --- the connection -----------------------------------------------------------------------------------------------

    def start(self, now: float) -> None:
        """Begin to connect."""
        self.connection.start(now)

    def connected(self, now: float) -> None:
        """The connection that was asked for stands."""
        self.connection.connected(now)
        self._apply_connection_changes(now)

    def disconnected(self, now: float, reason: str = "") -> None:
        """The connection broke, or could not be opened."""
        self.connection.disconnected(now, reason)
        self._apply_connection_changes(now)

    def receive(self, data: bytes, now: float) -> bool:
        """Bytes came in; whether there is anything to do but to wake readers."""
        connection, controlled, subscriptions = self.connection, False, self.desired.subscriptions
        frames = connection.read(data, now)
        while frames:
            half_s = connection.rtt.half_s
            for frame in frames:
                if type(frame) is Deliver:
                    self._delivered += 1
                    for subscription, flags, position in frame.deliveries:
                        interest = subscriptions.get(subscription)
                        if interest is not None and interest.phase is not _PHASE_ENDED:
                            interest.receive(frame, flags, position, half_s)
                else:
                    controlled = True
                    self._control(frame, now)
                    if connection.state is not _OPEN:
                        break
            frames = connection.take(now) if connection.decoder.more else []
        if not (controlled or self.signals.overflowing or self.signals.dirty) and connection.state is _OPEN:
            return False  # deliveries alone
        self._apply_connection_changes(now)
        self._handle_signals(now)
        return controlled or self.has_output or connection.state is not _OPEN

    def tick(self, now: float) -> None:
        """Do what is due."""
        self.connection.tick(now)
        self._apply_connection_changes(now)
        for sequence, confirm in self.publishes.expire(now):
            self._expired += 1
            if confirm:
                missed = DeadlineMissed("its lifetime was over before it was confirmed")
                self._updates.append(NotConfirmed(sequence, missed))
        self.desired.tick(now)
        self._handle_signals(now)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        parts = (self.connection.next_deadline(), self.publishes.next_deadline(), self.desired.next_deadline())
        return min((at for at in parts if at is not None), default=None)

    def take_output(self, now: float) -> list[Output]:
        """What the face is to do, in order."""
        self._handle_signals(now)
        outputs = self.connection.take_output()
        if self.connection.state is _OPEN:
            self.desired.send_acknowledgements()
        chunks = self.connection.take_control()
        if self.writable and self.connection.state is _OPEN and self.publishes.waiting:
            chunks += self.publishes.take(now)
        if chunks:
            outputs.append(Write(chunks))
        return outputs

    def take_single(self) -> bytes | None:
        """The frame of a publish that is all there is to do over an open connection: it may go out at once, and has
        changed nothing else."""
        if not self.writable or self.connection.state is not _OPEN or self.connection.has_output or self.signals.dirty:
            return None
        return self.publishes.take_single()

    @property
    def has_output(self) -> bool:
        """Whether `take_output` has something."""
        if self.signals.dirty or self.connection.has_output:
            return True
        return self.writable and self.publishes.waiting and self.connection.state is _OPEN

    def take_updates(self) -> list[SessionUpdate]:
        """What has become of things since the last call."""
        updates = self._updates.copy()
        self._updates.clear()
        return updates

    def take_readable(self) -> list[SubscriptionState]:
        """Interests with something new for their reader."""
        awake, self.signals.readable = self.signals.readable, []
        return awake

    def close(self, now: float, error: PlaitError | None = None) -> None:
        """End it: what waits to be sent goes out if there is a connection, then a farewell."""
        last: list[bytes] = []
        if self.connection.state is _OPEN:
            self.desired.send_acknowledgements()
            while self.publishes.waiting:
                last += self.publishes.take(now)
        self.connection.end(error, last)
        self._apply_connection_changes(now)

    @property
    def is_open(self) -> bool:
        """Whether a broker is connected."""
        return self.connection.state is _OPEN

    @property
    def ended(self) -> bool:
        return self.connection.state is _ENDED

    def stats(self) -> SessionStats:
        """Counts up to now."""
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
        """Send an event, whose parts were checked, once; its sequence number. The caller has asked `outbox.full`."""
        sequence = self._sequence + 1
        event = Event(attributes, payload, self.publisher, sequence, published_us, 0, priority, headers)
        self.publishes.add(encode_publish(event))
        self._sequence = sequence
        return sequence

    def publish_plain(self, attributes: object, payload: object, published_us: int) -> int:
        """As `publish`, for unchecked parts of which most are plain; 0, and nothing done, when these are not."""
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
        """Send an event that wants confirmation, or whose lifetime is limited."""
        sequence = self._sequence + 1
        event = Event(dict(attributes), payload, self.publisher, sequence, published_us, lifetime_us, priority, headers)
        expires_at = now + lifetime_us / 1_000_000 if lifetime_us else None
        self.publishes.retain(Retained(event, confirm, encode_publish(event, confirm), now, expires_at))
        self._sequence = sequence
        return sequence

    def barrier(self) -> int:
        """A nonce that is `PongReceived` once the broker has processed all publishes so far, over reconnects too."""
        nonce = new_id(self._randomness)
        self.publishes.add_barrier(nonce)
        return nonce

    def ping(self, now: float) -> int:
        """A nonce that is `PongReceived` with the time it took; ConnectionLost when there is no connection."""
        if not self.is_open:
            raise ConnectionLost("there is no connection now")
        return self.connection.ping(now)

    # --- frames -------------------------------------------------------------------------------------------------------

    def _control(self, frame: Frame, now: float) -> None:
        handler = self._handlers.get(type(frame))
        if handler is not None:
            handler(frame, now)
            return
        nonce = self.connection.handle(frame, now)
        if nonce is not None:
            self.publishes.pong_received(nonce)
            self._updates.append(PongReceived(nonce, self.connection.rtt.measured_s))
        self._apply_connection_changes(now)

    def _receipt(self, frame: Receipt, now: float) -> None:
        for sequence, matched in zip(frame.sequences, frame.matched, strict=False):
            if self.publishes.confirmed(sequence):
                self._confirmed += 1
                self._updates.append(Confirmed(sequence, matched))

    def _refusal(self, frame: Refusal, now: float) -> None:
        if frame.code == Code.DRAINING and frame.retryable:
            return  # kept: it goes to whatever broker comes next
        self._refused += 1
        self.publishes.confirmed(frame.sequence)
        error = refusal(frame.code, frame.message, hint=frame.hint, retryable=frame.retryable)
        self._updates.append(NotConfirmed(frame.sequence, error))

    def _notice(self, frame: Notice, now: float) -> None:
        interest = self.desired.subscriptions.get(frame.subscription)
        if interest is None:
            return
        match frame.kind:
            case NoticeKind.GAP if frame.reason == _LATE:
                interest.record_late(Late(frame.count, dropped=True))
            case NoticeKind.GAP:
                interest.record_gap(Gap(frame.reason, frame.count, frame.publisher, frame.first, frame.last))
            case NoticeKind.SLOW:
                interest.add_notice(SlowConsumer("broker", frame.count))
            case NoticeKind.CLOSED:
                self.desired.end(interest, _closed_by_broker(frame))

    def _brokers(self, frame: Brokers, now: float) -> None:
        before = self.brokers if len(self.brokers) < BROKERS_MAX else {}
        self.brokers = before | dict(zip(frame.ids, frame.names, strict=True))  # events may still come of one that died

    def _matching(self, frame: Matching, now: float) -> None:
        advertisement = self.desired.advertisements.get(frame.advertisement)
        if advertisement is not None and advertisement.matching != frame.matching:
            advertisement.matching = frame.matching
            self._updates.append(MatchingChanged(advertisement.id, advertisement.matching))

    # --- changes of the connection ------------------------------------------------------------------------------------

    def _apply_connection_changes(self, now: float) -> None:
        for change in self.connection.take_changes():
            match change:
                case Opened():
                    self._connections += 1
                    self._reading = True
                    self._updates.append(change)
                    self._count_lost_publishes(resumed=change.resumed)
                    if change.resumed:
                        self._resumed()
                    else:
                        self._delivered = 0
                        self.desired.resubscribe_all(log_changed=change.log_changed)
                case Lost():
                    self._rewind()
                    self._updates.append(change)
                case Ended(error):
                    self._end_all(error)
                    self._updates.append(change)

    def _resumed(self) -> None:
        """The broker still has the session. What was on its way is lost, except what is logged, which comes again."""
        assert self.connection.welcome is not None, "it has just come"
        missing = self.connection.welcome.delivered - self._delivered
        if missing > 0:
            self._lost += missing
            hit = [interest for interest in self.desired.subscriptions.values() if not interest.terms.durable]
            for interest in hit:
                interest.record_gap(Gap("connection_lost", missing), counted=len(self.desired.subscriptions) == 1)
        self._delivered = self.connection.welcome.delivered
        self.desired.resend_requests()

    def _count_lost_publishes(self, *, resumed: bool) -> None:
        """Of publishes that are sent once, tell how many the broker never had, or may never have had."""
        assert self.connection.welcome is not None, "it has just come"
        published = self.connection.welcome.published if resumed else None
        lost, certain = self.publishes.count_lost(published), published is not None
        if lost:
            self._publishes_lost += lost if certain else 0
            self._publishes_uncertain += 0 if certain else lost
            self._updates.append(PublishesLost(lost, certain))

    def _rewind(self) -> None:
        """Everything that outlives the connection is made ready for the next one."""
        for sequence in self.publishes.rewind():
            unknown = ConnectionLost("the connection broke before its outcome was known", hint="it may have arrived")
            self._updates.append(NotConfirmed(sequence, unknown))

    def _end_all(self, error: PlaitError | None) -> None:
        ending = error if error is not None else Closed("the client is closed")
        for sequence in self.publishes.clear():
            self._updates.append(NotConfirmed(sequence, ending))
        self.desired.end_all(error)

    # --- signals of subscriptions -------------------------------------------------------------------------------------

    def _handle_signals(self, now: float) -> None:
        signals = self.signals
        if signals.overflowing:
            overflowing, signals.overflowing = signals.overflowing, []
            for interest in overflowing:
                if not interest.blocking and interest.id in self.desired.subscriptions:
                    self._end_full(interest)
            signals.dirty = True
        if signals.dirty:
            signals.dirty = False
            reading = not any(interest.blocking for interest in self.desired.subscriptions.values())
            if reading != self._reading and self.is_open:
                self._reading = reading
                self.connection.pause(not reading, now)

    def _end_full(self, interest: SubscriptionState) -> None:
        waiting = len(interest.queue)
        error = BufferFull(f"its buffer of {waiting} events is full", hint="read faster, or choose another policy")
        self.desired.terminate(interest, error)


def _closed_by_broker(notice: Notice) -> PlaitError:
    if notice.reason.startswith("outbox"):
        return BufferFull("its queue at the broker is full", hint="read faster, or choose another policy")
    return Refused(f"the broker closed it: {notice.reason or 'no reason given'}", code=notice.reason)
