"""Connections to other brokers: admission, authentication, and one connection for each pair of brokers.

A dialler that is linked to the answering broker closes the new connection: an address does not tell which broker is
there. Two brokers that dial each other at once get two connections. Both brokers keep the one that the broker with the
smaller id dialled. Of two that the same broker dialled they keep the newer, since its dialler must have lost the older.
A broker that breaks the protocol or floods is disconnected and refused for a while. `link_selection.py` chooses the
addresses to dial.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.ids import Randomness
from plait_core.limits import BROKERS_MAX, NEIGHBOURS_MAX
from plait_core.wire import Close, ControlFrame, Forward, Frame, Handshake, Hello, Introduction, Welcome
from plait_core.wire.frame_types.envelope_frames import LINK_STATE, Signed
from plait_core.wire.frame_types.group_frames import MEMBER_BYTES, GroupAck, GroupBatch, GroupOpen
from plait_core.wire.frame_types.overlay_frames import ClockStamp, DatabaseSummary, StampEcho
from plait_core.wire.frame_types.session_frames import Code

from ...clients.connection import Connection
from ...clients.teardown import Teardown
from ...counters import Counters
from ...outputs import Dial, Linked
from ...settings import BrokerSettings, LiveSettings
from ..overlay import Overlay
from ..security.mutual_auth import MutualAuth, Untrusted
from .link_selection import LinkSelection

LOOPBACK: Final = ("127.", "[::1]", "memory")

SHUNNED_S: Final = 30.0
"""Time for which a broker that broke the protocol or flooded is refused. Meanwhile it costs this broker nothing."""

ITEMS_A_FRAME: Final = 16
"""Items of a list that count as one frame for the rate limit."""

LINK_STATE_BYTES_A_FRAME: Final = 256
"""Bytes of a link state that count as one frame: a list of some sixteen links."""


class BrokerConnections:
    """All connections to other brokers, from their first frame on."""

    def __init__(
        self,
        me: int,
        settings: LiveSettings,
        overlay: Overlay,
        counters: Counters,
        randomness: Randomness,
        now: float,
        teardown: Teardown,
    ) -> None:
        self._me = me
        self._settings = settings
        self._overlay = overlay
        self._counters = counters
        self._randomness = randomness
        self.close = teardown.close
        self._refuse = teardown.refuse
        self._links: dict[int, tuple[Connection, int]] = {}
        """By broker, the connection to it and the id of the broker that dialled."""
        self._shunned: dict[int, float] = {}
        """Refused brokers, each with the end of that."""
        self.outputs: list[Dial | Linked] = []
        self.link_selection = LinkSelection(me, self.settings.linking, overlay.map, overlay.neighbours, randomness, now)
        if self.settings.linking.address:
            overlay.locate(self.settings.linking.address, now)

    def __len__(self) -> int:
        return len(self._links)

    @property
    def settings(self) -> BrokerSettings:
        """The present settings."""
        return self._settings.current

    # --- handshake ----------------------------------------------------------------------------------------------------

    def greet(self, link: Connection) -> None:
        """Send our hello on a connection that we have dialled."""
        settings = self.settings
        link.mutual_auth = MutualAuth.dialler(settings.linking.secret, self._me, settings.name, self._randomness)
        assert link.mutual_auth.hello is not None, "a dialler has a hello"
        link.handshake = Handshake.initiator(link.mutual_auth.hello)
        if problem := self._unprotected(link):
            self._refuse(link, Code.AUTH, problem)
        else:
            link.send(link.handshake.start())

    def admit(self, link: Connection, hello: Hello, now: float) -> None:
        """Answer the hello of another broker with a welcome, or refuse it."""
        mutual_auth = link.mutual_auth = MutualAuth.acceptor(self.settings.linking.secret, hello, self._randomness)
        code, problem = self._refusal(link, hello, mutual_auth, now)
        if problem:
            self._refuse(link, code, problem)
            return
        mutual_auth.welcome = link.handshake.welcome(
            broker_name=self.settings.name,
            broker=self._me,
            session=0,
            heartbeat_s=self.settings.heartbeat_s,
            nonce=mutual_auth.offered,
        )
        link.send(mutual_auth.welcome)

    def meet(self, link: Connection, frame: Frame, now: float) -> None:
        """Handle a frame of a broker that is not a neighbour yet. Raise FrameError if the frame is out of order."""
        mutual_auth = link.mutual_auth
        assert mutual_auth is not None, "the other end is a broker"
        if isinstance(frame, Close):
            self._receive_close(link, frame)
        elif mutual_auth.welcome is None:
            self._receive_welcome(link, mutual_auth, frame, now)
        elif isinstance(frame, Introduction):
            self._receive_introduction(link, mutual_auth, frame, now)
        else:
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} from a broker that was not introduced")

    def _refusal(self, link: Connection, hello: Hello, mutual_auth: MutualAuth, now: float) -> tuple[Code, str]:
        """Return a code and the reason to refuse a broker. The reason is empty if it may come in."""
        if hello.publisher == self._me:
            return Code.ITSELF, "this is the same broker"
        if not hello.publisher:
            return Code.AUTH, "a broker has an id"
        if problem := self._unprotected(link):
            return Code.AUTH, problem
        try:
            mutual_auth.check_offer(hello.nonce)
        except Untrusted as untrusted:
            return Code.AUTH, str(untrusted)
        if now < self._shunned.get(hello.publisher, now):
            return Code.LIMIT, f"you broke the protocol: come back after {SHUNNED_S:g} s"
        if len(self._links) >= NEIGHBOURS_MAX and hello.publisher not in self._links:
            return Code.LIMIT, f"{len(self._links)} brokers are linked to this one, and no more can be"
        return Code.BYE, ""

    def _unprotected(self, link: Connection) -> str:
        """Return why a connection is not protected enough for a link, or an empty text."""
        linking, caller = self.settings.linking, link.caller
        if linking.tls and not caller.vouched:
            return "links to this broker are made over TLS (connect to where its [overlay.tls] listens)"
        if not linking.secret and not linking.tls and not caller.address.startswith(LOOPBACK):
            return "without a secret only brokers on one machine are linked (give both the same [overlay] secret)"
        return ""

    def _receive_welcome(self, link: Connection, mutual_auth: MutualAuth, frame: Frame, now: float) -> None:
        """Answer the welcome of a dialled broker with our Introduction."""
        link.handshake.receive(frame)
        if not isinstance(frame, Welcome):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} where a broker says welcome")
        mutual_auth.welcome = frame
        self.link_selection.found(link.caller.dialled, frame.broker)
        try:
            mutual_auth.check_offer(frame.nonce)
        except Untrusted as untrusted:
            self._close_untrusted(link, untrusted)
            return
        if frame.broker == self._me:
            self.link_selection.itself(link.caller.dialled)
            self.close(link, Code.ITSELF, "this is the same broker")
        elif now < self._shunned.get(frame.broker, now):
            self.close(link, Code.LIMIT, "it broke the protocol, not long ago")
        elif frame.broker in self._links:
            self.close(link, Code.DUPLICATE, "there is a link between us already")
        else:
            self._introduce(link, mutual_auth)

    def _receive_introduction(
        self, link: Connection, mutual_auth: MutualAuth, introduction: Introduction, now: float
    ) -> None:
        """Check the other broker's Introduction, and make it a neighbour."""
        assert mutual_auth.hello is not None, "hello precedes an Introduction"
        assert mutual_auth.welcome is not None, "welcome precedes an Introduction"
        dialled_by = self._me if mutual_auth.dialled else mutual_auth.hello.publisher
        broker, name = mutual_auth.hello.publisher, mutual_auth.hello.name
        if mutual_auth.dialled:
            broker, name = mutual_auth.welcome.broker, mutual_auth.welcome.broker_name
        try:
            mutual_auth.check(introduction)
        except Untrusted as untrusted:
            self._close_untrusted(link, untrusted)
            return
        if not self._keeps_new(broker, dialled_by):
            self.close(link, Code.DUPLICATE, "there is a connection between us already")
            return
        if not mutual_auth.dialled:
            self._introduce(link, mutual_auth)
        self._learn_own_address(introduction.seen, now)
        self._add_neighbour(link, broker, name, dialled_by, now)
        self.link_selection.up(broker, link.caller.dialled, now, kept=introduction.fixed)

    def _introduce(self, link: Connection, mutual_auth: MutualAuth) -> None:
        fixed = self.link_selection.fixed(link.caller.dialled)
        link.send(mutual_auth.introduce(_host(link.caller.address), fixed=fixed))

    def _close_untrusted(self, link: Connection, untrusted: Untrusted) -> None:
        self._counters.rejected[Code.AUTH] += 1
        self.close(link, Code.AUTH, str(untrusted))

    def _receive_close(self, link: Connection, close: Close) -> None:
        """Handle a Close of the other end."""
        link.farewell = close.code
        if close.code == Code.ITSELF:
            self.link_selection.itself(link.caller.dialled)
        self.close(link, Code.BYE, f"it says: {close.message or close.code or 'goodbye'}")

    # --- neighbours ---------------------------------------------------------------------------------------------------

    def receive_all(self, link: Connection, frames: list[Frame], now: float) -> None:
        """Handle a neighbour's frames in order. Raise FrameError for a frame that is not for brokers."""
        at, end = 0, len(frames)
        while at < end and not link.closing:
            if type(frames[at]) is Forward:
                end_of_run = self._overlay.receive_events(link.neighbour, frames, at, now)
                link.events_arrived(end_of_run - at)
                self._counters.copies += end_of_run - at
                at = end_of_run
            else:
                self._receive_control(link, frames[at], now)
                at += 1

    def _receive_control(self, link: Connection, frame: Frame, now: float) -> None:
        if isinstance(frame, Close):
            self._receive_close(link, frame)
        elif not isinstance(frame, ControlFrame):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} is not for another broker to say")
        elif not link.control_rate.take(now, _cost(frame, self._me)):
            self.expel(link, Code.FLOOD, "it sends more control frames than a broker can have for another", now)
        elif isinstance(frame, GroupBatch):
            link.events_arrived(1)
            self._overlay.receive(link.neighbour, frame, now)
        elif isinstance(frame, StampEcho):
            if not link.echoed(frame, now):
                self._overlay.note_false_echo(link.neighbour, now)
        else:
            if isinstance(frame, ClockStamp):
                link.stamped(frame, now)
            self._overlay.receive(link.neighbour, frame, now)

    def expel(self, link: Connection, code: Code, reason: str, now: float) -> None:
        """Close the connection to a neighbour that broke the rules, and refuse it for a while."""
        self._counters.faults[code] += 1
        self.misbehaved(link, now)
        self.close(link, code, reason)

    def misbehaved(self, link: Connection, now: float) -> None:
        """Refuse a neighbour that broke the rules for `SHUNNED_S`."""
        self._shunned.pop(link.neighbour, None)
        self._shunned[link.neighbour] = now + SHUNNED_S
        if len(self._shunned) > BROKERS_MAX:
            del self._shunned[next(iter(self._shunned))]

    def down(self, link: Connection, now: float) -> None:
        """Handle the end of a connection to another broker, in any state."""
        known = self._links.get(link.neighbour)
        if known is not None and known[0] is link:
            del self._links[link.neighbour]
            self._overlay.link_down(link.neighbour, now, link.closing or "the connection was lost")
            self.link_selection.down(link.neighbour)
        if link.caller.dialled:
            given_up = link.farewell == Code.LIMIT
            shunned_until = self._shunned.get(link.neighbour, now)
            self.link_selection.ended(
                link.caller.dialled, link.neighbour, now, given_up=given_up, not_before=shunned_until
            )

    def links(self) -> list[Connection]:
        """Return the connections to neighbours."""
        return [link for link, _ in self._links.values()]

    # --- choice of links ----------------------------------------------------------------------------------------------

    def learn_address(self, address: str, broker: int, now: float) -> None:
        """Note the address of a broker that has announced itself."""
        self.link_selection.learn_address(address, broker, now)

    def unreachable(self, address: str, now: float) -> None:
        """Note that a Dial failed: no connection to this address."""
        self.link_selection.unreachable(address, now)

    def look(self) -> None:
        """Note that the link-state database may have changed."""
        self.link_selection.look()

    def tick(self, now: float) -> None:
        """Choose addresses to dial, and a link to give up."""
        if now < self.link_selection.due_at:
            return
        self.outputs += map(Dial, self.link_selection.dial(now))
        surplus = self._links.get(self.link_selection.shed(now))
        if surplus is not None:
            self.close(surplus[0], Code.LIMIT, "this broker has more links than it keeps, and others reach you")

    def take(self) -> list[Dial | Linked]:
        """Return the connections to make, and those that have become links, since the last call."""
        outputs, self.outputs = self.outputs, []
        return outputs

    # --- inside -------------------------------------------------------------------------------------------------------

    def _add_neighbour(self, link: Connection, broker: int, name: str, dialled_by: int, now: float) -> None:
        link.decoder.establish(link.version, keep_unknown=True)
        before = self._links.pop(broker, None)
        if before is not None:
            self._overlay.link_down(broker, now)
            self.close(before[0], Code.DUPLICATE, "another connection between us has taken its place")
        self._links[broker] = (link, dialled_by)
        self._overlay.link_up(link.id, broker, name, now)
        link.become_link(broker, self._overlay.neighbours[broker].lane, now)
        self.outputs.append(Linked(link.id))

    def _keeps_new(self, broker: int, dialled_by: int) -> bool:
        known = self._links.get(broker)
        return known is None or dialled_by <= known[1]

    def _learn_own_address(self, seen: str, now: float) -> None:
        """Take our host as a neighbour sees it. It becomes our address unless that is configured or known already.

        A loopback address is valid on this machine only, so it never replaces another one.
        """
        linking, overlay = self.settings.linking, self._overlay
        if linking.address or not linking.port or (overlay.address and not overlay.address.startswith(LOOPBACK)):
            return
        try:
            host = ipaddress.ip_address(seen)
        except ValueError:
            return
        if overlay.address and host.is_loopback:
            return
        overlay.locate(f"[{host}]:{linking.port}" if host.version == 6 else f"{host}:{linking.port}", now)


def _cost(frame: ControlFrame, me: int) -> float:
    """Return the cost of a control frame for its link's rate limit. Lists cost more: they are cheap to send and
    expensive to read. Filters do not: parsing them takes longer than the rate limit takes to refill. Events of stream
    groups cost nothing, like other events. A question for acks does: brokers below answer it with control frames."""
    if isinstance(frame, GroupBatch):
        return 1 if frame.asks or not frame.events else 0
    if isinstance(frame, GroupAck):  # its root computes a MAC for each member
        return 1 + (int.from_bytes(frame.members).bit_count() / ITEMS_A_FRAME if frame.root == me else 0)
    if isinstance(frame, GroupOpen):
        return 1 + len(frame.members) / MEMBER_BYTES / ITEMS_A_FRAME
    if isinstance(frame, DatabaseSummary):
        return 1 + len(frame.origins) / ITEMS_A_FRAME
    if isinstance(frame, Signed) and frame.kind == LINK_STATE:
        return 1 + len(frame.body) / LINK_STATE_BYTES_A_FRAME
    return 1


def _host(address: str) -> str:
    """Return the host of an address, without brackets."""
    return address.rpartition(":")[0].strip("[]")
