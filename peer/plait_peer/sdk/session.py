"""One application's session at its peers: a broker to its SDK; to the group, a publisher and one subscriber per
subscription.

It answers the frames of a session (`plait_core.wire.frame_types.session_frames`), so that an application runs unchanged
without brokers. `publisher.py` publishes. A subscription is open when its sub-spaces are settled, or when no peer
exists that could settle them. No I/O.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from typing import Final, cast

from plait_core.errors import FilterError, FrameError, PlaitError
from plait_core.filters import parse
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import (
    Confirm,
    EventFrame,
    Forward,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Publish,
    State,
)
from plait_core.wire.frame_header import HANDSHAKE_VERSION
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.session_frames import (
    CONFIRM,
    LATE,
    Acknowledge,
    Advertise,
    Code,
    Done,
    Failed,
    Late,
    Notice,
    NoticeKind,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_core.wire.frames import Frame

from ..event_frames import hops_of
from ..event_records import Arrival, arrival_of
from ..node import PEERS_MAX, Node
from ..protocol.outputs import Deliver, Output
from .publisher import NOBODY_PERIODS, SdkPublisher
from .subscription import UNACKNOWLEDGED_MAX, PeerSubscription
from .writer import SdkWriter

BOUND_S: Final = 10.0
"""The delay bound of a subscription without one: far above the delays in any tree of live peers."""
HEARTBEAT_S: Final = 2.0
OPEN_PERIODS_MAX: Final = 30
"""Periods after which a subscription is open although not all publishers reach it: below the SDK's timeout of ten
seconds. Known publishers must have enrolled it; ..."""
ENROL_PERIODS_MAX: Final = 100
"""... for up to this many periods. A dead publisher is forgotten long before."""
CLIENT_BYTES_MAX: Final = 64 << 20
"""Deliveries that the application has not read. Further ones are dropped, counted and reported."""


class SdkSession:
    """The session of one application."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.counts: Counter[str] = Counter()
        """Events by result: delivered, filtered (only the sub-space matched), late, full."""
        self.client_bytes = 0
        """Bytes that the application has not read; set by the transport."""
        self.ended = False
        self._name = name
        self._handshake = Handshake.acceptor(("resume",))
        self._writer = SdkWriter(self._handshake)
        self._decoder = FrameDecoder()
        self._subscriptions: dict[int, PeerSubscription] = {}
        self._publisher = SdkPublisher(node, self._writer)
        self._period = 0

    @property
    def size(self) -> int:
        """Bytes queued for the application."""
        return self._writer.size

    @property
    def congested(self) -> bool:
        """Whether the application should pause publishing."""
        return self._publisher.congested

    @property
    def ready(self) -> bool:
        """Whether all subscriptions and the publisher are open."""
        return all(each.opened for each in self._subscriptions.values()) and self._publisher.ready

    @property
    def subscription_count(self) -> int:
        """The number of the application's subscriptions."""
        return len(self._subscriptions)

    def receive(self, data: bytes, now: float) -> None:
        """Handle bytes from the application."""
        self.node.now = now
        self._decoder.feed(data)
        try:
            while not self.ended and (frames := self._decoder.take()):
                for publishes, group in groupby(frames, _is_publish):
                    if publishes:
                        self._publisher.publish(cast("list[Publish]", list(group)), now)
                    else:
                        for frame in group:
                            self._handle_frame(frame, now)
        except FrameError as error:
            self._close(Code.UNKNOWN, error.message)
        self._publisher.drain(now)

    def take(self) -> bytes:
        """Return the bytes for the application."""
        return self._writer.take()

    def tick(self, now: float) -> None:
        """Open what has become ready; called once a period of the peers."""
        self._period += 1
        self.node.now = now
        for id, subscription in self._subscriptions.items():
            if not subscription.opened:
                self._open_if_ready(id, subscription, now)
        self._publisher.tick([each.filter for each in self._subscriptions.values()], self._period, now)

    def disconnected(self, now: float) -> None:
        """Remove all peers of the application: it has closed its connection."""
        self.ended = True
        for subscription in self._subscriptions.values():
            self._release(subscription, now)
        self._subscriptions.clear()
        self._publisher.close(now)

    # --- the session --------------------------------------------------------------------------------------------------

    def _handle_frame(self, frame: Frame, now: float) -> None:
        if self._handshake.state is not State.OPEN:
            self._handle_handshake(frame)
            return
        match frame:
            case Ping():
                self._publisher.ping(frame)
            case Subscribe():
                self._run_request(frame.request, lambda: self._subscribe(frame, now))
            case Unsubscribe():
                self._unsubscribe(frame, now)
            case Advertise():
                self._run_request(frame.request, lambda: self._publisher.advertise(frame, now))
            case Unadvertise():
                self._publisher.unadvertise(frame)
            case Acknowledge():
                self._acknowledge(frame, now)
            case Close():
                self.ended = True
            case _:
                self._refuse(frame)

    def _handle_handshake(self, frame: Frame) -> None:
        refused = self._handshake.receive(frame)
        if refused is not None:
            self._writer.send(refused)
            self.ended = True
            return
        if not isinstance(frame, Hello):
            self.ended = True
            return
        self._publisher.id = frame.publisher
        if self.node.telemetry is not None and frame.publisher:
            self.node.telemetry.name("publisher", frame.publisher, name=frame.name or self._name)
        welcome = self._handshake.welcome(
            broker_name=self._name, broker=self.node.id, session=self.node.id, heartbeat_s=HEARTBEAT_S
        )
        self._writer.send(welcome, HANDSHAKE_VERSION)
        self._decoder.establish(self._handshake.version)

    def _close(self, code: Code, message: str) -> None:
        self._writer.send(Close(code, message[:CLOSE_TEXT_MAX]))
        self.ended = True

    def _run_request(self, request: int, run: object) -> None:
        assert callable(run), "a request has a handler"
        try:
            run()
        except PlaitError as error:
            code = Code.FILTER if isinstance(error, FilterError) else Code.UNAVAILABLE
            self._writer.send(Failed(request, code, error.message[:CLOSE_TEXT_MAX], error.hint[:CLOSE_TEXT_MAX]))

    def _refuse(self, frame: Frame) -> None:
        request = getattr(frame, "request", 0)
        if request:
            hint = "connect to a broker for this"
            self._writer.send(Failed(request, Code.UNAVAILABLE, f"{type(frame).__name__}: peers do not serve it", hint))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, terms: Subscribe, now: float) -> None:
        if terms.durable:
            raise NotServed("peers do not serve durable subscriptions", hint="connect to a broker for them")
        if len(self.node.peers) + 1 >= PEERS_MAX:
            raise NotServed(f"this process has {PEERS_MAX} peers (PEERS_MAX) already")
        filter = parse(terms.filter)
        subspaces = self.node.group.subspaces(filter)
        bound = terms.within_us / 1_000_000 if terms.within_us else BOUND_S
        id = terms.subscription
        peer = None
        if len(subspaces):
            consumer, batch_consumer = partial(self._deliver, id), partial(self._deliver_batch, id)
            peer = self.node.add(subspaces, bound, consumer, now, batch_consumer=batch_consumer)
        old = self._subscriptions.get(id)
        subscription = PeerSubscription(
            terms, filter, peer, old.number if old is not None else self.node.new_number(), since=self._period
        )
        if self.node.telemetry is not None:
            self.node.telemetry.name(
                "subscription", subscription.number, filter=filter.text, client=self._name, within_us=terms.within_us
            )
        if old is not None:
            subscription.previous, subscription.position = old.peer, old.position
            subscription.unacknowledged = old.unacknowledged
            if old.previous is not None:
                self.node.remove(old.previous, now)
        self._subscriptions[id] = subscription

    def _open_if_ready(self, id: int, subscription: PeerSubscription, now: float) -> None:
        """Open a subscription when all publishers reach it and have enrolled it; without publishers, after a while."""
        peer, waited = subscription.peer, self._period - subscription.since
        if peer is not None and not peer.open and waited < ENROL_PERIODS_MAX:
            patience = OPEN_PERIODS_MAX if peer.candidates.publishers else NOBODY_PERIODS
            if waited < patience or not peer.confirmed_delivery.enrolled:
                return
        subscription.opened = True
        if subscription.previous is not None:
            self.node.remove(subscription.previous, now)
            subscription.previous = None
        self._writer.send(Done(subscription.terms.request))

    def _unsubscribe(self, frame: Unsubscribe, now: float) -> None:
        subscription = self._subscriptions.pop(frame.subscription, None)
        if subscription is not None:
            self._release(subscription, now)
        self._writer.send(Done(frame.request))

    def _release(self, subscription: PeerSubscription, now: float) -> None:
        for peer in (subscription.peer, subscription.previous):
            if peer is not None:
                for peer_id, publisher, number in subscription.unacknowledged.values():
                    if peer_id == peer.id:
                        peer.acknowledge(publisher, number)
                self.node.remove(peer, now)

    def _deliver(self, id: int, output: Output) -> None:
        """Deliver an event whose sub-space matches, if the filter matches as well."""
        assert isinstance(output, Deliver), "subscribers publish nothing"
        subscription = self._subscriptions.get(id)
        if subscription is None:
            return
        peer = subscription.peer
        frame = Publish(Confirm.NONE, output.block)
        flags, position = 0, 0
        delay_us = int(output.delay * 1_000_000)
        dropped = self._drop_reason(subscription, frame)
        if dropped:
            self._record(subscription, frame, output, dropped)
            self._acknowledge_event(subscription, output)
            return
        if subscription.terms.within_us and delay_us > subscription.terms.within_us:
            self.counts["late"] += 1
            if subscription.terms.late is Late.DROP:
                self._record(subscription, frame, output, "late")
                self._writer.send(Notice(id, NoticeKind.GAP, "late", 1, output.publisher, output.number, output.number))
                self._acknowledge_event(subscription, output)
                return
            flags = LATE
        if self.client_bytes > CLIENT_BYTES_MAX:
            self.counts["full"] += 1
            self._record(subscription, frame, output, "outbox_bytes")
            self._writer.send(
                Notice(id, NoticeKind.GAP, "queue_full", 1, output.publisher, output.number, output.number)
            )
            return
        self._record(subscription, frame, output, flags=flags)
        if output.round and peer is not None and len(subscription.unacknowledged) < UNACKNOWLEDGED_MAX:
            subscription.position += 1
            position, flags = subscription.position, flags | CONFIRM
            subscription.unacknowledged[position] = (peer.id, output.publisher, output.number)
        self.counts["delivered"] += 1
        writer = self._writer
        writer.size = writer.deliveries.deliver(frame, delay_us, (), ((id, flags, position),), writer.version)

    def _deliver_batch(self, id: int, frames: list[Forward], link_us: int) -> None:
        """Deliver unconfirmed events of a subscription without a bound: the fast path of `_deliver`."""
        subscription = self._subscriptions.get(id)
        if subscription is None or subscription.terms.within_us or self.client_bytes > CLIENT_BYTES_MAX:
            for frame in frames:
                delay, hops = (frame.delay_us + link_us) / 1_000_000, hops_of(frame) - 1
                self._deliver(id, Deliver(frame.publisher, frame.sequence, "", delay, hops, frame.block))
            return
        writer = self._writer
        matches, deliver = subscription.filter.matches, writer.deliveries.deliver
        targets, version = ((id, 0, 0),), writer.version
        matched: list[Forward] = []
        malformed: list[Forward] = []
        for frame in frames:
            try:
                if matches(frame.attributes()):
                    matched.append(frame)
                    writer.size = deliver(frame, frame.delay_us + link_us, (), targets, version)
            except FrameError:  # as in `_drop_reason`
                malformed.append(frame)
        self.counts["delivered"] += len(matched)
        self.counts["filtered"] += len(frames) - len(matched) - len(malformed)
        if malformed:
            self.counts["malformed"] += len(malformed)
        telemetry = self.node.telemetry
        if telemetry is not None and frames:
            arrival = Arrival(self.node.origin(frames[0].publisher), link_us, hops_of(frames[0]), self.node.now)
            telemetry.batch_received(frames, matched, malformed, arrival, subscription.number)

    def _drop_reason(self, subscription: PeerSubscription, frame: EventFrame) -> str:
        """Return the reason for which a subscription drops an event; empty if its filter matches."""
        try:
            if subscription.filter.matches(frame.attributes()):
                return ""
        except FrameError:  # the publisher is at fault: peers that forward an event do not decode it
            self.counts["malformed"] += 1
            return "invalid"
        self.counts["filtered"] += 1
        return "unmatched"

    def _record(
        self, subscription: PeerSubscription, frame: EventFrame, output: Deliver, reason: str = "", flags: int = 0
    ) -> None:
        """Record the result of an event in telemetry."""
        if self.node.telemetry is not None:
            arrival = arrival_of(output, self.node.now, self.node.origin(output.publisher))
            self.node.telemetry.events_received(
                (frame,), arrival, subscription.number, subscription.terms.within_us, reason, flags
            )

    def _acknowledge_event(self, subscription: PeerSubscription, output: Deliver) -> None:
        if output.round:
            for peer in (subscription.peer, subscription.previous):
                if peer is not None:
                    peer.acknowledge(output.publisher, output.number)

    def _acknowledge(self, frame: Acknowledge, now: float) -> None:
        subscription = self._subscriptions.get(frame.subscription)
        if subscription is not None:
            below = [position for position in subscription.unacknowledged if position <= frame.up_to]
            for position in (*frame.positions, *below):
                peer_id, publisher, number = subscription.unacknowledged.pop(position, (0, 0, 0))
                peer = self.node.peers.get(peer_id)
                if peer is not None:
                    peer.acknowledge(publisher, number)
            for peer in (subscription.peer, subscription.previous):
                if peer is not None:
                    self.node.drain(peer, now)
        if frame.request:
            self._writer.send(Done(frame.request))


def _is_publish(frame: Frame) -> bool:
    return isinstance(frame, Publish)


class NotServed(PlaitError):
    """A request that peers do not serve."""
