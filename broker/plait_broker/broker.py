"""The broker, without I/O: connections with bytes and a time in, outputs out. The same object runs in production, in
`plait.testing` and in the simulator.

Who comes goes through `handshake.py`, who leaves through `teardown.py`, and `keepalive.py` looks after those in
between. Bytes become frames in `connection.py`; events go through `pipeline.py`, everything else through
`client_requests.py`; this file is what holds them together: whose frame is whose to take, what is due, what goes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plait_core.errors import FrameError, FrameFault
from plait_core.filters import parse
from plait_core.ids import Randomness, id_text
from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.matching import Index, new_index
from plait_core.sealed_opening import Fit
from plait_core.wire import Close, CloseCode, ControlFrame, EventFrame, Frame, Ping, Pong, Publish
from plait_core.wire.frame_types.session_frames import Code, Done, Failed, Notice, NoticeKind
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import TelemetrySettings

from .clients.access import Caller, Gate
from .clients.client_requests import ClientRequests
from .clients.confirmations import Confirmations
from .clients.connection import Connection
from .clients.delivery import Deliveries
from .clients.durable_subscriptions import DurableSubscriptions
from .clients.handshake import HandshakeHandler
from .clients.keepalive import Keepalive
from .clients.publish_receipts import PublishReceipts, refusal_of
from .clients.recovery import recover
from .clients.sessions import Session, Sessions
from .clients.subscriptions import Subscription
from .clients.teardown import Teardown
from .counters import Counters
from .drop_reasons import DropReason
from .joining import Asked, Joining, overlay_settings
from .outputs import NOTHING_RECOVERED, ConnectionId, LogRecord, Output, Recovered
from .overlay import ReceivedEvent
from .overlay.discovery.broker_connections import BrokerConnections
from .overlay.security.identity import Identity
from .pipeline.pipeline import EventPipeline, PublishRefused
from .pipeline.subscription_index import SubscriptionIndex
from .settings import BrokerSettings
from .status import Json, counters_facts, queue_facts
from .telemetry.event_records import BrokerTelemetry
from .telemetry.system_events import SystemStream
from .tracing.explainer import Explainer


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
        self._identity = Identity(randomness, recovered.log_secret)
        self.id = self._identity.id
        self.log = recovered.log
        self.settings = settings
        counters = self._counters = Counters()
        self.started_at = now
        self.telemetry: BrokerTelemetry | None = None
        self._now = now
        self._links: dict[ConnectionId, Connection] = {}
        self._outgoing: dict[ConnectionId, Connection] = {}
        self._more: dict[ConnectionId, Connection] = {}
        self.sessions = Sessions(randomness)
        self.interest = SubscriptionIndex(index)
        self.confirmations = Confirmations(settings.confirm_timeout_s)
        self.durables = DurableSubscriptions(settings, recovered)
        self.explaining = Explainer(self, lambda frame: self.joining.overlay.tell(frame), now)
        self._deliveries = Deliveries(
            self.id, settings, counters, self.confirmations, self.explaining,
            self._close_full, self._drained_subscription,
        )  # fmt: skip
        self._publishing = EventPipeline(
            settings, counters, self.interest, self._deliveries, self.durables, self.confirmations,
            self.explaining, wall_us - round(now * 1_000_000),
        )  # fmt: skip
        self._requests = ClientRequests(
            settings, counters, self.interest, self._deliveries, self.durables, self.confirmations,
            self._publishing, self.explaining.tracing,
        )  # fmt: skip
        self._receipts = PublishReceipts(
            counters,
            self.interest,
            self.sessions,
            self.confirmations,
            self._publishing,
            lambda outcome: self.joining.settled(outcome, self._now),
            lambda party: self.joining.silent_broker(party),
        )
        self._departures = Teardown(counters, self.interest, self.sessions, self._requests)
        self.joining = self._joined(randomness, wall_us, index)
        self.neighbourhood = BrokerConnections(
            self.id,
            settings,
            self.joining,
            counters,
            randomness,
            now,
            self._departures.close,
            self._departures.refuse,
        )
        self._watch = Keepalive(
            settings, randomness, self._links, self.sessions, self._departures, self.interest, self.joining, now
        )
        self._handshakes = self._opened(gate)
        self.system = SystemStream(self, self._deliveries)
        self.interest.joining = self.joining
        self._publishing.join(self.joining, self.system.arrived)
        recover(recovered, self.interest, self.durables, self._publishing, self.joining, now)
        self.reload(settings, gate, now)

    def _joined(self, randomness: Randomness, wall_us: int, index: Callable[[], Index]) -> Joining:
        return Joining(
            self.id,
            overlay_settings(self.settings),
            self._links,
            self._counters,
            self.confirmations,
            self.explaining,
            randomness,
            self._now,
            index,
            arrive=self._publishing.arrive,
            close=lambda link, reason: self._departures.close(self._links[link], Code.TIMEOUT, reason),
            expel=lambda link, reason: self.neighbourhood.expel(self._links[link], Code.FORGED, reason, self._now),
            done=self._done,
            interest_changed=self.interest.doubt_all,
            clock=lambda: self._now,
            identity=self._identity,
            incarnation=self.log if self._identity.incarnation_key else 0,
            born=wall_us,
            expected=self.settings.linking.expected,
            join_s=self.settings.linking.join_s,
            remember=self.durables.remember if self.log else None,
        )

    def _opened(self, gate: Gate) -> HandshakeHandler:
        return HandshakeHandler(
            self.id,
            self.log,
            self.settings,
            gate,
            self._counters,
            self.sessions,
            self._departures,
            self._publishing,
            self._deliveries,
            self.durables,
            self.joining,
            self.neighbourhood,
            self._watch,
            self._go_on,
        )

    def observe(self, settings: TelemetrySettings, records: int = RING_RECORDS) -> BrokerTelemetry:
        """Record what happens from now on; whoever asks for it takes the records before there are so many."""
        telemetry = BrokerTelemetry(settings, self.wall_us(0.0), records)
        self._tell_recorder(telemetry)
        for party in self.interest.parties:
            telemetry.subscribed(party)
        return telemetry

    def unobserve(self) -> None:
        """Record nothing any more."""
        self._tell_recorder(None)

    def _tell_recorder(self, telemetry: BrokerTelemetry | None) -> None:
        self.telemetry = self.interest.telemetry = self.joining.telemetry = telemetry
        self._publishing.telemetry = self._deliveries.telemetry = self.explaining.telemetry = telemetry

    def wall_us(self, now: float) -> int:
        """The broker's calendar."""
        return self._publishing.wall_us(now)

    @property
    def counters(self) -> Counters:
        """What it counts, up to now."""
        self._deliveries.count()
        return self._counters

    def serves_http(self, address: str) -> None:
        """Clients are told from now on where the broker's HTTP side is: `http://HOST:PORT`."""
        self._handshakes.http = address

    # --- connections --------------------------------------------------------------------------------------------------

    def connected(self, link: ConnectionId, caller: Caller, now: float) -> None:
        """Someone opened a connection; or we did, to another broker."""
        self._now = now
        self._counters.connections += 1
        opened = self._links[link] = Connection(link, caller, self.settings.capabilities, self._outgoing, now)
        if caller.dialled:
            self.neighbourhood.greet(opened)

    def receive(self, link: ConnectionId, data: bytes, now: float) -> None:
        """Bytes came in."""
        self._now = now
        known = self._links.get(link)
        if known is None or known.closing:
            return
        self._counters.bytes_in += len(data)
        known.heard_at = now
        decoder = known.decoder
        try:
            frames = decoder.read(data)
            complete = bool(frames)
            while frames:
                self._hear(known, frames, now)
                if known.closing:
                    return
                frames = decoder.take() if decoder.more else []
            if not decoder.more:
                known.frame_since = None
            elif complete or known.frame_since is None:  # what is held began in this read
                known.frame_since = now
        except FrameError as error:
            self._counters.faults[error.fault] += 1
            if error.fault is FrameFault.BODY and known.session is not None:
                self._counters.dropped[DropReason.INVALID] += 1
            if known.neighbour:
                self.neighbourhood.misbehaved(known, now)
            self._departures.close(known, CloseCode.PROTOCOL, str(error))

    def set_writable(self, link: ConnectionId, writable: bool, now: float) -> None:
        """A connection takes bytes again, or for now no more."""
        self._now = now
        known = self._links.get(link)
        if known is not None:
            known.set_writable(writable)
            if writable:
                self._go_on(known, now)

    def disconnected(self, link: ConnectionId, now: float) -> None:
        """A connection is gone."""
        self._now = now
        known = self._links.pop(link, None)
        self._outgoing.pop(link, None)
        self._more.pop(link, None)
        if known is not None:
            self._handshakes.gone(known)
            if known.meeting is not None:
                self.neighbourhood.down(known, now)
        if known is None or known.session is None or known.session.link is not known:
            return
        self._departures.detach(known.session, now)

    # --- the log ------------------------------------------------------------------------------------------------------

    def persisted(self, ticket: int, error: str | None, now: float) -> None:
        """What a Persist asked for is stored, or could not be."""
        self._now = now
        stage = self.durables.persisted(ticket, error is None, now)
        if error is None:
            self._publishing.stored(stage.entries, stage.matched, now)
        else:
            self._publishing.lost(stage.entries, stage.matched, error)
        self.joining.overlay.stored(stage.memories)
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
            self._counters.dropped[DropReason.RETENTION] += 1
            subscription.session.tell(Notice(subscription.id, NoticeKind.GAP, DropReason.RETENTION))
        self._publishing.read(durable, entries, up_to, now)
        self._publishing.pump(durable, now)

    def probed(self, ticket: int, fits: Sequence[Fit] | None, now: float) -> None:
        """What came of a Probe: a Fit for each of its deposits, or None for what is no opening."""
        self._now = now
        self._publishing.tags.probed(ticket, fits)

    def fits(self, frame: EventFrame, deposit: bytes) -> bool:
        """Whether an event may be for who has deposited these routing keys, by what is known of its tags."""
        verdict = self._publishing.tags.judge(frame)
        return verdict is None or verdict(deposit)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._now = now
        more, self._more = self._more, {}
        for link in more.values():
            self._go_on(link, now)
        self._deliveries.tick(now)
        self.joining.tick(now)
        for durable in self.durables.due_again(now):
            self._publishing.pump(durable, now)
        for number, token in self.confirmations.expire(now):
            self.interest.forget_token(number, token)
            self.joining.forget((number, token))
        if now >= self.neighbourhood.next_deadline():
            self.neighbourhood.tick(now)
        self.explaining.tick(now)
        self.system.tick(now)
        if now >= self._watch.due_at:
            self._watch.sweep(now)

    def next_deadline(self) -> float:
        """When `tick` is to be called, at the latest."""
        if self._more:
            return self._now
        due = min(self._watch.due_at, self.joining.next_deadline(self._now), self.neighbourhood.next_deadline())
        for part in (
            self._deliveries,
            self.confirmations,
            self.durables,
            self.explaining,
            self._publishing.tags,
            self.system,
        ):
            deadline = part.next_deadline()
            if deadline is not None and deadline < due:
                due = deadline
        return due

    def take_output(self) -> list[Output]:
        """What the face is to do, in order."""
        self.joining.overlay.settle(self._now)
        if self.joining.offering.waits or self._publishing.tags.waits or self.joining.early:
            self._let_go_on(self._now)
        if self.system.wanted is not self.system.live:
            self.system.turn(self._now)
        if self.confirmations.settled:
            self._receipts.send()
        counters, memory = self._counters, self.explaining.memory
        if counters.bytes_in >= memory.shed_at_bytes:
            memory.shed(counters.bytes_in)
        outputs: list[Output] = self.durables.take(self._now)
        if self._publishing.tags.to_ask:
            outputs += self._publishing.tags.take_probes()
        outgoing = list(self._outgoing.values())
        self._outgoing.clear()
        for link in outgoing:
            if not link.writable and link.overdue:
                self._departures.close(link, Code.TIMEOUT, "it reads nothing")
            send = link.take(self._now)
            if send is not None:
                for chunk in send.chunks:
                    counters.bytes_out += len(chunk)
                outputs.append(send)
            session = link.session
            if session is None or session.backlog or session.durables:
                self._note_more(link)
        if self._departures.closes or self.neighbourhood.dials or self.joining.remarks:
            outputs += [*self._departures.take(), *self.neighbourhood.take(), *self.joining.take_remarks()]
        return outputs

    # --- operation ----------------------------------------------------------------------------------------------------

    def drain(self, now: float) -> None:
        """Stop: no one new, everyone told to go elsewhere, what is queued delivered first."""
        self._now = now
        self._departures.draining = self._publishing.draining = True
        self._watch.due_at = now
        self._departures.end_detached(now)
        self.neighbourhood.gathering.stopped = True
        for link in list(self._links.values()):
            self._departures.close_when_drained(link)
        self.durables.hurry(now)

    @property
    def draining(self) -> bool:
        return self._departures.draining

    @property
    def drained(self) -> bool:
        """Whether nobody is connected any more and everything is stored that can be."""
        waits = self.joining.offering.waits or self._publishing.tags.waits
        return self.draining and not self._links and self.durables.idle and not waits

    def reload(self, settings: BrokerSettings, gate: Gate, now: float) -> None:
        """Other settings from now on; sessions keep the permissions that they were opened with until they reconnect."""
        self._now = now
        self.settings = self._deliveries.settings = self._publishing.settings = settings
        self._requests.settings = self.durables.settings = self.neighbourhood.settings = settings
        self._handshakes.settings = self._watch.settings = settings
        self._publishing.log_filter = parse(settings.log_filter) if settings.log_filter else None
        self._handshakes.gate = gate
        self.joining.overlay.given_up = frozenset(settings.linking.forget)

    def describe(self) -> Json:
        """The broker itself."""
        return {
            "name": self.settings.name,
            "id": id_text(self.id),
            "uptime_s": round(self._now - self.started_at, 3),
            "draining": self.draining,
            "sessions": len(self.sessions),
            "links": len(self._links),
            "subscriptions": len(self.interest),
            "durables": len(self.durables),
            "advertisements": len(self.interest.advertisements),
            "awaiting_confirmation": len(self.confirmations),
            "neighbours": len(self.neighbourhood),
            "brokers": len(self.joining.overlay.map),
            "incarnation_claimed": self.joining.overlay.counts["incarnation_claimed"],
            **queue_facts(self.interest),
            "counters": counters_facts(self.counters),
        }

    @property
    def links(self) -> list[tuple[Connection, float]]:
        """All connections, and the time."""
        return [(link, self._now) for link in self._links.values()]

    # --- frames -------------------------------------------------------------------------------------------------------

    def _hear(self, link: Connection, frames: list[Frame], now: float) -> None:
        """What one read has brought, in order, until it leads to the end of the connection."""
        if link.neighbour:
            self.neighbourhood.hear_all(link, frames, now)
            return
        session = link.session
        for frame in frames:
            if type(frame) is Publish and session is not None:
                try:
                    self._publishing.publish(session, frame, now)
                except PublishRefused as refused:
                    self._refuse(link, frame, refused)
            else:
                self._handle(link, frame, now)
                session = link.session
            if link.closing:
                return

    def _handle(self, link: Connection, frame: Frame, now: float) -> None:
        session = link.session
        if session is None:
            self._handshakes.hear(link, frame, now)
        elif isinstance(frame, Ping):
            link.send(Pong(frame.nonce))
        elif isinstance(frame, Pong):
            self._watch.pong(link, session, now)
        elif isinstance(frame, Close):
            self._farewell(link, session, frame, now)
        elif not isinstance(frame, ControlFrame) or not self._requests.handle(session, frame, now):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for a broker to receive")

    def _let_go_on(self, now: float) -> None:
        """What has waited, and need not wait any more."""
        if self.joining.offering.waits:
            self._publish_held(now)
        if self._publishing.tags.waits:
            self._publish_tested(now)
        if self.joining.early:
            self._handshakes.admit_early(now)

    def _publish_held(self, now: float) -> None:
        """Events whose kind the other brokers have learned of meanwhile."""
        for session, frame, since in self.joining.offering.take():
            try:
                self._publishing.publish_offered(session, frame, round((now - since) * 1_000_000), now)
            except PublishRefused as refused:
                self._refuse(session.link, frame, refused)
        self.joining.overlay.settle(now)

    def _publish_tested(self, now: float) -> None:
        """Events of whose tags enough is known meanwhile."""
        for held in self._publishing.tags.take(now):
            if isinstance(held, ReceivedEvent):
                self._publishing.arrive_tested(held, now)
                continue
            try:
                waited_us = held.waited_us + round((now - held.since) * 1_000_000)
                self._publishing.publish_tested(held.session, held.frame, waited_us, now)
            except PublishRefused as refused:
                self._refuse(held.session.link, held.frame, refused)
        self.joining.overlay.settle(now)

    def _refuse(self, link: Connection | None, frame: Publish, refused: PublishRefused) -> None:
        self._counters.refused += 1
        self._counters.dropped[refused.reason] += 1
        self.explaining.ended(frame, refused.reason, 0, self._now)
        if link is not None and (frame.confirm or not refused.retryable):
            link.send(refusal_of(frame.sequence, refused))

    def _done(self, asked: Asked) -> None:
        """What a request asked for is so."""
        session = self.sessions.get(asked[0])
        if session is not None and session.link is not None:
            session.link.send(Done(asked[1]))

    def _farewell(self, link: Connection, session: Session, frame: Close, now: float) -> None:
        self._departures.closed(link, frame.code or Code.BYE)
        self._departures.end(session, now)

    def _close_full(self, subscription: Subscription, reason: DropReason) -> None:
        self._requests.close_full(subscription, reason, self._now)

    def _drained_subscription(self, subscription: Subscription) -> None:
        self._requests.drained(subscription, self._now)

    # --- going on -----------------------------------------------------------------------------------------------------

    def _go_on(self, link: Connection, now: float) -> None:
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

    def _note_more(self, link: Connection) -> None:
        """Remember a connection that could take more than one burst."""
        session = link.session
        if link.neighbour and link.takes_data and self.joining.holds(link.id):
            self._more[link.id] = link
        if session is None or not link.takes_data or session.link is not link:
            return
        if session.backlog or any(durable.reads_on(self.settings.durable_window) for durable in session.durables):
            self._more[link.id] = link
