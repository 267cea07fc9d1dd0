"""The broker, without I/O: connections with bytes and a time in, outputs out. The same object runs in production, in
`plait.testing` and in the simulator.

This file builds the parts, dispatches frames to them, and collects what they put out. Events go through
`pipeline/pipeline.py`, other frames of clients through `clients/client_requests.py`; connections begin in
`clients/handshake.py` and end in `clients/teardown.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.ids import Randomness, id_text, new_id
from plait_core.matching import Index, new_index
from plait_core.values import Json
from plait_core.wire import Close, CloseCode, ControlFrame, EventFrame, Frame, Ping, Pong, Publish
from plait_core.wire.frame_types.session_frames import Code
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import TelemetrySettings

from .adapter.broker_names import BrokerNames
from .adapter.overlay_adapter import OverlayAdapter
from .adapter.overlay_parts import OverlayParts
from .backlog import BacklogWriter
from .clients.access import Caller, Gate
from .clients.client_reports import ClientReports
from .clients.client_requests import ClientRequests
from .clients.confirmations import Confirmations
from .clients.connection import Connection
from .clients.delivery import Deliveries
from .clients.durable.backlog_count import BacklogCount
from .clients.durable.durable_delivery import DurableDelivery
from .clients.durable.durable_subscriptions import DurableSubscriptions
from .clients.durable.recovery import recover
from .clients.handshake import HandshakeHandler
from .clients.keepalive import Keepalive
from .clients.publish_receipts import PublishReceipts
from .clients.sessions import Sessions
from .clients.subscriptions import Subscriptions
from .clients.teardown import Teardown
from .context import BrokerContext, WallClock
from .counters import Counters
from .drop_reasons import DropReason
from .outputs import NOTHING_RECOVERED, ConnectionId, LogRecord, Output, Probed, Recovered
from .overlay.discovery.broker_connections import BrokerConnections
from .overlay.security.identity import Identity
from .pipeline.admission import Admission, PublishRefused
from .pipeline.broker_events import BrokerEvents
from .pipeline.disseminator import Disseminator
from .pipeline.event_matcher import EventMatcher
from .pipeline.observer import EventObserver
from .pipeline.pipeline import EventPipeline
from .pipeline.sealed_events import SealedEvents
from .pipeline.subscription_index import SubscriptionIndex
from .settings import BrokerSettings, LiveSettings
from .status import counters_facts, queue_facts
from .telemetry.event_records import BrokerTelemetry
from .telemetry.system_events import SystemStream
from .tracing.event_history import EventHistory
from .tracing.explainer import Explainer
from .tracing.tracing import Tracing

ROUNDS_MAX: Final = 16
"""Rounds in which one call of `take_output` carries out what its own steps have caused. Most calls need one or two."""


class Broker:
    """One broker. Every method takes the time; none raises because of what a peer has sent."""

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
        identity: Callable[[Randomness, bytes], Identity | None] = Identity,
    ) -> None:
        """`identity` makes the broker's keys from randomness and the log's secret. If it returns None, as in fast
        simulations, the broker signs nothing and checks no signature or MAC."""
        keys = identity(randomness, recovered.log_secret)
        me = self.id = new_id(randomness) if keys is None else keys.id
        self.log = recovered.log
        self.started_at = self._now = now
        self._settings = LiveSettings(settings, gate)
        counters = self._counters = Counters()
        self._connections: dict[ConnectionId, Connection] = {}
        self._outgoing: dict[ConnectionId, Connection] = {}
        self.sessions = Sessions(randomness)
        self.confirmations = Confirmations(settings.confirm_timeout_s)
        self._clock = WallClock(wall_us - round(now * 1_000_000))
        self.durables = DurableSubscriptions(self._settings, recovered, self._clock)
        observer = self._observer = EventObserver(me, EventHistory(), Tracing(me, self.sessions, now))
        context = BrokerContext(me, self.log, self._settings, self._clock, counters, self.confirmations, observer)
        parts = OverlayParts(context, keys, self._connections, self.sessions, randomness, now, index)
        overlay = self.overlay = parts.overlay
        self._gate, self._join_gate = parts.gate, parts.join_gate
        remote = self._remote_confirmations = parts.confirmations
        self.interest = SubscriptionIndex(index, overlay, parts.install_waits, observer)
        self._subscriptions = Subscriptions(context, self.interest, self.durables)
        deliveries = self._deliveries = Deliveries(context, self._subscriptions)
        sealed = self._sealed = SealedEvents(counters, self.interest, overlay, self.sessions)
        self._tags = sealed.tags
        durable_delivery = DurableDelivery(context, self.durables, self._subscriptions, deliveries, sealed)
        self._durable_delivery = durable_delivery
        self._backlog_count = BacklogCount(self.durables, self.interest)
        teardown = self._teardown = Teardown(counters, self.sessions, self.interest, self._subscriptions)
        self._admission = Admission(context)
        matcher = EventMatcher(observer, self.interest, sealed, deliveries)
        disseminator = Disseminator(context, overlay, sealed, deliveries, durable_delivery, remote)
        self._receipts = PublishReceipts(context, self.sessions, self.interest, self._admission, remote)
        broker_events = BrokerEvents(counters, self.interest, deliveries, remote)
        self._pipeline = EventPipeline(
            context, self._admission, self._gate, matcher, disseminator, deliveries, self._receipts, broker_events
        )
        self._requests = ClientRequests(
            context, self.sessions, self.interest, self._subscriptions,
            self.durables, durable_delivery, parts.install_waits, self._pipeline,
        )  # fmt: skip
        self._backlog = BacklogWriter(self._settings, self.sessions, deliveries, durable_delivery, parts.links)
        self.broker_connections = BrokerConnections(me, self._settings, overlay, counters, randomness, now, teardown)
        self._keepalive = Keepalive(
            context, randomness, self._connections, self.sessions,
            teardown, self.interest, BrokerNames(overlay.map), now,
        )  # fmt: skip
        self._handshake = HandshakeHandler(
            context, self.sessions, self._subscriptions, teardown,
            self._keepalive, self._admission, self._join_gate, self.broker_connections,
        )  # fmt: skip
        self.explainer = Explainer(self, observer, overlay.send_trace, now)
        self._adapter = OverlayAdapter(
            parts, self._pipeline, self.interest, self.durables, self.broker_connections, self.explainer
        )
        self.system = SystemStream(self, broker_events)
        self._system_revision, self._unfinished = -1, False
        recover(recovered, self.interest, self.durables, self._admission, overlay, now)
        self.reload(settings, gate, now)

    # --- operation ----------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force."""
        return self._settings.current

    def reload(self, settings: BrokerSettings, gate: Gate, now: float) -> None:
        """Put other settings in force. Sessions keep the rights that they were opened with until they reconnect."""
        self._now = now
        self._settings.replace(settings, gate)
        self.overlay.give_up(settings.linking.forget)

    @property
    def telemetry(self) -> BrokerTelemetry | None:
        """The records of events, while they are recorded."""
        return self._observer.telemetry

    def observe(self, settings: TelemetrySettings, records: int = RING_RECORDS) -> BrokerTelemetry:
        """Record events from now on. The caller takes the records before there are more than `records`."""
        telemetry = BrokerTelemetry(settings, self.wall_us(0.0), records)
        self._observer.observe(telemetry)
        for session in self.sessions.all():
            telemetry.connected(session)
        for party in self.interest.parties:
            telemetry.subscribed(party)
        return telemetry

    def unobserve(self) -> None:
        """Stop recording."""
        self._observer.observe(None)

    def drain(self, now: float) -> None:
        """Stop: accept no clients and no events, deliver what is queued, and close the connections, links last."""
        self._now = now
        self._admission.drain()
        self._teardown.drain(now)
        self._keepalive.sweep_at(now)
        self.broker_connections.link_selection.stop()
        self.overlay.stop(now)
        self._adapter.carry_out(now)
        for connection in list(self._connections.values()):
            if not connection.neighbour:
                self._teardown.close_when_drained(connection)
        self.durables.flush_now(now)

    @property
    def draining(self) -> bool:
        """Whether the broker stops."""
        return self._teardown.draining

    @property
    def drained(self) -> bool:
        """Whether the broker stops, nobody is connected, and everything is stored that can be."""
        waits = self._gate.waits or self._tags.waits
        return self.draining and not self._connections and self.durables.idle and not waits

    def serves_http(self, address: str) -> None:
        """Announce the broker's HTTP side to clients and pages: `http://HOST:PORT`."""
        self._handshake.http = address

    @property
    def http(self) -> str:
        """The address of the HTTP side, without a host if it is on all addresses; empty without one."""
        return self._handshake.http

    # --- status -------------------------------------------------------------------------------------------------------

    def wall_us(self, now: float) -> int:
        """Return the broker's calendar time."""
        return self._clock.wall_us(now)

    @property
    def now_us(self) -> int:
        """The broker's calendar time at its last step."""
        return self._clock.wall_us(self._now)

    @property
    def up_s(self) -> float:
        """Time since its start, at its last step."""
        return self._now - self.started_at

    @property
    def counters(self) -> Counters:
        """The counters, up to date."""
        self._deliveries.count()
        return self._counters

    @property
    def client_reports(self) -> ClientReports:
        """Return the reports of clients about their deliveries."""
        return self._subscriptions.reports

    @property
    def connections(self) -> list[tuple[Connection, float]]:
        """All connections, and the time."""
        return [(connection, self._now) for connection in self._connections.values()]

    def fits(self, frame: EventFrame, subscription: int) -> bool:
        """Return whether the routing tokens of a subscription fit an event's tags, as far as the tests have shown."""
        return self._sealed.fits(frame, subscription)

    def describe(self) -> Json:
        """Return the facts about the broker itself."""
        return {
            "name": self.settings.name,
            "id": id_text(self.id),
            "uptime_s": round(self.up_s, 3),
            "draining": self.draining,
            "sessions": len(self.sessions),
            "links": len(self._connections),
            "subscriptions": len(self.interest),
            "durables": len(self.durables),
            "advertisements": len(self.interest.advertisements),
            "awaiting_confirmation": len(self.confirmations),
            "neighbours": len(self.broker_connections),
            "brokers": len(self.overlay.map),
            "incarnation_claimed": self.overlay.counts["incarnation_claimed"],
            **queue_facts(self.interest),
            "counters": counters_facts(self.counters),
        }

    # --- connections --------------------------------------------------------------------------------------------------

    def connected(self, id: ConnectionId, caller: Caller, now: float) -> None:
        """Note a new connection, opened by the other end or dialled by this broker."""
        self._now = now
        self._counters.connections += 1
        opened = Connection(id, caller, self.settings.capabilities, self._outgoing, now)
        self._connections[id] = opened
        if caller.dialled:
            self.broker_connections.greet(opened)

    def receive(self, id: ConnectionId, data: bytes, now: float) -> None:
        """Take bytes of a connection."""
        self._now = now
        connection = self._connections.get(id)
        if connection is None or connection.closing:
            return
        self._counters.bytes_in += len(data)
        connection.received_at = now
        connection.arrived_bytes += len(data)
        decoder = connection.decoder
        try:
            frames = decoder.read(data)
            complete = bool(frames)
            while frames:
                self._receive_frames(connection, frames, now)
                if connection.closing:
                    return
                frames = decoder.take() if decoder.more else []
            if not decoder.more:
                connection.frame_since = None
            elif complete or connection.frame_since is None:  # the incomplete frame began in this read
                connection.frame_since = now
        except FrameError as error:
            self._counters.faults[error.fault] += 1
            if error.fault is FrameFault.BODY and id in self.sessions.by_connection:
                self._counters.dropped[DropReason.INVALID] += 1
            if connection.neighbour:
                self.broker_connections.misbehaved(connection, now)
            self._teardown.close(connection, CloseCode.PROTOCOL, str(error))

    def _receive_frames(self, connection: Connection, frames: list[Frame], now: float) -> None:
        """Take the frames of one read in order, until one of them ends the connection."""
        if connection.neighbour:
            self.broker_connections.receive_all(connection, frames, now)
            return
        session = self.sessions.by_connection.get(connection.id)
        for frame in frames:
            if type(frame) is Publish and session is not None:
                try:
                    self._pipeline.publish(session, frame, now)
                except PublishRefused as refused:
                    self._receipts.refuse(connection, frame, refused, now)
            else:
                self._receive_frame(connection, frame, now)
                session = self.sessions.by_connection.get(connection.id)
            if connection.closing:
                return

    def _receive_frame(self, connection: Connection, frame: Frame, now: float) -> None:
        session = self.sessions.by_connection.get(connection.id)
        if session is None:
            self._handshake.receive(connection, frame, now)
            if connection.id in self.sessions.by_connection:
                self._backlog.write(connection, now)
        elif isinstance(frame, Ping):
            connection.send(Pong(frame.nonce))
        elif isinstance(frame, Pong):
            self._keepalive.pong(connection, session, now)
        elif isinstance(frame, Close):
            self._teardown.closed(connection, frame.code or Code.BYE)
            self._teardown.end(session, now)
        elif not isinstance(frame, ControlFrame) or not self._requests.handle(session, frame, now):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for a broker to receive")

    def set_writable(self, id: ConnectionId, writable: bool, now: float) -> None:
        """Note whether a connection takes bytes."""
        self._now = now
        connection = self._connections.get(id)
        if connection is not None:
            connection.set_writable(writable)
            if writable:
                self._backlog.write(connection, now)

    def disconnected(self, id: ConnectionId, now: float) -> None:
        """Note the end of a connection."""
        self._now = now
        connection = self._connections.pop(id, None)
        self._outgoing.pop(id, None)
        self._backlog.removed(id)
        if connection is not None:
            self._handshake.disconnected(connection)
            if connection.mutual_auth is not None:
                self.broker_connections.down(connection, now)
            session = self.sessions.by_connection.get(id)
            if session is not None:
                self._teardown.detach(session, now)

    # --- answers to outputs -------------------------------------------------------------------------------------------

    def persisted(self, ticket: int, error: str | None, now: float) -> None:
        """Take the answer to a Persist."""
        self._now = now
        stage = self.durables.persisted(ticket, error is None, now)
        if error is None:
            self._durable_delivery.stored(stage.entries, stage.matched, now)
        else:
            self._durable_delivery.lost(stage.entries, stage.matched, error)
        self.overlay.stored(stage.documents, now)
        self._requests.stored(stage.waiting, error, now)

    def fetched(self, ticket: int, records: Sequence[LogRecord], lost: bool, error: str | None, now: float) -> None:
        """Take the answer to a Fetch."""
        self._now = now
        if self._requests.fetched(ticket, records, error, now):
            return
        if not self._backlog_count.fetched(ticket, records, error, now):
            self._durable_delivery.fetched(ticket, records, lost, error, now)

    def trimmed(self, first_position: int) -> None:
        """Note that the log has deleted what is before a position."""
        self._durable_delivery.trimmed(first_position)

    def probed(self, ticket: int, answer: Probed | None, now: float) -> None:
        """Take the answer to a Probe. None: its opening is malformed."""
        self._now = now
        self._tags.probed(ticket, answer, now)

    # --- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._now = now
        self._backlog.tick(now)
        self._tags.tick(now)
        self._subscriptions.tick(now)
        if now >= self.overlay.due_at:
            self.overlay.tick(now)
            self._gate.review(now)
        if now >= self.durables.due_at:
            self._durable_delivery.retry(now)
        for number, token in self.confirmations.expire(now):
            self.interest.forget_token(number, token)
            self._remote_confirmations.forget((number, token))
        if now >= self.broker_connections.link_selection.due_at:
            self.broker_connections.tick(now)
        self.explainer.tick(now)
        self.system.tick(now)
        if now >= self._keepalive.due_at:
            self._keepalive.sweep(now)

    def next_deadline(self) -> float:
        """Return when `tick` is to be called, at the latest."""
        now = self._now
        if self._backlog.waiting or self._unfinished:
            return now
        due = min(
            self._keepalive.due_at,
            self.overlay.due_at,
            self.broker_connections.link_selection.due_at,
            self._subscriptions.due_at,
            self.confirmations.due_at,
            max(self.durables.due_at, now),
            max(self._backlog_count.due_at, now),
        )
        # Most turns need no call for these
        if self._observer.marked or self.explainer.queries.pending or self._tags.busy or self.system.live:
            deadlines = (part.next_deadline() for part in (self.explainer, self._tags, self.system))
            due = min([due, *(deadline for deadline in deadlines if deadline is not None)])
        return min(due, self._join_gate.next_deadline(now)) if self._join_gate.waiting else due

    # --- output -------------------------------------------------------------------------------------------------------

    def take_output(self) -> list[Output]:
        """Return what the server is to do, in order."""
        now = self._now
        self._unfinished = not self._settle(now)  # then the deadline is now
        if self._teardown.draining and not self.overlay.unsent:
            for link in self.broker_connections.links():
                self._teardown.close_when_drained(link)
        counters, history = self._counters, self._observer.history
        if counters.bytes_in >= history.shed_at_bytes:
            history.shed(counters.bytes_in)
        outputs: list[Output] = self.durables.take(now) if now >= self.durables.due_at else []
        if now >= self._backlog_count.due_at:
            outputs += self._backlog_count.take(now)
        if self._tags.to_ask or self._tags.exceeded:
            outputs += [*self._tags.take_probes(), *self._sealed.take_remarks(now)]
        self._take_sends(outputs, now)
        if self._teardown.closes or self.broker_connections.outputs or self._adapter.remarks:
            outputs += [*self._teardown.take(), *self.broker_connections.take(), *self._adapter.take_remarks()]
        return outputs

    def _settle(self, now: float) -> bool:
        """Carry out what the input has caused, and what that causes. Return whether nothing is left."""
        overlay = self.overlay
        for _ in range(ROUNDS_MAX):
            if overlay.pending:  # because of input, or of the last round
                self._adapter.carry_out(now)
            if self._gate.waits or self._tags.waits:
                self._pipeline.resume(now)
                if overlay.pending:  # before receipts: events may have been given up, or need not wait any more
                    continue
            if self._join_gate.waiting:
                for connection in self._handshake.admit_early(now):
                    self._backlog.write(connection, now)
            system_revision = self.interest.system_revision + overlay.remote_interest.system_revision
            if system_revision != self._system_revision:
                self._system_revision = system_revision
                self.system.start_or_stop(now)
            if self.confirmations.settled:
                self._receipts.send(now)
            if self._pipeline.hold:
                self._pipeline.hold.release()
            for step in self._observer.tracing.take() if self._observer.tracing.outgoing else ():
                overlay.send_trace(step)
            if not overlay.pending:
                return True
        return False

    def _take_sends(self, outputs: list[Output], now: float) -> None:
        """Append what the connections have queued."""
        counters, by_connection = self._counters, self.sessions.by_connection
        outgoing = list(self._outgoing.values())
        self._outgoing.clear()
        for connection in outgoing:
            if connection.neighbour and connection.lane.queue:
                self._backlog.write(connection, now)
            if not connection.writable and connection.overdue:
                self._teardown.close(connection, Code.TIMEOUT, "it reads nothing")
            send = connection.take(now)
            if send is not None:
                for chunk in send.chunks:
                    counters.bytes_out += len(chunk)
                outputs.append(send)
            session = by_connection.get(connection.id)
            if session is None or session.backlog or session.durables:
                self._backlog.note(connection)
