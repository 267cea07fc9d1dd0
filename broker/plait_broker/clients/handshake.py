"""Hello and Welcome: which clients may connect, as which principal, and with which session.

A client that connects before the broker knows the interest of the other brokers waits for its Welcome. Handshakes of
other brokers go on in `broker_connections.py`.
"""

from __future__ import annotations

from plait_core.wire import Frame, Hello, Role
from plait_core.wire.frame_types.session_frames import Code

from ..adapter.join_gate import JoinGate
from ..context import BrokerContext
from ..overlay.discovery.broker_connections import BrokerConnections
from ..pipeline.admission import Admission
from .access import Caller, Principal
from .connection import Connection
from .keepalive import Keepalive
from .sessions import Session, Sessions
from .subscriptions import Subscriptions
from .teardown import Teardown


class HandshakeHandler:
    """Handles the first frames of all connections of a broker."""

    def __init__(
        self,
        context: BrokerContext,
        sessions: Sessions,
        subscriptions: Subscriptions,
        teardown: Teardown,
        keepalive: Keepalive,
        admission: Admission,
        join_gate: JoinGate,
        broker_connections: BrokerConnections,
    ) -> None:
        self.http = ""
        """Address of the broker's HTTP side for clients, once it is known."""
        self._context = context
        self._settings = context.settings
        self._counters = context.counters
        self._sessions = sessions
        self._subscriptions = subscriptions
        self._teardown = teardown
        self._keepalive = keepalive
        self._duplicates = admission.duplicates
        self._join_gate = join_gate
        self._broker_connections = broker_connections

    def receive(self, connection: Connection, frame: Frame, now: float) -> None:
        """Take a frame of a connection that has no session yet."""
        if connection.mutual_auth is not None:
            self._broker_connections.meet(connection, frame, now)
            return
        refusal = connection.handshake.receive(frame)
        if refusal is not None or not isinstance(frame, Hello):
            if refusal is not None:
                self._counters.rejected[refusal.code] += 1
                connection.send(refusal)
            received = connection.handshake.refusal
            self._teardown.closed(connection, received.message if received is not None else "closed")
        elif frame.role is Role.BROKER:
            self._broker_connections.admit(connection, frame, now)
        elif connection.caller.vouched:
            self._teardown.refuse(connection, Code.NOT_ALLOWED, "other brokers connect here, and clients elsewhere")
        elif self._join_gate.is_open(now):
            self._admit(connection, frame, now)
        else:
            connection.hello = frame
            self._join_gate.hold(connection, frame)

    def admit_early(self, now: float) -> list[Connection]:
        """Admit the clients that were too early, once it is time, and return their connections."""
        early = self._join_gate.take(now)
        for connection, hello in early:
            self._admit(connection, hello, now)
        return [connection for connection, _ in early]

    def disconnected(self, connection: Connection) -> None:
        """Forget a connection that may have been too early."""
        self._join_gate.forget(connection)

    def _admit(self, connection: Connection, hello: Hello, now: float) -> None:
        principal = self._principal(hello, connection.caller)
        if principal is None:
            self._teardown.refuse(connection, Code.AUTH, "who you are is not known here", retryable=False)
        elif self._teardown.draining:
            self._teardown.refuse(connection, Code.DRAINING, "the broker is stopping")
        else:
            self._welcome(connection, hello, principal, now)

    def _principal(self, hello: Hello, caller: Caller) -> Principal | None:
        try:
            return self._settings.gate.admit(hello, caller)
        except Exception:  # a gate that fails admits nobody, whatever the failure
            self._counters.rejected["gate"] += 1
            return None

    def _welcome(self, connection: Connection, hello: Hello, principal: Principal, now: float) -> None:
        session = self._sessions.resumable(hello, principal)
        resumed = session is not None
        if session is None:
            if not self._make_room(connection, hello, principal, now):
                return
            session = self._sessions.open(hello, principal)
            if self._context.observer.connected is not None:
                self._context.observer.connected(session)
        else:
            if session.connection is not None:
                self._teardown.close(session.connection, Code.TAKEN, "its session was taken up by another connection")
            session.permit(principal)
        self._teardown.attach(session, connection)
        self._duplicates.touch(session.publisher)
        published = None  # for a resumed session: the highest number received, so that the client finds what was lost
        if resumed:
            published = self._duplicates.highest(session.publisher) if session.published else 0
        settings = self._settings.current
        connection.send(
            connection.handshake.welcome(
                broker_name=settings.name,
                broker=self._context.id,
                session=session.id,
                heartbeat_s=settings.heartbeat_s,
                resumed=resumed,
                delivered=session.delivered,
                log=self._context.log,
                published=published,
                http=self.http,
                report_s=self._subscriptions.reports.interval_s(len(self._sessions)),
            )
        )
        connection.hello = hello
        connection.decoder.establish(connection.version)
        self._keepalive.begin(connection, session, now)
        if resumed:
            self._subscriptions.resume(session)

    def _make_room(self, connection: Connection, hello: Hello, principal: Principal, now: float) -> bool:
        """Return whether a new session may open. It replaces an old one of the same client without a connection."""
        teardown, sessions = self._teardown, self._sessions
        other = sessions.of_publisher(hello.publisher)
        if hello.publisher == self._context.id:  # the publisher of the broker's own events
            teardown.refuse(connection, Code.TAKEN, "that publisher id is the broker's own")
            return False
        if other is not None and _is_left_by(other, principal):
            teardown.end(other, now)
        elif other is not None:
            teardown.refuse(connection, Code.TAKEN, "another client is connected under this publisher id")
            return False
        if len(sessions) >= self._settings.current.sessions_max:
            teardown.refuse(connection, Code.LIMIT, f"{len(sessions)} clients are connected")
            return False
        return True


def _is_left_by(session: Session, principal: Principal) -> bool:
    return session.connection is None and session.principal.name == principal.name
