"""Connections to other brokers: who may be one, hello and welcome in both directions, one connection for each pair.

Two brokers that dial each other at once get two connections. Both keep the one that the broker with the smaller id
dialled, without asking each other; of two that the same one dialled, the newer, since the older must be dead to it.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    Close,
    ControlFrame,
    Forward,
    Frame,
    Handshake,
    Hello,
    Role,
    Welcome,
)
from plait_core.wire.session_frames import Code

from .joining import Joining
from .links import Link
from .settings import BrokerSettings

LOOPBACK: Final = ("127.", "[::1]", "memory")


class Neighbourhood:
    """All connections to other brokers, from their first frame on."""

    def __init__(
        self,
        me: int,
        settings: BrokerSettings,
        joining: Joining,
        close: Callable[[Link, Code, str], None],
        refuse: Callable[[Link, Code, str], None],
    ) -> None:
        """`close` ends a connection that stands, `refuse` one that does not yet: with a code and a sentence."""
        self._me = me
        self.settings = settings
        self._joining = joining
        self._close = close
        self._refuse = refuse
        self._links: dict[int, tuple[Link, int]] = {}
        """By broker: the connection to it, and who dialled."""

    def __len__(self) -> int:
        return len(self._links)

    def greet(self, link: Link) -> None:
        """We have dialled: say hello."""
        settings = self.settings
        link.handshake = Handshake.initiator(
            Hello(
                VERSION_MIN,
                VERSION_MAX,
                Role.BROKER,
                settings.name,
                self._me,
                (),
                settings.overlay_secret or None,
                None,
            )
        )
        link.dialled = True
        link.send(link.handshake.start())

    def admit(self, link: Link, hello: Hello, now: float) -> None:
        """A broker says hello."""
        broker = hello.publisher
        if not self._trusts(link, hello):
            hint = "give both brokers the same overlay secret"
            self._refuse(link, Code.AUTH, f"this broker does not know you as a neighbour: {hint}")
        elif broker == self._me or not broker:
            self._refuse(link, Code.TAKEN, "this is the same broker")
        elif not self._takes(broker, dialled_by=broker):
            self._refuse(link, Code.TAKEN, "there is a connection between us already")
        else:
            welcome = link.handshake.welcome(
                broker_name=self.settings.name, broker=self._me, session=0, heartbeat_s=self.settings.heartbeat_s
            )
            link.send(welcome)
            self._up(link, broker, hello.name, broker, now)

    def welcomed(self, link: Link, frame: Frame, now: float) -> str:
        """The one we dialled answers; why the connection is to end, if it is."""
        link.handshake.receive(frame)
        if not isinstance(frame, Welcome):
            return link.handshake.refusal.message if link.handshake.refusal is not None else "it says no"
        if frame.broker == self._me:
            return "this is the same broker"
        if not self._takes(frame.broker, dialled_by=self._me):
            return "there is a connection between us already"
        self._up(link, frame.broker, frame.broker_name, self._me, now)
        return ""

    def hear(self, link: Link, frame: Frame, now: float) -> None:
        """A neighbour says something; FrameError when no broker says that to another."""
        if isinstance(frame, Close):
            self._close(link, Code.BYE, frame.message or frame.code or "it says goodbye")
        elif isinstance(frame, (ControlFrame, Forward)):
            self._joining.overlay.hear(link.neighbour, frame, now)
        else:
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for another broker to say")

    def down(self, link: Link, now: float) -> None:
        """A connection is gone."""
        known = self._links.get(link.neighbour)
        if known is not None and known[0] is link:
            del self._links[link.neighbour]
            self._joining.overlay.link_down(link.neighbour, now)
        self._joining.link_gone(link.id)

    def links(self) -> list[Link]:
        """All that stand."""
        return [link for link, _ in self._links.values()]

    def _up(self, link: Link, broker: int, name: str, dialled_by: int, now: float) -> None:
        link.decoder.establish(link.version)
        link.neighbour = broker
        before = self._links.pop(broker, None)
        if before is not None:
            self._joining.overlay.link_down(broker, now)
            self._close(before[0], Code.TAKEN, "another connection between us has taken its place")
        self._links[broker] = (link, dialled_by)
        self._joining.overlay.link_up(link.id, broker, name, now)

    def _takes(self, broker: int, dialled_by: int) -> bool:
        known = self._links.get(broker)
        return known is None or dialled_by <= known[1]

    def _trusts(self, link: Link, hello: Hello) -> bool:
        secret = self.settings.overlay_secret
        if secret:
            return hmac.compare_digest(secret.encode(), (hello.token or "").encode())
        return link.caller.address.startswith(LOOPBACK)
