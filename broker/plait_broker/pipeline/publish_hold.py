"""Push-back to publishers: those whose events wait for a full stream to another broker are asked to send no more.

Without it, a stream that is full drops its oldest waiting events. `[overlay] when_full` chooses.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.wire.frame_types.session_frames import HoldPublishes

from ..clients.sessions import Session
from ..settings import BLOCK, LiveSettings


class PublishHold:
    """The publishers that wait, of one broker."""

    def __init__(self, settings: LiveSettings, full: dict[int, None]) -> None:
        """`full`: the destinations whose streams are full."""
        self._settings = settings
        self.full = full
        self._held: dict[int, tuple[Session, int]] = {}
        """By session that was asked to wait, the session and its connection then."""

    def __len__(self) -> int:
        return len(self._held)

    def published(self, session: Session, destinations: Iterable[int]) -> None:
        """Note an event of a session while some stream is full. Ask the session to wait if its event is for one."""
        if self._settings.current.linking.when_full != BLOCK or session.connection is None:
            return
        connection = session.connection
        if self._held.get(session.id, (session, 0))[1] == connection.id:
            return
        if any(home in self.full for home in destinations):
            self._held[session.id] = (session, connection.id)
            connection.send(HoldPublishes(True))

    def release(self) -> None:
        """Let all sessions go on once no stream is full."""
        if self.full:
            return
        held, self._held = self._held, {}
        for session, connection in held.values():
            if session.connection is not None and session.connection.id == connection:
                session.connection.send(HoldPublishes(False))
