"""The broker, without I/O: connections with bytes and a time in, outputs out. The same object runs in production, in
`plait.testing` and in the simulator.

Bytes become frames in `links.py`; events go through `publishing.py`, everything else through `requests.py`; this file
is what holds them together: handshakes, heartbeats, the ends of sessions, deadlines, output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.filters import parse
from plait_core.ids import Randomness, id_text, new_id
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.matching import Index, new_index
from plait_core.wire import Close, CloseCode, ControlFrame, Frame, Hello, Ping, Pong, Publish, Role
from plait_core.wire.session_frames import Code, Done, Failed, Matching, Notice, NoticeKind

from .access import Caller, Gate, Principal
from .confirmations import Confirmations
from .counters import Counters
from .delivery import Deliveries
from .description import Json, counters_facts, queue_facts
from .durables import Durables
from .interest import Interest
from .joining import Asked, Joining, overlay_settings
from .links import Link
from .neighbourhood import Neighbourhood
from .outputs import NOTHING_RECOVERED, LinkId, LogRecord, Output, Recovered
from .outputs import Close as CloseLink
from .publishing import Publishing, Refused
from .reasons import DropReason
from .receipts import Receipts, refusal_of
from .recovery import recover
from .requests import Requests
from .sessions import Session, Sessions
from .settings import BrokerSettings
from .subscriptions import Subscription

SWEEPS_PER_HEARTBEAT: Final = 4
"""How often silence is looked for: a dead connection is found at most a quarter of a heartbeat late."""

SWEEP_GAP_S: Final = 0.05
"""Between two looks at all connections, and so how late a deadline of one may be found: in a crowd of slow ones each
has a deadline of its own."""

DEAD_AFTER_HEARTBEATS: Final = 3


class Broker:
    """One broker. Every method takes the time; none raises for what a peer sent."""

    def __init__(
        self,
        settings: BrokerSettings,
        randomness: Randomness,
        gate: Gate,
        *,
        now: float,
        wall_us: int,
        recovered: Recovered = NOTHING_RECOVERED,
        index: Callable[[], Index] = new_index,
    ) -> None:
        self.id = new_id(randomness)
        self.log = recovered.log
        self.settings = settings
        self.counters = Counters()
        self.started_at = now
        self._gate = gate
        self._randomness = randomness
        self._now = now
        self._links: dict[LinkId, Link] = {}
        self._outgoing: dict[LinkId, Link] = {}
        self._more: dict[LinkId, Link] = {}
        self._closes: list[CloseLink] = []
        self._draining = False
        self._detached: dict[Session, None] = {}
        self._sweep_at = now
        self.sessions = Sessions(randomness)
        self.interest = Interest(index)
        self.confirmations = Confirmations(settings.confirm_timeout_s)
        self.durables = Durables(settings, recovered)
        self._deliveries = Deliveries(
            self.id, settings, self.counters, self.confirmations, self._close_full, self._drained_subscription
        )
        self._publishing = Publishing(
            settings,
            self.counters,
            self.interest,
            self._deliveries,
            self.durables,
            self.confirmations,
            wall_us - round(now * 1_000_000),
        )
        self._requests = Requests(
            settings,
            self.counters,
            self.interest,
            self._deliveries,
            self.durables,
            self.confirmations,
            self._publishing,
        )
        self._receipts = Receipts(
            self.counters,
            self.interest,
            self.sessions,
            self.confirmations,
            self._publishing,
            lambda outcome: self.joining.settled(outcome, self._now),
        )
        self.joining = self._joined(randomness, wall_us, index)
        self.neighbourhood = Neighbourhood(self.id, settings, self.joining, self._close, self._refuse)
        self.interest.joining = self.joining
        self._publishing.join(self.joining)
        recover(recovered, self.interest, self.durables, self._publishing)
        self.reload(settings, gate, now)

    def _joined(self, randomness: Randomness, wall_us: int, index: Callable[[], Index]) -> Joining:
        return Joining(
            self.id,
            overlay_settings(self.settings),
            self._links,
            self.counters,
            self.confirmations,
            randomness,
            self._now,
            index,
            arrive=lambda arrival: self._publishing.arrive(arrival, self._now),
            close=lambda link, reason: self._close(self._links[link], Code.TIMEOUT, reason),
            done=self._done,
            interest_changed=self.interest.doubt_all,
            clock=lambda: self._now,
            log=self.log,
            born=wall_us,
            expected=self.settings.overlay_links,
        )

    # --- connections --------------------------------------------------------------------------------------------------

    def connected(self, link: LinkId, caller: Caller, now: float, *, dialled: bool = False) -> None:
        """Someone opened a connection; or we did, to another broker."""
        self._now = now
        self.counters.connections += 1
        opened = self._links[link] = Link(link, caller, self.settings.capabilities, self._outgoing, now)
        if dialled:
            self.neighbourhood.greet(opened)

    def receive(self, link: LinkId, data: bytes, now: float) -> None:
        """Bytes came in."""
        self._now = now
        known = self._links.get(link)
        if known is None or known.closing:
            return
        self.counters.bytes_in += len(data)
        known.heard_at = now
        try:
            known.decoder.feed(data)
            complete = False
            while frames := known.decoder.take():
                complete = True
                for frame in frames:
                    self._handle(known, frame, now)
                    if known.closing:
                        return
            if not known.decoder.held_bytes:
                known.frame_since = None
            elif complete or known.frame_since is None:  # what is held began in this read
                known.frame_since = now
        except FrameError as error:
            self.counters.faults[error.fault] += 1
            if error.fault is FrameFault.BODY and known.session is not None:
                self.counters.dropped[DropReason.INVALID] += 1
            self._close(known, CloseCode.PROTOCOL, str(error))

    def set_writable(self, link: LinkId, writable: bool, now: float) -> None:
        """A connection takes bytes again, or for now no more."""
        self._now = now
        known = self._links.get(link)
        if known is not None:
            known.set_writable(writable)
            if writable:
                self._go_on(known, now)

    def disconnected(self, link: LinkId, now: float) -> None:
        """A connection is gone."""
        self._now = now
        known = self._links.pop(link, None)
        self._outgoing.pop(link, None)
        self._more.pop(link, None)
        if known is not None and known.neighbour:
            self.neighbourhood.down(known, now)
        if known is None or known.session is None or known.session.link is not known:
            return
        session = known.session
        session.link = None
        if self._draining:
            self._end(session, now)
        else:
            session.detached_at = now
            self._detached[session] = None

    # --- the log ------------------------------------------------------------------------------------------------------

    def persisted(self, ticket: int, error: str | None, now: float) -> None:
        """What a Persist asked for is stored, or could not be."""
        self._now = now
        stage = self.durables.persisted(ticket, error is None, now)
        if error is None:
            self._publishing.stored(stage.entries, stage.matched, now)
        else:
            self._publishing.lost(stage.entries, stage.matched, error)
        for session_id, request, undo in stage.waiting:
            if error is not None and undo is not None:
                undo(now)
            session = self.sessions.get(session_id)
            if session is not None and session.link is not None and request:
                failed = Failed(request, Code.DURABILITY, (error or "")[:CLOSE_TEXT_MAX], retryable=True)
                if error is not None or self.joining.may_answer((session_id, request)):
                    session.link.send(Done(request) if error is None else failed)

    def fetched(self, ticket: int, records: Sequence[LogRecord], lost: bool, error: str | None, now: float) -> None:
        """What a Fetch asked for."""
        self._now = now
        if error is not None:
            self.durables.not_fetched(ticket, now)
            return
        durable, entries, up_to = self.durables.fetched(ticket, records)
        subscription = durable.subscription
        if subscription is None:
            return
        if lost and subscription.session.link is not None:
            self.counters.dropped[DropReason.RETENTION] += 1
            subscription.session.tell(Notice(subscription.id, NoticeKind.GAP, DropReason.RETENTION))
        self._publishing.read(durable, entries, up_to, now)
        self._publishing.pump(durable, now)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._now = now
        more, self._more = self._more, {}
        for link in more.values():
            self._go_on(link, now)
        self._deliveries.tick(now)
        if now >= self.joining.overlay.next_deadline():
            self.joining.overlay.tick(now)
        for durable in self.durables.due_again(now):
            self._publishing.pump(durable, now)
        for number, token in self.confirmations.expire(now):
            self.interest.forget_token(number, token)
            self.joining.forget((number, token))
        if now >= self._sweep_at:
            self._sweep_at = max(self._sweep(now), now + SWEEP_GAP_S)

    def next_deadline(self) -> float:
        """When `tick` is to be called, at the latest."""
        if self._more:
            return self._now
        due = [self._sweep_at, self.joining.next_deadline(self._now)]
        timed = (self._deliveries, self.confirmations, self.durables)
        due.extend(deadline for part in timed if (deadline := part.next_deadline()) is not None)
        return min(due)

    def take_output(self) -> list[Output]:
        """What the face is to do, in order."""
        self.joining.overlay.settle(self._now)
        for early, hello in self.joining.take_early(self._now):
            if not early.closing and early.id in self._links:
                self._admit(early, hello, self._now)
        self._receipts.send()
        self._deliveries.count()
        outputs: list[Output] = []
        outputs.extend(self.durables.take(self._now))
        outgoing = self._outgoing.copy()
        self._outgoing.clear()
        for link in outgoing.values():
            if link.overdue:
                self._close(link, Code.TIMEOUT, "it reads nothing")
            send = link.take()
            if send is not None:
                self.counters.bytes_out += sum(map(len, send.chunks))
                outputs.append(send)
            self._note_more(link)
        outputs.extend(self._closes)
        self._closes = []
        return outputs

    # --- operation ----------------------------------------------------------------------------------------------------

    def drain(self, now: float) -> None:
        """Stop: no one new, everyone told to go elsewhere, what is queued delivered first."""
        self._now = now
        self._draining = True
        self._sweep_at = now
        for session in list(self._detached):
            self._end(session, now)
        for link in list(self._links.values()):
            self._close_when_drained(link, now)
        self.durables.hurry(now)

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def drained(self) -> bool:
        """Whether nobody is connected any more and everything is stored that can be."""
        return self._draining and not self._links and self.durables.idle

    def reload(self, settings: BrokerSettings, gate: Gate, now: float) -> None:
        """Other settings from now on; sessions keep the permissions that they were opened with until they reconnect."""
        self._now = now
        self.settings = self._deliveries.settings = self._publishing.settings = settings
        self._requests.settings = self.durables.settings = self.neighbourhood.settings = settings
        self._publishing.log_filter = parse(settings.log_filter) if settings.log_filter else None
        self._gate = gate

    def describe(self) -> Json:
        """The broker itself."""
        return {
            "name": self.settings.name,
            "id": id_text(self.id),
            "uptime_s": round(self._now - self.started_at, 3),
            "draining": self._draining,
            "sessions": len(self.sessions),
            "links": len(self._links),
            "subscriptions": len(self.interest),
            "durables": len(self.durables),
            "advertisements": len(self.interest.advertisements),
            "awaiting_confirmation": len(self.confirmations),
            "neighbours": len(self.neighbourhood),
            "brokers": len(self.joining.overlay.map),
            **queue_facts(self.interest),
            "counters": counters_facts(self.counters),
        }

    @property
    def links(self) -> list[tuple[Link, float]]:
        """All connections, and the time."""
        return [(link, self._now) for link in self._links.values()]

    # --- frames -------------------------------------------------------------------------------------------------------

    def _handle(self, link: Link, frame: Frame, now: float) -> None:
        session = link.session
        if session is None:
            if link.neighbour:
                self.neighbourhood.hear(link, frame, now)
            else:
                self._handshake(link, frame, now)
        elif isinstance(frame, Publish):
            self._publish(link, session, frame, now)
        elif isinstance(frame, Ping):
            link.send(Pong(frame.nonce))
        elif isinstance(frame, Pong):
            self._pong(link, session, now)
        elif isinstance(frame, Close):
            self._farewell(link, session, frame, now)
        elif not isinstance(frame, ControlFrame) or not self._requests.handle(session, frame, now):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for a broker to receive")

    def _publish(self, link: Link, session: Session, frame: Publish, now: float) -> None:
        try:
            if self._draining:
                raise Refused(DropReason.DRAINING, Code.DRAINING, "the broker is stopping", retryable=True)
            self._publishing.publish(session, frame, now)
        except Refused as refused:
            self.counters.refused += 1
            self.counters.dropped[refused.reason] += 1
            if frame.confirm or not refused.retryable:
                link.send(refusal_of(frame.sequence, refused))

    def _done(self, asked: Asked) -> None:
        """What a request asked for is so."""
        session = self.sessions.get(asked[0])
        if session is not None and session.link is not None:
            session.link.send(Done(asked[1]))

    def _pong(self, link: Link, session: Session, now: float) -> None:
        if link.pinged_at is not None:
            half_us = round((now - link.pinged_at) * 500_000)
            link.pinged_at = None
            session.proving.clear()
            known = session.link_delay_us
            # Queueing at either end only ever adds: follow falls at once, rises slowly.
            session.link_delay_us = half_us if not known or half_us < known else known + (half_us - known) // 8

    def _farewell(self, link: Link, session: Session, frame: Close, now: float) -> None:
        self._closed(link, frame.code or Code.BYE)
        self._end(session, now)

    # --- handshake ----------------------------------------------------------------------------------------------------

    def _handshake(self, link: Link, frame: Frame, now: float) -> None:
        if link.dialled:
            reason = self.neighbourhood.welcomed(link, frame, now)
            if reason:
                self._closed(link, reason)
            return
        refusal = link.handshake.receive(frame)
        if refusal is not None or not isinstance(frame, Hello):
            if refusal is not None:
                link.send(refusal)
            self._closed(link, link.handshake.refusal.message if link.handshake.refusal else "closed")
            return
        if frame.role is Role.BROKER:
            self.neighbourhood.admit(link, frame, now)
        elif self.joining.look_joined(now):
            self._admit(link, frame, now)
        else:
            self.joining.early[link] = frame

    def _admit(self, link: Link, frame: Hello, now: float) -> None:
        principal = self._principal(frame, link.caller)
        if principal is None:
            self._refuse(link, Code.AUTH, "who you are is not known here", retryable=False)
        elif self._draining:
            self._refuse(link, Code.DRAINING, "the broker is stopping", retryable=True)
        else:
            self._welcome(link, frame, principal, now)

    def _principal(self, hello: Hello, caller: Caller) -> Principal | None:
        try:
            return self._gate.admit(hello, caller)
        except Exception:  # a gate that fails lets nobody in, whatever the failure
            self.counters.rejected["gate"] += 1
            return None

    def _welcome(self, link: Link, hello: Hello, principal: Principal, now: float) -> None:
        session = self.sessions.resumable(hello, principal)
        resumed = session is not None
        if session is None:
            if not self._make_room(link, hello, principal, now):
                return
            session = self.sessions.open(hello, principal, link)
        else:
            if session.link is not None:
                self._close(session.link, Code.TAKEN, "its session was taken up by another connection")
            session.permit(principal)
        session.link = link
        session.detached_at = None
        self._detached.pop(session, None)
        self._publishing.duplicates.touch(session.publisher)
        welcome = link.handshake.welcome(
            broker_name=self.settings.name,
            broker=self.id,
            session=session.id,
            heartbeat_s=self.settings.heartbeat_s,
            resumed=resumed,
            delivered=session.delivered,
            log=self.log,
        )
        link.send(welcome)
        link.session = session
        link.hello = hello
        link.decoder.establish(link.version)
        self._ping(link, now)
        self.joining.introduce(link)
        if resumed:
            self._resume(session, link)
        self._go_on(link, now)

    def _resume(self, session: Session, link: Link) -> None:
        """What was on its way when the connection broke is lost: durable deliveries come again, news is told again."""
        for durable in session.durables:
            self.durables.rewind(durable)
        for advertisement in session.advertisements.values():
            link.send(Matching(advertisement.id, advertisement.matching))
        self._deliveries.resumed(session)

    def _make_room(self, link: Link, hello: Hello, principal: Principal, now: float) -> bool:
        """Whether a new session may open; an old one of the same client that lost its connection gives way."""
        other = self.sessions.of_publisher(hello.publisher)
        if other is not None and other.link is None and other.principal.name == principal.name:
            self._end(other, now)
        elif other is not None:
            self._refuse(link, Code.TAKEN, "another client is connected under this publisher id", retryable=True)
            return False
        if len(self.sessions) >= self.settings.sessions_max:
            self._refuse(link, Code.LIMIT, f"{len(self.sessions)} clients are connected", retryable=True)
            return False
        return True

    def _refuse(self, link: Link, code: Code, message: str, *, retryable: bool = True) -> None:
        self.counters.rejected[code] += 1
        link.send(link.handshake.refuse(code, message, retryable=retryable))
        self._closed(link, message)

    # --- ends ---------------------------------------------------------------------------------------------------------

    def _close(self, link: Link, code: str, message: str, *, retryable: bool = False) -> None:
        """Tell the other end why, and close."""
        if not link.closing:
            link.send(Close(code, message[:CLOSE_TEXT_MAX], retryable))
            self._closed(link, message)

    def _closed(self, link: Link, reason: str) -> None:
        if not link.closing:
            link.closing = reason or "closed"
            self._closes.append(CloseLink(link.id, link.closing))

    def _end(self, session: Session, now: float) -> None:
        """A session is over, with all that it had."""
        session.link = None
        self._detached.pop(session, None)
        for subscription in list(session.subscriptions.values()):
            self._requests.end(subscription, DropReason.GONE, now)
        for advertisement in session.advertisements.values():
            self.interest.unadvertise(advertisement)
        self.sessions.close(session)

    def _close_full(self, subscription: Subscription, reason: DropReason) -> None:
        self._requests.close_full(subscription, reason, self._now)

    def _drained_subscription(self, subscription: Subscription) -> None:
        self._requests.drained(subscription, self._now)

    def _close_when_drained(self, link: Link, now: float) -> None:
        if link.session is None or not link.session.backlog:
            self._close(link, Code.DRAINING, "the broker is stopping", retryable=True)

    # --- going on -----------------------------------------------------------------------------------------------------

    def _go_on(self, link: Link, now: float) -> None:
        """Write what waits for this connection."""
        session = link.session
        if link.neighbour:
            self.joining.pump(link)
            self._note_more(link)
        if session is None or session.link is not link:
            return
        self._deliveries.pump(session, now)
        for durable in session.durables:
            self._publishing.pump(durable, now)
        self._note_more(link)

    def _note_more(self, link: Link) -> None:
        """Remember a connection that could take more than one burst."""
        session = link.session
        if link.neighbour and link.takes_data and self.joining.holds(link.id):
            self._more[link.id] = link
        if session is None or not link.takes_data or session.link is not link:
            return
        if session.backlog or any(durable.reads_on(self.settings.durable_window) for durable in session.durables):
            self._more[link.id] = link

    def _sweep(self, now: float) -> float:
        """Look for silence: hellos and frames that do not come or end, peers that died, sessions that nobody came back
        to. When to look again: often enough that whatever begins in between is found in time."""
        settings = self.settings
        hello_s, frame_s = settings.hello_timeout_s, settings.frame_timeout_s
        again_at = now + min(settings.heartbeat_s / SWEEPS_PER_HEARTBEAT, hello_s, frame_s)
        for link in list(self._links.values()):
            if link.closing or link.neighbour:
                continue
            cut_at = link.cut_at(hello_s, frame_s)
            if cut_at <= now:
                self._cut_short(link)
                continue
            again_at = min(again_at, cut_at)
            if link.session is not None:
                self._check_alive(link, now)
                if self._draining:
                    self._close_when_drained(link, now)
        for session in list(self._detached):
            if session.detached_at is not None and now - session.detached_at >= self.settings.resume_s:
                self._end(session, now)
        if self.interest.doubtful:
            self.interest.review()
        if self.joining.names_changed():
            for session in self.sessions.all():
                self.joining.introduce(session.link)
        return again_at

    def _cut_short(self, link: Link) -> None:
        if link.session is None:
            self._close(link, Code.TIMEOUT, "no hello")
        else:
            unfinished = f"a frame was not complete within {self.settings.frame_timeout_s:g} s"
            self._close(link, Code.TIMEOUT, unfinished, retryable=True)

    def _check_alive(self, link: Link, now: float) -> None:
        silent_s = now - link.heard_at
        if silent_s >= DEAD_AFTER_HEARTBEATS * self.settings.heartbeat_s:
            self._close(link, Code.TIMEOUT, f"silent for {silent_s:.1f} s", retryable=True)
        elif link.pinged_at is None and (silent_s >= self.settings.heartbeat_s or link.has_news):
            self._ping(link, now)

    def _ping(self, link: Link, now: float) -> None:
        link.pinged_at = now
        proves = link.has_news  # then it overtakes nothing
        if link.session is not None:
            link.session.begin_proof()
        link.send(Ping(new_id(self._randomness)), behind=proves)
