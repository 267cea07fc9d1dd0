"""How connections and sessions end: refused, closed with a reason, detached for a while, over.

A connection ends once, with one reason; a session outlives its connection until nobody has come back for it in time.
"""

from __future__ import annotations

from plait_core.limits import CLOSE_TEXT_MAX
from plait_core.wire import Close
from plait_core.wire.frame_types.session_frames import Code

from ..counters import Counters
from ..drop_reasons import DropReason
from ..outputs import Close as CloseLink
from ..pipeline.subscription_index import SubscriptionIndex
from .client_requests import ClientRequests
from .connection import Connection
from .sessions import Session, Sessions


class Teardown:
    """Everyone who leaves one broker."""

    def __init__(
        self, counters: Counters, interest: SubscriptionIndex, sessions: Sessions, requests: ClientRequests
    ) -> None:
        self._counters = counters
        self._interest = interest
        self._sessions = sessions
        self._requests = requests
        self._detached: dict[Session, None] = {}
        self.closes: list[CloseLink] = []
        self.draining = False
        """Whether the broker is stopping: nobody is let in any more, and no session is kept for a client."""

    def refuse(self, link: Connection, code: Code, message: str, *, retryable: bool = True) -> None:
        """Let someone who said hello not in."""
        self._counters.rejected[code] += 1
        link.send(link.handshake.refuse(code, message, retryable=retryable))
        self.closed(link, message)

    def close(self, link: Connection, code: str, message: str, *, retryable: bool = False) -> None:
        """Tell the other end why, and close."""
        if not link.closing:
            link.send(Close(code, message[:CLOSE_TEXT_MAX], retryable))
            self.closed(link, message)

    def closed(self, link: Connection, reason: str) -> None:
        """Close without a word more: the other end knows."""
        if not link.closing:
            link.closing = reason or "closed"
            self.closes.append(CloseLink(link.id, f"{link.who}: {link.closing}" if link.who else link.closing))

    def take(self) -> list[CloseLink]:
        """The connections to be closed since the last call."""
        closes, self.closes = self.closes, []
        return closes

    # --- sessions -----------------------------------------------------------------------------------------------------

    def detach(self, session: Session, now: float) -> None:
        """A session's connection is gone: it is kept for a while, unless the broker is stopping."""
        session.link = None
        if self.draining:
            self.end(session, now)
        else:
            session.detached_at = now
            self._detached[session] = None

    def attach(self, session: Session, link: Connection) -> None:
        """A session has this connection from now on."""
        session.link = link
        session.detached_at = None
        self._detached.pop(session, None)

    def end(self, session: Session, now: float) -> None:
        """A session is over, with all that it had."""
        session.link = None
        self._detached.pop(session, None)
        for subscription in list(session.subscriptions.values()):
            self._requests.end(subscription, DropReason.GONE, now)
        for advertisement in session.advertisements.values():
            self._interest.unadvertise(advertisement)
        self._sessions.close(session)

    def end_detached(self, now: float, after_s: float = 0.0) -> None:
        """End the sessions that nobody has come back to for so long."""
        for session in list(self._detached):
            assert session.detached_at is not None, "it was noted when its connection was gone"
            if now - session.detached_at >= after_s:
                self.end(session, now)

    def close_when_drained(self, link: Connection) -> None:
        """The broker is stopping: close what has nothing queued any more."""
        if link.session is None or not link.session.backlog:
            self.close(link, Code.DRAINING, "the broker is stopping", retryable=True)
