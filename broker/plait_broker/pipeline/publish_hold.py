"""Push-back to publishers: those whose events wait for a full stream to another broker are asked to send no more.

Without it, a stream that is full drops its oldest waiting events. `[overlay] when_full` chooses. A client that sends on
nevertheless fills the rest of the stream, and then the oldest are dropped, whoever published them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from plait_core.wire.frame_types.session_frames import HoldPublishes

from ..clients.sessions import Session
from ..overlay.transport.event_streams import EventStreams
from ..settings import BLOCK, LiveSettings

PRUNED_AT: Final = 1024
"""Publishers that wait, from which on those that have left are looked for."""


@dataclass(slots=True)
class _Held:
    session: Session
    connection: int
    homes: set[int]
    """The full destinations that its events are for."""


class PublishHold:
    """The publishers that wait, of one broker."""

    def __init__(self, settings: LiveSettings, streams: EventStreams) -> None:
        self._settings = settings
        self._streams = streams
        self.full = streams.full
        """The destinations whose streams are full."""
        self._held: dict[int, _Held] = {}
        """By session."""
        self._seen = (0, "")
        """The changes of full streams and the policy when sessions were released last."""
        self._prune_at = PRUNED_AT

    def __len__(self) -> int:
        return len(self._held)

    def published(self, session: Session, destinations: Iterable[int]) -> None:
        """Note an event of a session while some stream is full. Ask the session to wait if its event is for one."""
        connection = session.connection
        if self._settings.current.linking.when_full != BLOCK or connection is None:
            return
        homes = self.full.keys() & destinations
        if not homes:
            return
        held = self._held.get(session.id)
        if held is not None and held.connection == connection.id:
            held.homes |= homes
            return
        if len(self._held) >= self._prune_at:
            self._held = {id: held for id, held in self._held.items() if _is_there(held)}
            self._prune_at = max(PRUNED_AT, 2 * len(self._held))
        self._held[session.id] = _Held(session, connection.id, homes)
        connection.send(HoldPublishes(True))

    def release(self) -> None:
        """Let the sessions go on whose events are for no full stream any more."""
        blocks = self._settings.current.linking.when_full
        seen = (self._streams.full_changes, blocks)
        if seen == self._seen:
            return
        self._seen = seen
        for id, held in list(self._held.items()):
            if blocks == BLOCK and held.homes & self.full.keys():
                continue
            del self._held[id]
            if _is_there(held):
                assert held.session.connection is not None, "it is there"
                held.session.connection.send(HoldPublishes(False))


def _is_there(held: _Held) -> bool:
    connection = held.session.connection
    return connection is not None and connection.id == held.connection
