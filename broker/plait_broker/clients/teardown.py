"""Teardown of connections and sessions: refused, closed with a reason, detached for a while, ended.

A connection ends once, with one reason. A session outlives its connection until the client has not resumed it in time.
"""

from __future__ import annotations

from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import Close
from plait_core.wire.frame_types.session_frames import Code

from ..counters import Counters
from ..drop_reasons import DropReason
from ..outputs import Close as CloseConnection
from ..pipeline.subscription_index import SubscriptionIndex
from .connection import Connection
from .sessions import Session, Sessions
from .subscriptions import Subscriptions


class Teardown:
    """Ends the connections and sessions of one broker."""

    def __init__(
        self, counters: Counters, sessions: Sessions, index: SubscriptionIndex, subscriptions: Subscriptions
    ) -> None:
        self._counters = counters
        self._sessions = sessions
        self._index = index
        self._subscriptions = subscriptions
        self._detached: dict[Session, None] = {}
        self.closes: list[CloseConnection] = []
        self.draining = False
        """Whether the broker stops: it accepts no client and keeps no session without one."""

    def refuse(self, connection: Connection, code: Code, message: str, *, retryable: bool = True) -> None:
        """Answer a Hello with a refusal, and close."""
        self._counters.rejected[code] += 1
        connection.send(connection.handshake.refuse(code, message, retryable=retryable))
        self.closed(connection, message)

    def close(self, connection: Connection, code: str, message: str, *, retryable: bool = False) -> None:
        """Close with a reason for the other end."""
        if not connection.closing:
            connection.send(Close(code, message[:CLOSE_TEXT_MAX], retryable))
            self.closed(connection, message)

    def closed(self, connection: Connection, reason: str) -> None:
        """Close without another frame: the other end has got the reason, or given it."""
        if not connection.closing:
            connection.closing = reason or "closed"
            reason = f"{connection.broker_text}: {connection.closing}" if connection.broker_text else connection.closing
            self.closes.append(CloseConnection(connection.id, reason))

    def take(self) -> list[CloseConnection]:
        """Return the connections to close since the last call."""
        closes, self.closes = self.closes, []
        return closes

    def drain(self, now: float) -> None:
        """Accept no more clients, because the broker stops, and end the sessions without a connection."""
        self.draining = True
        self.end_detached(now)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def detach(self, session: Session, now: float) -> None:
        """Keep a session without its connection for a while, unless the broker stops."""
        self._subscriptions.disconnected(session, now)
        self._sessions.detach(session)
        if self.draining:
            self.end(session, now)
        else:
            session.detached_at = now
            self._detached[session] = None

    def attach(self, session: Session, connection: Connection) -> None:
        """Give a new or resumed session its connection."""
        self._sessions.attach(session, connection)
        self._detached.pop(session, None)

    def end(self, session: Session, now: float) -> None:
        """End a session with its subscriptions and advertisements."""
        self._sessions.detach(session)
        self._detached.pop(session, None)
        if not self.draining:  # else its client goes on at another broker, with what waits there
            self._subscriptions.reports.end_session(session, now)
        for subscription in list(session.subscriptions.values()):
            self._subscriptions.end(subscription, DropReason.GONE, now)
        for subscription in session.drained.values():
            self._subscriptions.reports.end(subscription, now)
        for advertisement in session.advertisements.values():
            self._index.unadvertise(advertisement)
        self._sessions.close(session)

    def end_detached(self, now: float, after_s: float = 0.0) -> None:
        """End the sessions that were without a connection for this time."""
        for session in list(self._detached):
            assert session.detached_at is not None, "noted when it was detached"
            if now - session.detached_at >= after_s:
                self.end(session, now)

    def close_when_drained(self, connection: Connection) -> None:
        """Close a connection because the broker stops, unless deliveries are queued for it."""
        session = self._sessions.by_connection.get(connection.id)
        if session is None or not session.backlog:
            self.close(connection, Code.DRAINING, "the broker is stopping", retryable=True)
