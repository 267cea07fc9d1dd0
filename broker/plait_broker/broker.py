"""The broker, without I/O: connections with bytes and a time in, outputs out. The same object runs in production, in
`plait.testing` and in the simulator.

Bytes become frames in `links.py`; events go through `publishing.py`, everything else through `requests.py`; this file
is what holds them together: handshakes, heartbeats, the ends of sessions, deadlines, output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.events import EventId
from plait_core.filters import parse
from plait_core.ids import Randomness, id_text, new_id
from plait_core.limits import ACKNOWLEDGED_MAX, CLOSE_TEXT_MAX
from plait_core.matching import Index, new_index
from plait_core.wire import Close, CloseCode, ControlFrame, Frame, Hello, Ping, Pong, Publish
from plait_core.wire.session_frames import Code, Done, Failed, Matching, Notice, NoticeKind, Receipt, Refusal

from .access import Caller, Gate, Principal
from .confirmations import Confirmations, Outcome
from .counters import Counters
from .delivery import Deliveries
from .description import (
    Json,
    absent_durable_facts,
    advertisement_facts,
    client_facts,
    counters_facts,
    link_facts,
    queue_facts,
    subscription_facts,
)
from .durables import Durable, Durables, entry_of
from .interest import Interest
from .links import Link
from .outputs import NOTHING_RECOVERED, LinkId, LogRecord, Output, Recovered
from .outputs import Close as CloseLink
from .publishing import Publishing, Refused
from .reasons import DropReason
from .requests import Requests
from .sessions import Session, Sessions
from .settings import BrokerSettings
from .subscriptions import Subscription

SWEEPS_PER_HEARTBEAT: Final = 4
"""How often silence is looked for: a dead connection is found at most a quarter of a heartbeat late."""

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
        self._recover(recovered)
        self.reload(settings, gate, now)

    # --- connections --------------------------------------------------------------------------------------------------

    def connected(self, link: LinkId, caller: Caller, now: float) -> None:
        """Someone opened a connection."""
        self._now = now
        self.counters.connections += 1
        self._links[link] = Link(link, caller, self.settings.capabilities, self._outgoing, now)

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
            while frames := known.decoder.take():
                for frame in frames:
                    self._handle(known, frame, now)
                    if known.closing:
                        return
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
            self._publishing.lost(stage.entries, stage.matched)
        for session_id, request in stage.waiting:
            session = self.sessions.get(session_id)
            if session is not None and session.link is not None and request:
                failed = Failed(request, Code.DURABILITY, (error or "")[:CLOSE_TEXT_MAX], retryable=True)
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
        for durable in self.durables.due_again(now):
            self._publishing.pump(durable, now)
        for number, token in self.confirmations.expire(now):
            self.interest.forget_token(number, token)
        if now >= self._sweep_at:
            self._sweep_at = now + self.settings.heartbeat_s / SWEEPS_PER_HEARTBEAT
            self._sweep(now)

    def next_deadline(self) -> float:
        """When `tick` is to be called, at the latest."""
        if self._more:
            return self._now
        due = [self._sweep_at]
        timed = (self._deliveries, self.confirmations, self.durables)
        due.extend(deadline for part in timed if (deadline := part.next_deadline()) is not None)
        return min(due)

    def take_output(self) -> list[Output]:
        """What the face is to do, in order."""
        self._tell_publishers()
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

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def drained(self) -> bool:
        """Whether nobody is connected any more and everything is stored."""
        return self._draining and not self._links and self.durables.idle

    def reload(self, settings: BrokerSettings, gate: Gate, now: float) -> None:
        """Other settings from now on; sessions keep the permissions that they were opened with until they reconnect."""
        self._now = now
        self.settings = self._deliveries.settings = self._publishing.settings = settings
        self._requests.settings = self.durables.settings = settings
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
            **queue_facts(self.interest),
            "counters": counters_facts(self.counters),
        }

    def describe_links(self) -> list[Json]:
        """Its connections."""
        return [link_facts(link, self._now) for link in self._links.values()]

    def describe_clients(self) -> list[Json]:
        """Its clients, connected or expected back."""
        return [client_facts(session) for session in self.sessions.all()]

    def describe_subscriptions(self) -> list[Json]:
        """Its subscriptions, those included that are durable and away."""
        away = [durable for durable in self.durables.all() if durable.subscription is None]
        return [subscription_facts(open) for open in self.interest.subscriptions] + list(
            map(absent_durable_facts, away)
        )

    def describe_advertisements(self) -> list[Json]:
        """Its publishers' advertisements."""
        return [advertisement_facts(advertisement) for advertisement in self.interest.advertisements]

    # --- frames -------------------------------------------------------------------------------------------------------

    def _handle(self, link: Link, frame: Frame, now: float) -> None:
        session = link.session
        if session is None:
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
                link.send(Refusal(frame.sequence, refused.code, refused.message, refused.retryable))

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
        refusal = link.handshake.receive(frame)
        if refusal is not None or not isinstance(frame, Hello):
            if refusal is not None:
                link.send(refusal)
            self._closed(link, link.handshake.refusal.message if link.handshake.refusal else "closed")
            return
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
        )
        link.send(welcome)
        link.session = session
        link.hello = hello
        link.decoder.establish(link.version)
        self._ping(link, now)
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

    def _refuse(self, link: Link, code: Code, message: str, *, retryable: bool) -> None:
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
        if session is None or session.link is not link:
            return
        self._deliveries.pump(session, now)
        for durable in session.durables:
            self._publishing.pump(durable, now)
        self._note_more(link)

    def _note_more(self, link: Link) -> None:
        """Remember a connection that could take more than one burst."""
        session = link.session
        if session is None or not link.takes_data or session.link is not link:
            return
        if session.backlog or any(_reads_on(durable, self.settings.durable_window) for durable in session.durables):
            self._more[link.id] = link

    def _tell_publishers(self) -> None:
        receipts: dict[Session, list[tuple[int, int]]] = {}
        for outcome in self.confirmations.take():
            session = self.sessions.of_publisher(outcome.publisher)
            refused = _refused(outcome) if outcome.code else None
            if refused is not None:
                self._publishing.remember(EventId(outcome.publisher, outcome.sequence), refused)
            if session is None or session.link is None:
                continue  # it will ask again
            if refused is not None:
                session.link.send(Refusal(outcome.sequence, refused.code, refused.message, refused.retryable))
            else:
                self.counters.confirmed += 1
                receipts.setdefault(session, []).append((outcome.sequence, outcome.matched))
        for session, confirmed in receipts.items():
            assert session.link is not None
            for start in range(0, len(confirmed), ACKNOWLEDGED_MAX):
                sequences, matched = zip(*confirmed[start : start + ACKNOWLEDGED_MAX], strict=True)
                session.link.send(Receipt(sequences, matched))

    def _sweep(self, now: float) -> None:
        """Look for silence: strangers without a hello, peers that died, sessions that nobody came back to."""
        for link in list(self._links.values()):
            if link.closing:
                continue
            if link.session is None:
                if now - link.opened_at >= self.settings.hello_timeout_s:
                    self._close(link, Code.TIMEOUT, "no hello")
            else:
                self._check_alive(link, now)
                if self._draining:
                    self._close_when_drained(link, now)
        for session in list(self._detached):
            if session.detached_at is not None and now - session.detached_at >= self.settings.resume_s:
                self._end(session, now)
        if self.interest.doubtful:
            self.interest.review()

    def _check_alive(self, link: Link, now: float) -> None:
        silent_s = now - link.heard_at
        if silent_s >= DEAD_AFTER_HEARTBEATS * self.settings.heartbeat_s:
            self._close(link, Code.TIMEOUT, f"silent for {silent_s:.1f} s", retryable=True)
        elif link.pinged_at is None and (silent_s >= self.settings.heartbeat_s or _has_news(link)):
            self._ping(link, now)

    def _ping(self, link: Link, now: float) -> None:
        link.pinged_at = now
        proves = _has_news(link)  # then it overtakes nothing
        if link.session is not None:
            link.session.begin_proof()
        link.send(Ping(new_id(self._randomness)), behind=proves)

    def _recover(self, recovered: Recovered) -> None:
        """Take up durable subscriptions and the memory of duplicates where the log left them."""
        for cursor in recovered.cursors:
            durable = Durable(
                self.interest.new_number(),
                cursor.owner,
                cursor.name,
                parse(cursor.filter),
                cursor.acknowledged,
                set(cursor.beyond),
            )
            self.durables.add(durable)
            self.interest.add(durable)
        for record in recovered.recent:
            self._publishing.recover(entry_of(record).frame.id)


def _has_news(link: Link) -> bool:
    return link.session is not None and bool(link.session.news)


def _refused(outcome: Outcome) -> Refused:
    """What a publisher hears when it repeats an event that could not be confirmed."""
    retryable = outcome.code == Code.DURABILITY
    return Refused(DropReason.DUPLICATE, outcome.code, outcome.message, retryable=retryable)


def _reads_on(durable: Durable, window: int) -> bool:
    return not durable.keeps_up and not durable.fetching and durable.pending < window
