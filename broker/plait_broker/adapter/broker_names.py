"""The names of all brokers, which clients show in place of ids."""

from __future__ import annotations

from plait_core.wire.frame_types.session_frames import Brokers

from ..clients.connection import Connection
from ..overlay.topology.link_state import LinkStateDatabase


class BrokerNames:
    """Tells the clients of one broker how the brokers are called."""

    def __init__(self, map: LinkStateDatabase) -> None:
        self._map = map
        self._revision = map.revision
        self._names: dict[int, str] = {}

    def changed(self) -> bool:
        """Return whether a name has changed since the last call."""
        if self._revision == self._map.revision:
            return False
        self._revision = self._map.revision
        before, self._names = self._names, {known.origin: known.name for known in self._map.link_states}
        return before != self._names

    def send(self, connection: Connection | None) -> None:
        """Send a client the names of all brokers."""
        known = self._map.link_states
        if connection is not None and len(known) > 1:
            connection.send(Brokers(tuple(one.origin for one in known), tuple(one.name for one in known)))
