"""One connection between two processes with peers: hello, welcome, a meeting, then frames of many peers. No I/O.

Both ends prove that they know the group's secret over nonces of both. Whoever is at the other end speaks for the peers
that live there, and for no others: `Node` sees to that.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from plait_core.errors import FrameError, FrameFault, PlaitError
from plait_core.limits import NONCE_BYTES
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    DeliveryWriter,
    EventFrame,
    FrameDecoder,
    Handshake,
    Hello,
    Role,
    Welcome,
    encode_frame,
)
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.peer_frames import Happening, LinkPair, Meeting, PeerFrame, Profile
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frames import Frame

from .event_frames import head_of
from .group import Group
from .protocol.outputs import PeerId

HEARTBEAT_S: Final = 2.0
"""Said in the welcome, since that frame has it: peers pulse by themselves."""


class LinkRefused(PlaitError):
    """One of both ends does not want the other."""


class Stage(Enum):
    GREETING = auto()  # hello and welcome
    MEETING = auto()  # the other end's Meeting is awaited
    OPEN = auto()
    CLOSED = auto()


class Link:
    """One end of it. `take` gives what it has to say."""

    def __init__(
        self, group: Group, me: int, address: str, nonce: bytes, profiles: tuple[Profile, ...], *, dials: bool
    ) -> None:
        self.stage = Stage.GREETING
        self.node = 0
        """Who is at the other end."""
        self.address = ""
        """Where it listens."""
        self.size = 0
        """Bytes that wait to be written."""
        self.paused = False
        """Whether the other end takes nothing now."""
        self.made_at = self.used_at = 0.0
        self.met_after_s = 0.0
        """From the connection to the other end's meeting: one round trip, from either end."""
        self.sender = self.receiver = 0
        """Who speaks to whom at the other end, by its last word on that."""
        self.goodbye = False
        """Whether the other end has said that it means no harm by closing."""
        self._writer = DeliveryWriter()
        self._said = (0, 0)
        self._group = group
        self._me = me
        self._mine = (address, profiles)
        self._nonce = nonce
        self._dials = dials
        self._theirs = b""
        self._decoder = FrameDecoder()
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.PEER, group.name, me, nonce=nonce)
        self._handshake = Handshake.initiator(hello) if dials else Handshake.acceptor()
        if dials:
            self._write(encode_frame(self._handshake.start(), self._handshake.version))

    def receive(self, data: bytes) -> tuple[Meeting | None, list[Frame]]:
        """The other end's meeting when it has just come, and frames since; FrameError or LinkRefused."""
        self._decoder.feed(data)
        met: Meeting | None = None
        found: list[Frame] = []
        while frames := self._decoder.take():
            for place, frame in enumerate(frames):
                if self.stage is Stage.OPEN:
                    found += frames[place:]
                    break
                if self.stage is Stage.GREETING:
                    self._greet(frame)
                elif self.stage is Stage.MEETING:
                    met = self._met(frame)
        return met, found

    def say(self, sender: PeerId, receiver: PeerId, frame: PeerFrame, event: bytes | None = None) -> bytes | None:
        """Write a frame from one of our peers to one of theirs. `event`: its bytes, when they are known already; they
        are given back for the next receiver."""
        if self._said != (sender, receiver):
            self._said = (sender, receiver)
            self._write(encode_frame(LinkPair(sender, receiver), VERSION_MAX))
        if type(frame) is Happening:
            event = event or head_of(frame) + frame.block
            self._write(event)
            return event
        self._write(encode_frame(frame, VERSION_MAX))
        return None

    def close(self, code: str, message: str = "") -> None:
        """The last thing that is said."""
        if self.stage is not Stage.CLOSED:
            version = VERSION_MAX if self.stage in (Stage.OPEN, Stage.MEETING) else self._handshake.version
            self._write(encode_frame(Close(code, message[:200]), version))
            self.stage = Stage.CLOSED

    def pass_on(
        self,
        sender: PeerId,
        receiver: PeerId,
        frames: Sequence[EventFrame],
        between: tuple[int, int, int],
        bytes_max: int,
    ) -> int:
        """Write events of a publisher that lives here, whose bytes are in other frames, as long as fewer bytes wait
        than that; so many were not written. What `say` does, at once."""
        if self._said != (sender, receiver):
            self._said = (sender, receiver)
            self._write(encode_frame(LinkPair(sender, receiver), VERSION_MAX))
        forward, size, places = self._writer.forward, self.size, (between,)
        for count, frame in enumerate(frames):
            if size > bytes_max:
                return len(frames) - count
            size = self.size = forward(frame, sender, 0, 0, (), places, VERSION_MAX)
        return 0

    def take(self) -> bytes:
        """What there is to write."""
        self.size = 0
        return self._writer.take()

    def _write(self, data: bytes) -> None:
        self.size = self._writer.append(data)

    # --- the beginning ------------------------------------------------------------------------------------------------

    def _greet(self, frame: Frame) -> None:
        handshake = self._handshake
        refused = handshake.receive(frame)
        if refused is not None:
            self._write(encode_frame(refused, handshake.version))
            raise LinkRefused(refused.message)
        if isinstance(frame, Close):
            raise LinkRefused(frame.message or frame.code)
        if isinstance(frame, Hello):
            if frame.role is not Role.PEER or not frame.publisher:
                self._write(encode_frame(handshake.refuse(Code.NOT_ALLOWED, "here are peers"), handshake.version))
                raise LinkRefused(f"a {frame.role.value} came where peers meet", hint="plait broker serves clients")
            self.node, self._theirs = frame.publisher, frame.nonce or b""
            welcome = handshake.welcome(
                broker_name=self._group.name, broker=self._me, session=0, heartbeat_s=HEARTBEAT_S, nonce=self._nonce
            )
            self._write(encode_frame(welcome, 0))
        elif isinstance(frame, Welcome):
            self.node, self._theirs = frame.broker, frame.nonce or b""
        if self.node == self._me:
            raise LinkRefused("this is ourselves")
        self._decoder.establish(handshake.version)
        self.stage = Stage.MEETING
        address, profiles = self._mine
        group = self._group
        proof = group.proof(self._claim(self._me, dialler=self._dials))
        self._write(encode_frame(Meeting(group.name, group.space_digest, address, proof, profiles), VERSION_MAX))

    def _claim(self, who: int, *, dialler: bool) -> bytes:
        """What a proof is over: both nonces in the order of the dialler's first, who says it and from which end."""
        nonces = self._nonce + self._theirs if self._dials else self._theirs + self._nonce
        return nonces + who.to_bytes(8) + bytes([dialler])

    def _met(self, frame: Frame) -> Meeting:
        if isinstance(frame, Close):
            raise LinkRefused(frame.message or frame.code)
        if not isinstance(frame, Meeting):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} before a meeting")
        problem = self._objection(frame)
        if problem:
            self.close(Code.NOT_ALLOWED, problem)
            raise LinkRefused(problem, hint="all members of a group have one name, one secret and one event space")
        self.address = frame.address
        self.stage = Stage.OPEN
        return frame

    def _objection(self, meeting: Meeting) -> str:
        if meeting.group != self._group.name:
            return f"this is the group {self._group.name}"
        if meeting.space != self._group.space_digest:
            return f"the group {self._group.name} has another event space"
        proof = self._group.proof(self._claim(self.node, dialler=not self._dials))
        if len(self._theirs) != NONCE_BYTES or not hmac.compare_digest(proof, meeting.proof):
            return f"the secret of the group {self._group.name} is another"
        return ""
