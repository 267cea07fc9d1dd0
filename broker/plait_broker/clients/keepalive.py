"""Keepalive and timeouts of connections: heartbeats, silence, incomplete handshakes and frames, sessions to end.

All connections are checked in sweeps, so often that every deadline is found in time.
"""

from __future__ import annotations

from math import inf
from typing import Final

from plait_core.ids import Randomness, new_id
from plait_core.wire import Ping
from plait_core.wire.frame_types.session_frames import Code

from ..adapter.broker_names import BrokerNames
from ..context import BrokerContext
from ..outputs import ConnectionId
from ..pipeline.subscription_index import SubscriptionIndex
from .connection import Connection
from .sessions import Session, Sessions
from .teardown import Teardown

SWEEPS_PER_HEARTBEAT: Final = 4
"""Sweeps in a heartbeat: a dead connection is found at most a quarter of a heartbeat late."""

SWEEP_GAP_S: Final = 0.05
"""Least time between two sweeps, and so the delay with which a deadline may be found: of many slow connections each has
a deadline of its own."""

DEAD_AFTER_HEARTBEATS: Final = 3


class Keepalive:
    """Checks all connections of one broker."""

    def __init__(
        self,
        context: BrokerContext,
        randomness: Randomness,
        connections: dict[ConnectionId, Connection],
        sessions: Sessions,
        teardown: Teardown,
        index: SubscriptionIndex,
        names: BrokerNames,
        now: float,
    ) -> None:
        self._settings = context.settings
        self._randomness = randomness
        self._connections = connections
        self._sessions = sessions
        self._teardown = teardown
        self._index = index
        self._names = names
        self.due_at = now
        """Time of the next sweep."""

    def begin(self, connection: Connection, session: Session, now: float) -> None:
        """Begin to watch a client: send it a ping and the names of the brokers."""
        self.ping(connection, session, now)
        self._names.send(connection)

    def ping(self, connection: Connection, session: Session, now: float) -> None:
        """Send a ping. Its pong measures the round-trip time, and proves that the notices before it have arrived."""
        connection.pinged_at = now
        proves = bool(session.pending_notices)  # then it must not overtake deliveries
        session.begin_proof()
        connection.send(Ping(new_id(self._randomness)), behind=proves)

    def sweep_at(self, now: float) -> None:
        """Check all connections at this time."""
        self.due_at = now

    def pong(self, connection: Connection, session: Session, now: float) -> None:
        """Take the answer to a ping."""
        if connection.pinged_at is not None:
            half_us = round((now - connection.pinged_at) * 500_000)
            connection.pinged_at = None
            session.unproven_notices.clear()
            known = session.link_delay_us
            # Queueing at either end only ever adds: follow falls at once, rises slowly.
            session.link_delay_us = half_us if not known or half_us < known else known + (half_us - known) // 8

    def sweep(self, now: float) -> None:
        """Check all connections, end detached sessions, and report changes that can wait."""
        again_at = self._sweep_connections(now)
        self._teardown.end_detached(now, self._settings.current.resume_s)
        if self._index.doubtful:
            self._index.review()
        if self._names.changed():
            for session in self._sessions.all():
                self._names.send(session.connection)
        self.due_at = max(again_at, now + SWEEP_GAP_S)

    def _sweep_connections(self, now: float) -> float:
        """Return the time of the next sweep."""
        settings = self._settings.current
        hello_s, frame_s = settings.hello_timeout_s, settings.frame_timeout_s
        again_at = now + min(settings.heartbeat_s / SWEEPS_PER_HEARTBEAT, hello_s, frame_s)
        for connection in list(self._connections.values()):
            if connection.closing or connection.neighbour:
                continue
            session = self._sessions.by_connection.get(connection.id)
            if session is None:  # a client whose hello has come waits for the join gate
                timeout_at = connection.opened_at + hello_s if connection.hello is None else inf
            else:
                timeout_at = inf if connection.frame_since is None else connection.frame_since + frame_s
            if timeout_at <= now:
                retryable = session is not None
                reason = f"a frame was not complete within {frame_s:g} s" if retryable else "no hello"
                self._teardown.close(connection, Code.TIMEOUT, reason, retryable=retryable)
                continue
            again_at = min(again_at, timeout_at)
            if session is not None:
                self._check_alive(connection, session, now)
                if self._teardown.draining:
                    self._teardown.close_when_drained(connection)
        return again_at

    def _check_alive(self, connection: Connection, session: Session, now: float) -> None:
        heartbeat_s = self._settings.current.heartbeat_s
        silent_s = now - connection.received_at
        if silent_s >= DEAD_AFTER_HEARTBEATS * heartbeat_s:
            self._teardown.close(connection, Code.TIMEOUT, f"silent for {silent_s:.1f} s", retryable=True)
        elif connection.pinged_at is None and (silent_s >= heartbeat_s or session.pending_notices):
            self.ping(connection, session, now)
