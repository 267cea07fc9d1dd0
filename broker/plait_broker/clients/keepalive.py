"""The watch over connections: heartbeats, silence, hellos and frames that never end, sessions that nobody wants back.

It looks at all of them now and then, often enough that whatever begins in between is found in time.
"""

from __future__ import annotations

from typing import Final

from plait_core.ids import Randomness, new_id
from plait_core.wire import Ping
from plait_core.wire.frame_types.session_frames import Code

from ..joining import Joining
from ..outputs import ConnectionId
from ..pipeline.subscription_index import SubscriptionIndex
from ..settings import BrokerSettings
from .connection import Connection
from .sessions import Session, Sessions
from .teardown import Teardown

SWEEPS_PER_HEARTBEAT: Final = 4
"""How often silence is looked for: a dead connection is found at most a quarter of a heartbeat late."""

SWEEP_GAP_S: Final = 0.05
"""Between two looks at all connections, and so how late a deadline of one may be found: in a crowd of slow ones each
has a deadline of its own."""

DEAD_AFTER_HEARTBEATS: Final = 3


class Keepalive:
    """Looks after all connections of one broker."""

    def __init__(
        self,
        settings: BrokerSettings,
        randomness: Randomness,
        links: dict[ConnectionId, Connection],
        sessions: Sessions,
        departures: Teardown,
        interest: SubscriptionIndex,
        joining: Joining,
        now: float,
    ) -> None:
        self.settings = settings
        self._randomness = randomness
        self._links = links
        self._sessions = sessions
        self._departures = departures
        self._interest = interest
        self._joining = joining
        self.due_at = now
        """When to look next."""

    def ping(self, link: Connection, now: float) -> None:
        """Ask for a sign of life, which also measures the way and proves what was told before."""
        link.pinged_at = now
        proves = link.has_news  # then it overtakes nothing
        if link.session is not None:
            link.session.begin_proof()
        link.send(Ping(new_id(self._randomness)), behind=proves)

    def pong(self, link: Connection, session: Session, now: float) -> None:
        """The answer."""
        if link.pinged_at is not None:
            half_us = round((now - link.pinged_at) * 500_000)
            link.pinged_at = None
            session.proving.clear()
            known = session.link_delay_us
            # Queueing at either end only ever adds: follow falls at once, rises slowly.
            session.link_delay_us = half_us if not known or half_us < known else known + (half_us - known) // 8

    def sweep(self, now: float) -> None:
        """Look at everyone."""
        again_at = self._look_at_links(now)
        self._departures.end_detached(now, self.settings.resume_s)
        if self._interest.doubtful:
            self._interest.review()
        if self._joining.names_changed():
            for session in self._sessions.all():
                self._joining.introduce(session.link)
        self.due_at = max(again_at, now + SWEEP_GAP_S)

    def _look_at_links(self, now: float) -> float:
        """When to look again."""
        settings = self.settings
        hello_s, frame_s = settings.hello_timeout_s, settings.frame_timeout_s
        again_at = now + min(settings.heartbeat_s / SWEEPS_PER_HEARTBEAT, hello_s, frame_s)
        for link in list(self._links.values()):
            if link.closing or link.neighbour:
                continue
            cut_at = link.cut_at(hello_s, frame_s)
            if cut_at <= now:
                self._cut_short(link)
                continue
            again_at = min(again_at, cut_at)
            if link.session is not None:
                self._check_alive(link, now)
                if self._departures.draining:
                    self._departures.close_when_drained(link)
        return again_at

    def _cut_short(self, link: Connection) -> None:
        if link.session is None:
            self._departures.close(link, Code.TIMEOUT, "no hello")
        else:
            unfinished = f"a frame was not complete within {self.settings.frame_timeout_s:g} s"
            self._departures.close(link, Code.TIMEOUT, unfinished, retryable=True)

    def _check_alive(self, link: Connection, now: float) -> None:
        silent_s = now - link.heard_at
        if silent_s >= DEAD_AFTER_HEARTBEATS * self.settings.heartbeat_s:
            self._departures.close(link, Code.TIMEOUT, f"silent for {silent_s:.1f} s", retryable=True)
        elif link.pinged_at is None and (silent_s >= self.settings.heartbeat_s or link.has_news):
            self.ping(link, now)
