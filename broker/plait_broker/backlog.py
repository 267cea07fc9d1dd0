"""The backlog of a connection: what waits until it takes bytes again, in bursts."""

from __future__ import annotations

from .adapter.link_writer import LinkWriter
from .clients.connection import Connection
from .clients.delivery import Deliveries
from .clients.durable.durable_delivery import DurableDelivery
from .clients.sessions import Sessions
from .outputs import ConnectionId
from .settings import LiveSettings


class BacklogWriter:
    """Writes queued deliveries, log entries and copies for other brokers, a burst in each turn."""

    def __init__(
        self,
        settings: LiveSettings,
        sessions: Sessions,
        deliveries: Deliveries,
        durable_delivery: DurableDelivery,
        links: LinkWriter,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._deliveries = deliveries
        self._durable_delivery = durable_delivery
        self._links = links
        self.waiting: dict[ConnectionId, Connection] = {}
        """Connections that could take more than their last burst."""

    def write(self, connection: Connection, now: float) -> None:
        """Write what waits for a connection, as much as it takes."""
        if connection.neighbour:
            self._links.write_waiting(connection, now)
        session = self._sessions.by_connection.get(connection.id)
        if session is not None:
            self._deliveries.pump(session, now)
            for durable in session.durables:
                self._durable_delivery.pump(durable, now)
        self.note(connection)

    def note(self, connection: Connection) -> None:
        """Remember a connection that could take more than this burst."""
        if not connection.takes_data:
            return
        if connection.neighbour and connection.lane.queue:
            self.waiting[connection.id] = connection
        session = self._sessions.by_connection.get(connection.id)
        if session is not None:
            window = self._settings.current.durable_window
            if session.backlog or any(durable.may_read(window) for durable in session.durables):
                self.waiting[connection.id] = connection

    def tick(self, now: float) -> None:
        """Write the next burst of every connection that could take more."""
        waiting, self.waiting = self.waiting, {}
        for connection in waiting.values():
            self.write(connection, now)

    def removed(self, connection: ConnectionId) -> None:
        """Forget a connection that has ended."""
        self.waiting.pop(connection, None)
