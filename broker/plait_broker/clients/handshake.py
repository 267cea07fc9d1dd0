"""Hello and welcome: who may come in, as whom, and with which session. The first frames of every connection.

Clients that come before the broker knows what its neighbours want wait here for their welcome; other brokers are
handed on to `broker_connections.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from plait_core.wire import Frame, Hello, Role
from plait_core.wire.frame_types.session_frames import Code, Matching

from ..counters import Counters
from ..joining import Joining
from ..overlay.discovery.broker_connections import BrokerConnections
from ..pipeline.pipeline import EventPipeline
from ..settings import BrokerSettings
from .access import Caller, Gate, Principal
from .connection import Connection
from .delivery import Deliveries
from .durable_subscriptions import DurableSubscriptions
from .keepalive import Keepalive
from .sessions import Session, Sessions
from .teardown import Teardown


class HandshakeHandler:
    """Everyone who comes to one broker."""

    def __init__(
        self,
        me: int,
        log: int,
        settings: BrokerSettings,
        gate: Gate,
        counters: Counters,
        sessions: Sessions,
        departures: Teardown,
        publishing: EventPipeline,
        deliveries: Deliveries,
        durables: DurableSubscriptions,
        joining: Joining,
        neighbourhood: BrokerConnections,
        watch: Keepalive,
        go_on: Callable[[Connection, float], None],
    ) -> None:
        """`me` and `log` are told to clients; `go_on` writes what waits for one that has come back."""
        self.settings = settings
        self.gate = gate
        self.http = ""
        """Where clients find the broker's HTTP side, once that is known."""
        self._me = me
        self._log = log
        self._counters = counters
        self._sessions = sessions
        self._departures = departures
        self._publishing = publishing
        self._deliveries = deliveries
        self._durables = durables
        self._joining = joining
        self._neighbourhood = neighbourhood
        self._watch = watch
        self._go_on = go_on

    def hear(self, link: Connection, frame: Frame, now: float) -> None:
        """A frame of someone who was not let in yet."""
        if link.meeting is not None:
            self._neighbourhood.meet(link, frame, now)
            return
        refusal = link.handshake.receive(frame)
        if refusal is not None or not isinstance(frame, Hello):
            if refusal is not None:
                self._counters.rejected[refusal.code] += 1
                link.send(refusal)
            known = link.handshake.refusal
            self._departures.closed(link, known.message if known is not None else "closed")
        elif frame.role is Role.BROKER:
            self._neighbourhood.admit(link, frame, now)
        elif link.caller.vouched:
            self._departures.refuse(link, Code.NOT_ALLOWED, "other brokers connect here, and clients elsewhere")
        elif self._joining.look_joined(now):
            self._admit(link, frame, now)
        else:
            self._joining.early[link] = frame

    def admit_early(self, now: float) -> None:
        """Let in who came too early, once it is time."""
        for link, hello in self._joining.take_early(now):
            if not link.closing:
                self._admit(link, hello, now)

    def gone(self, link: Connection) -> None:
        """A connection is gone; it may have waited."""
        self._joining.early.pop(link, None)

    def _admit(self, link: Connection, hello: Hello, now: float) -> None:
        principal = self._principal(hello, link.caller)
        if principal is None:
            self._departures.refuse(link, Code.AUTH, "who you are is not known here", retryable=False)
        elif self._departures.draining:
            self._departures.refuse(link, Code.DRAINING, "the broker is stopping")
        else:
            self._welcome(link, hello, principal, now)

    def _principal(self, hello: Hello, caller: Caller) -> Principal | None:
        try:
            return self.gate.admit(hello, caller)
        except Exception:  # a gate that fails lets nobody in, whatever the failure
            self._counters.rejected["gate"] += 1
            return None

    def _welcome(self, link: Connection, hello: Hello, principal: Principal, now: float) -> None:
        session = self._sessions.resumable(hello, principal)
        resumed = session is not None
        if session is None:
            if not self._make_room(link, hello, principal, now):
                return
            session = self._sessions.open(hello, principal, link)
        else:
            if session.link is not None:
                self._departures.close(session.link, Code.TAKEN, "its session was taken up by another connection")
            session.permit(principal)
        self._departures.attach(session, link)
        self._publishing.duplicates.touch(session.publisher)
        link.send(
            link.handshake.welcome(
                broker_name=self.settings.name,
                broker=self._me,
                session=session.id,
                heartbeat_s=self.settings.heartbeat_s,
                resumed=resumed,
                delivered=session.delivered,
                log=self._log,
                published=self._published(session) if resumed else None,
                http=self.http,
            )
        )
        link.session = session
        link.hello = hello
        link.decoder.establish(link.version)
        self._watch.ping(link, now)
        self._joining.introduce(link)
        if resumed:
            self._resume(session, link)
        self._go_on(link, now)

    def _published(self, session: Session) -> int | None:
        """Up to where its client's events have come, so that it can tell what was lost on the way."""
        return self._publishing.duplicates.highest(session.publisher) if session.published else 0

    def _resume(self, session: Session, link: Connection) -> None:
        """What was on its way when the connection broke is lost: durable deliveries come again, news is told again."""
        for durable in session.durables:
            self._durables.rewind(durable)
        for advertisement in session.advertisements.values():
            link.send(Matching(advertisement.id, advertisement.matching))
        self._deliveries.resumed(session)

    def _make_room(self, link: Connection, hello: Hello, principal: Principal, now: float) -> bool:
        """Whether a new session may open; an old one of the same client that lost its connection gives way."""
        departures, others = self._departures, self._sessions
        other = others.of_publisher(hello.publisher)
        if hello.publisher == self._me:  # which is how others know what a broker says itself
            departures.refuse(link, Code.TAKEN, "that publisher id is the broker's own")
            return False
        if other is not None and other.link is None and other.principal.name == principal.name:
            departures.end(other, now)
        elif other is not None:
            departures.refuse(link, Code.TAKEN, "another client is connected under this publisher id")
            return False
        if len(others) >= self.settings.sessions_max:
            departures.refuse(link, Code.LIMIT, f"{len(others)} clients are connected")
            return False
        return True
