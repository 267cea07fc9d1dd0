"""The home of one application: to its SDK what a broker is, to the group a publisher and a subscriber for each wish.

It answers the frames of a session (`plait_core.wire.frame_types.session_frames`), so that an application that goes
without brokers keeps its program. Publishing begins when the group has heard that there is a publisher; a subscription
is open when its sub-spaces are settled, or when nobody is there who could settle them. No I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final, cast

from plait_core.errors import FilterError, FrameError, PlaitError
from plait_core.filters import Filter, parse
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.space import DzSet
from plait_core.wire import (
    Confirm,
    ControlFrame,
    DeliveryWriter,
    EventFrame,
    Forward,
    FrameDecoder,
    Handshake,
    Hello,
    Ping,
    Pong,
    Publish,
    State,
    encode_frame,
)
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
    Receipt,
    Refusal,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from plait_core.wire.frames import Frame

from .advertisements import Advertisements, asked_of
from .event_frames import hops_of
from .event_records import Came, course_of
from .node import PEERS_MAX, Node
from .protocol.outputs import Confirmed, Deliver, Output, PeerId
from .protocol.peer import Peer

BOUND_S: Final = 10.0
"""The delay that a subscription without a bound tolerates: far more than any tree of live peers makes."""
HEARTBEAT_S: Final = 2.0
NOBODY_PERIODS: Final = 8
"""After so long without hearing of anyone it concerns, a subscription or publisher is open all the same. Gossip reaches
a group of thousands in that time."""
SETTLED_PERIODS: Final = 2
"""So long nobody new must have connected to a publisher until it begins."""
OPEN_PERIODS_MAX: Final = 30
"""Then it is open though not all reach it, so that it hears those who do: below the ten seconds for which the SDK
waits. Publishers that it knows must have it on their lists; ..."""
ENROL_PERIODS_MAX: Final = 100
"""... for so long. One that is gone is forgotten long before."""
HELD_MAX: Final = 16_384
"""Publishes that wait for the publisher to be known, before the application is told to wait."""
CLIENT_BYTES_MAX: Final = 64 << 20
"""Deliveries that the application has not read; what comes on top is dropped, counted and told."""
UNACKNOWLEDGED_MAX: Final = 16_384
"""Deliveries of one subscription that somebody waits for."""


@dataclass(slots=True)
class PeerSubscription:
    """One subscription."""

    terms: Subscribe
    filter: Filter
    peer: Peer | None
    number: int
    """What records call it."""
    opened: bool = False
    since: int = 0
    before: Peer | None = None
    """Who served its former filter, until this one is open."""
    position: int = 0
    waited_for: dict[int, tuple[PeerId, PeerId, int]] = field(default_factory=dict)


class SdkSession:
    """One application's."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.counts: Counter[str] = Counter()
        """Events by what became of them: delivered, filtered (they had come for the sub-space alone), late, full."""
        self.size = 0
        """Bytes that wait for the application."""
        self._writer = DeliveryWriter()
        self.client_bytes = 0
        """What the application has not read; the face says how much."""
        self.ended = False
        self._name = name
        self._handshake = Handshake.acceptor(("resume",))
        self._decoder = FrameDecoder()
        self._wishes: dict[int, PeerSubscription] = {}
        self._offers = Advertisements(node.group)
        self._asked: list[tuple[int, int]] = []
        self._publisher_id = 0
        self._publisher: Peer | None = None
        self._publisher_since = self._last_join = 0
        self._children = 0
        self._begun = False
        self._held: deque[Publish | Ping] = deque()
        self._period = 0

    @property
    def congested(self) -> bool:
        """Whether the application should publish no more for now."""
        custody_full = self._publisher is not None and self._publisher.custody.full
        return len(self._held) >= HELD_MAX or custody_full

    @property
    def settled(self) -> bool:
        """Whether all that the application has asked for is open."""
        return all(wish.opened for wish in self._wishes.values()) and (self._publisher is None or self._begun)

    @property
    def subscriptions(self) -> int:
        """That the application has."""
        return len(self._wishes)

    def receive(self, data: bytes, now: float) -> None:
        """Bytes from the application."""
        self.node.now = now
        self._decoder.feed(data)
        try:
            while not self.ended and (frames := self._decoder.take()):
                for publishes, group in groupby(frames, _is_publish):
                    if publishes:
                        self._publish(cast("list[Publish]", list(group)), now)
                    else:
                        for frame in group:
                            self._frame(frame, now)
        except FrameError as error:
            self._close(Code.UNKNOWN, error.message)
        if self._publisher is not None:
            self.node.pump(self._publisher, now)

    def take(self) -> bytes:
        """Bytes for the application."""
        self.size = 0
        return self._writer.take()

    def tick(self, now: float) -> None:
        """Once a period of the peers: look whether what is to be opened is open."""
        self._period += 1
        self.node.now = now
        for id, wish in self._wishes.items():
            if not wish.opened:
                self._look(id, wish, now)
        publisher = self._publisher
        if publisher is not None:
            children = len(publisher.outgoing.children)
            if children != self._children:
                self._children, self._last_join = children, self._period
            self._begin(now)
            if self._begun:
                wishes = [wish.filter for wish in self._wishes.values()]
                for news in self._offers.news(asked_of(publisher, self.node), wishes):
                    self._say(news)
            self.node.pump(publisher, now)

    def gone(self, now: float) -> None:
        """The application has hung up."""
        self.ended = True
        for wish in self._wishes.values():
            self._release(wish, now)
        self._wishes.clear()
        if self._publisher is not None:
            self.node.remove(self._publisher, now)
            self._publisher = None

    # --- the session --------------------------------------------------------------------------------------------------

    def _frame(self, frame: Frame, now: float) -> None:
        if self._handshake.state is not State.OPEN:
            self._greet(frame)
            return
        match frame:
            case Ping():
                if self._held:
                    self._held.append(frame)  # its answer says that all before it was published
                else:
                    self._say(Pong(frame.nonce))
            case Subscribe():
                self._answer(frame.request, lambda: self._subscribe(frame, now))
            case Unsubscribe():
                self._unsubscribe(frame, now)
            case Advertise():
                self._answer(frame.request, lambda: self._advertise(frame, now))
            case Unadvertise():
                self._offers.remove(frame.advertisement)
                self._say(Done(frame.request))
            case Acknowledge():
                self._acknowledge(frame, now)
            case Close():
                self.ended = True
            case _:
                self._not_here(frame)

    def _greet(self, frame: Frame) -> None:
        refused = self._handshake.receive(frame)
        if refused is not None:
            self.size = self._writer.append(encode_frame(refused, self._handshake.version))
            self.ended = True
            return
        if not isinstance(frame, Hello):
            self.ended = True
            return
        self._publisher_id = frame.publisher
        welcome = self._handshake.welcome(
            broker_name=self._name, broker=self.node.id, session=self.node.id, heartbeat_s=HEARTBEAT_S
        )
        self.size = self._writer.append(encode_frame(welcome, 0))
        self._decoder.establish(self._handshake.version)

    def _say(self, frame: ControlFrame) -> None:
        self.size = self._writer.append(encode_frame(frame, self._handshake.version))

    def _close(self, code: Code, message: str) -> None:
        self._say(Close(code, message[:CLOSE_TEXT_MAX]))
        self.ended = True

    def _answer(self, request: int, carry_out: object) -> None:
        assert callable(carry_out), "something is asked for"
        try:
            carry_out()
        except PlaitError as error:
            code = Code.FILTER if isinstance(error, FilterError) else Code.UNAVAILABLE
            self._say(Failed(request, code, error.message[:CLOSE_TEXT_MAX], error.hint[:CLOSE_TEXT_MAX]))

    def _not_here(self, frame: Frame) -> None:
        request = getattr(frame, "request", 0)
        if request:
            hint = "connect to a broker for this"
            self._say(Failed(request, Code.UNAVAILABLE, f"{type(frame).__name__}: peers do not serve it", hint))

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscribe(self, terms: Subscribe, now: float) -> None:
        if terms.durable:
            raise NotServed("peers keep no place for durable subscriptions", hint="connect to a broker for them")
        if len(self.node.peers) + 1 >= PEERS_MAX:
            raise NotServed(f"{PEERS_MAX} peers (PEERS_MAX) live in this process")
        filter = parse(terms.filter)
        wanted = self.node.group.wanted(filter)
        bound = terms.within_us / 1_000_000 if terms.within_us else BOUND_S
        id = terms.subscription
        peer = None
        if len(wanted):
            peer = self.node.add(
                wanted, bound, lambda output: self._arrives(id, output), now, hearer=partial(self._hear, id)
            )
        old = self._wishes.get(id)
        wish = PeerSubscription(
            terms, filter, peer, old.number if old is not None else self.node.new_number(), since=self._period
        )
        if self.node.telemetry is not None:
            self.node.telemetry.name(
                "subscription", wish.number, filter=filter.text, client=self._name, within_us=terms.within_us
            )
        if old is not None:
            wish.before, wish.position, wish.waited_for = old.peer, old.position, old.waited_for
            if old.before is not None:
                self.node.remove(old.before, now)
        self._wishes[id] = wish

    def _look(self, id: int, wish: PeerSubscription, now: float) -> None:
        """A subscription is open when all publishers reach it and have it on their lists; or after a while, when there
        are none."""
        peer, waited = wish.peer, self._period - wish.since
        if peer is not None and not peer.open and waited < ENROL_PERIODS_MAX:
            patience = OPEN_PERIODS_MAX if peer.views.publishers else NOBODY_PERIODS
            if waited < patience or not peer.custody.enrolled:
                return
        wish.opened = True
        if wish.before is not None:
            self.node.remove(wish.before, now)
            wish.before = None
        self._say(Done(wish.terms.request))

    def _unsubscribe(self, frame: Unsubscribe, now: float) -> None:
        wish = self._wishes.pop(frame.subscription, None)
        if wish is not None:
            self._release(wish, now)
        self._say(Done(frame.request))

    def _release(self, wish: PeerSubscription, now: float) -> None:
        for peer in (wish.peer, wish.before):
            if peer is not None:
                for seat, publisher, number in wish.waited_for.values():
                    if seat == peer.id:
                        peer.dealt_with(publisher, number)
                self.node.remove(peer, now)

    def _arrives(self, id: int, output: Output) -> None:
        """An event for a subscription, as far as its sub-space says."""
        assert isinstance(output, Deliver), "subscribers publish nothing"
        wish = self._wishes.get(id)
        if wish is None:
            return
        peer = wish.peer
        frame = Publish(Confirm.NONE, output.block)
        flags, position = 0, 0
        delay_us = int(output.delay * 1_000_000)
        unwanted = self._unwanted(wish, frame)
        if unwanted:
            self._record(wish, frame, output, unwanted)
            self._dealt_with(wish, output)
            return
        if wish.terms.within_us and delay_us > wish.terms.within_us:
            self.counts["late"] += 1
            if wish.terms.late is Late.DROP:
                self._record(wish, frame, output, "late")
                self._say(Notice(id, NoticeKind.GAP, "late", 1, output.publisher, output.number, output.number))
                self._dealt_with(wish, output)
                return
            flags = LATE
        if self.client_bytes > CLIENT_BYTES_MAX:
            self.counts["full"] += 1
            self._record(wish, frame, output, "outbox_bytes")
            self._say(Notice(id, NoticeKind.GAP, "queue_full", 1, output.publisher, output.number, output.number))
            return
        self._record(wish, frame, output, flags=flags)
        if output.round and peer is not None and len(wish.waited_for) < UNACKNOWLEDGED_MAX:
            wish.position += 1
            position, flags = wish.position, flags | CONFIRM
            wish.waited_for[position] = (peer.id, output.publisher, output.number)
        self.counts["delivered"] += 1
        self.size = self._writer.deliver(frame, delay_us, (), ((id, flags, position),), self._handshake.version)

    def _hear(self, id: int, frames: list[Forward], link_us: int) -> None:
        """What `_arrives` does, for events that nobody waits for and that are in time."""
        wish = self._wishes.get(id)
        if wish is None or wish.terms.within_us or self.client_bytes > CLIENT_BYTES_MAX:
            for frame in frames:
                delay, hops = (frame.delay_us + link_us) / 1_000_000, hops_of(frame) - 1
                self._arrives(id, Deliver(frame.publisher, frame.sequence, "", delay, hops, frame.block))
            return
        matches, deliver = wish.filter.matches, self._writer.deliver
        places, version = ((id, 0, 0),), self._handshake.version
        wanted: list[Forward] = []
        malformed: list[Forward] = []
        for frame in frames:
            try:
                if matches(frame.attributes()):
                    wanted.append(frame)
                    self.size = deliver(frame, frame.delay_us + link_us, (), places, version)
            except FrameError:  # as in `_unwanted`
                malformed.append(frame)
        self.counts["delivered"] += len(wanted)
        self.counts["filtered"] += len(frames) - len(wanted) - len(malformed)
        if malformed:
            self.counts["malformed"] += len(malformed)
        telemetry = self.node.telemetry
        if telemetry is not None and frames:
            came = Came(self.node.origin(frames[0].publisher), link_us, hops_of(frames[0]), self.node.now)
            telemetry.sifted(frames, wanted, malformed, came, wish.number)

    def _unwanted(self, wish: PeerSubscription, frame: EventFrame) -> str:
        """Why a subscription does not want an event; nothing when it does."""
        try:
            if wish.filter.matches(frame.attributes()):
                return ""
        except FrameError:  # its publisher is to blame, and whoever passed it on need not look inside
            self.counts["malformed"] += 1
            return "invalid"
        self.counts["filtered"] += 1
        return "unmatched"

    def _record(
        self, wish: PeerSubscription, frame: EventFrame, output: Deliver, reason: str = "", flags: int = 0
    ) -> None:
        """What became of an event here."""
        if self.node.telemetry is not None:
            came = course_of(output, self.node.now, self.node.origin(output.publisher))
            self.node.telemetry.heard((frame,), came, wish.number, wish.terms.within_us, reason, flags)

    def _dealt_with(self, wish: PeerSubscription, output: Deliver) -> None:
        if output.round:
            for peer in (wish.peer, wish.before):
                if peer is not None:
                    peer.dealt_with(output.publisher, output.number)

    def _acknowledge(self, frame: Acknowledge, now: float) -> None:
        wish = self._wishes.get(frame.subscription)
        if wish is not None:
            below = [place for place in wish.waited_for if place <= frame.up_to]
            for place in (*frame.positions, *below):
                seat, publisher, number = wish.waited_for.pop(place, (0, 0, 0))
                peer = self.node.peers.get(seat)
                if peer is not None:
                    peer.dealt_with(publisher, number)
            for peer in (wish.peer, wish.before):
                if peer is not None:
                    self.node.pump(peer, now)
        if frame.request:
            self._say(Done(frame.request))

    # --- publishing ---------------------------------------------------------------------------------------------------

    def _advertise(self, frame: Advertise, now: float) -> None:
        """The group is told of a publisher; of the whole space, since what it may publish later is not known."""
        self._offers.add(frame.advertisement, frame.filter)
        self._announce(now)
        if self._begun:
            self._say(Done(frame.request))
        else:
            self._asked.append((frame.advertisement, frame.request))

    def _announce(self, now: float) -> Peer:
        if self._publisher is None:
            self._publisher = self.node.add(DzSet.of([""]), 0.0, self._settled, now, id=self._publisher_id)
            self._publisher_since = self._last_join = self._period
        return self._publisher

    def _publish(self, frames: list[Publish], now: float) -> None:
        publisher = self._publisher or self._announce(now)
        if not self._begun or self._held:
            self._held.extend(frames)
            return
        for dz, run in groupby(frames, self._plain_place):
            if dz is not None:
                self.node.publish(publisher, dz, list(run))
            else:
                for frame in run:
                    self._send(publisher, frame, now)

    def _plain_place(self, frame: Publish) -> str | None:
        """The sub-space of an event that only has to be sent; None for one that is to be confirmed, or refused."""
        if frame.confirm is not Confirm.NONE:
            return None
        if self.node.group.space is None:
            return ""
        try:
            return self.node.group.locate(frame.attributes())
        except PlaitError:
            return None

    def _begin(self, now: float) -> None:
        """Once who wants to hear is connected: what was held goes out, in its order."""
        waited = self._period - self._publisher_since
        quiet = self._period - self._last_join
        if not self._begun:
            met = self._children and quiet >= SETTLED_PERIODS
            if not met and waited < NOBODY_PERIODS:
                return
            self._begun = True
            for _, request in self._asked:
                self._say(Done(request))
            self._asked.clear()
        publisher = self._announce(now)
        while self._held:
            frame = self._held.popleft()
            if isinstance(frame, Ping):
                self._say(Pong(frame.nonce))
            else:
                self._send(publisher, frame, now)

    def _send(self, publisher: Peer, frame: Publish, now: float) -> None:
        try:
            dz = self.node.group.locate(frame.attributes()) if self.node.group.space is not None else ""
        except PlaitError as error:
            refusal = Refusal(frame.sequence, Code.NOT_ALLOWED, error.message[:CLOSE_TEXT_MAX], hint=error.hint[:400])
            self._say(refusal)
            return
        confirm = frame.confirm is Confirm.SUBSCRIBERS
        if publisher.custody.full and confirm:
            self._say(Refusal(frame.sequence, Code.LIMIT, "too many events await confirmation", retryable=True))
            return
        if not confirm:
            self.node.publish(publisher, dz, [frame])
        else:
            self.node.entrust(publisher, dz, frame, now)
        if frame.confirm is Confirm.BROKER:
            self._say(Receipt((frame.sequence,), (len(publisher.outgoing.children),)))

    def _settled(self, output: Output) -> None:
        assert isinstance(output, Confirmed), "publishers receive nothing"
        if output.matched is None:
            hint = "it may have reached some; publish it again under a new number if they must all have it"
            self._say(Refusal(output.number, Code.TIMEOUT, "not all subscribers are known to have it", hint=hint))
        else:
            self._say(Receipt((output.number,), (output.matched,)))


def _is_publish(frame: Frame) -> bool:
    return isinstance(frame, Publish)


class NotServed(PlaitError):
    """Peers do not serve it."""
