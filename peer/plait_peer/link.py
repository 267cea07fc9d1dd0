"""One connection between two processes of peers: handshake, mutual authentication, frames of many peers. No I/O.

Hello and Welcome exchange nonces; then a Meeting from each end proves knowledge of the group's secret over both nonces.
The other end may send frames only for the peers in its process: `Node` checks this.
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
from plait_core.wire.frame_types.peer_frames import LinkPair, Meeting, PeerEvent, PeerFrame, Profile
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frames import Frame

from .event_frames import event_head
from .group import Group
from .protocol.outputs import PeerId

IDLE_S: Final = 20.0
"""Time without a frame after which a link is closed: gossip opens many links that are used once."""
HANDSHAKE_S: Final = 3.0
"""Time for the other end to authenticate."""
HEARTBEAT_S: Final = 2.0
"""A field of Welcome that links do not use: peers send their own keepalives."""


class LinkRefused(PlaitError):
    """One end refused the link."""


class Stage(Enum):
    GREETING = auto()  # Hello and Welcome
    MEETING = auto()  # the other end's Meeting is awaited
    OPEN = auto()
    CLOSED = auto()


class Link:
    """One end of the connection. `take` returns the bytes to write."""

    def __init__(
        self, group: Group, own_id: int, address: str, nonce: bytes, profiles: tuple[Profile, ...], *, dials: bool
    ) -> None:
        self.stage = Stage.GREETING
        self.node = 0
        """The id of the process at the other end."""
        self.address = ""
        """The address at which the other end listens."""
        self.size = 0
        """Bytes queued for the connection."""
        self.paused = False
        """Whether the connection accepts no bytes now."""
        self.opened_at = self.last_used_at = 0.0
        self.round_trip_s = 0.0
        """The time from the connection to the other end's Meeting: one round trip, at either end."""
        self.sender = self.receiver = 0
        """The remote and the local peer of the frames that follow, by the last LinkPair frame."""
        self.closed_cleanly = False
        """Whether the other end closed on purpose: its peers have said goodbye, and are not lost."""
        self._writer = DeliveryWriter()
        self._last_pair = (0, 0)
        self._group = group
        self._own_id = own_id
        self._meeting = (address, profiles)
        self._nonce = nonce
        self._dials = dials
        self._remote_nonce = b""
        self._decoder = FrameDecoder()
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.PEER, group.name, own_id, nonce=nonce)
        self._handshake = Handshake.initiator(hello) if dials else Handshake.acceptor()
        if dials:
            self._write(encode_frame(self._handshake.start(), self._handshake.version))

    def receive(self, data: bytes) -> tuple[Meeting | None, list[Frame]]:
        """Handle received bytes. Return the other end's Meeting when it has just arrived, and the frames after it.

        FrameError or LinkRefused closes the link.
        """
        self._decoder.feed(data)
        meeting: Meeting | None = None
        found: list[Frame] = []
        while frames := self._decoder.take():
            for place, frame in enumerate(frames):
                if self.stage is Stage.OPEN:
                    found += frames[place:]
                    break
                if self.stage is Stage.GREETING:
                    self._handle_handshake(frame)
                elif self.stage is Stage.MEETING:
                    meeting = self._handle_meeting(frame)
        return meeting, found

    def send(self, sender: PeerId, receiver: PeerId, frame: PeerFrame, event: bytes | None = None) -> bytes | None:
        """Queue a frame from a local peer to a remote one. Return an event's bytes, for the next receiver as
        `event`."""
        if self._last_pair != (sender, receiver):
            self._last_pair = (sender, receiver)
            self._write(encode_frame(LinkPair(sender, receiver), VERSION_MAX))
        if type(frame) is PeerEvent:
            event = event or event_head(frame) + frame.block
            self._write(event)
            return event
        self._write(encode_frame(frame, VERSION_MAX))
        return None

    def close(self, code: str, message: str = "") -> None:
        """Queue a Close frame; no frame follows it."""
        if self.stage is not Stage.CLOSED:
            version = VERSION_MAX if self.stage in (Stage.OPEN, Stage.MEETING) else self._handshake.version
            self._write(encode_frame(Close(code, message[:200]), version))
            self.stage = Stage.CLOSED

    def send_events(
        self,
        sender: PeerId,
        receiver: PeerId,
        frames: Sequence[EventFrame],
        destination: tuple[int, int, int],
        bytes_max: int,
    ) -> int:
        """Queue a local publisher's events while fewer than `bytes_max` are queued. Return the number of events left
        out.

        Fast path of `send`; the events' bytes are taken from other frames.
        """
        if self._last_pair != (sender, receiver):
            self._last_pair = (sender, receiver)
            self._write(encode_frame(LinkPair(sender, receiver), VERSION_MAX))
        forward, size, destinations = self._writer.forward, self.size, (destination,)
        for count, frame in enumerate(frames):
            if size > bytes_max:
                return len(frames) - count
            size = self.size = forward(frame, sender, 0, 0, (), destinations, VERSION_MAX)
        return 0

    def expired(self, now: float) -> bool:
        """Return whether the link should be closed: it is idle, or its handshake takes too long."""
        limit_s = IDLE_S if self.stage is Stage.OPEN else HANDSHAKE_S
        return self.stage is not Stage.CLOSED and now - self.last_used_at > limit_s

    def take(self) -> bytes:
        """Return the bytes to write."""
        self.size = 0
        return self._writer.take()

    def _write(self, data: bytes) -> None:
        self.size = self._writer.append(data)

    # --- handshake ----------------------------------------------------------------------------------------------------

    def _handle_handshake(self, frame: Frame) -> None:
        handshake = self._handshake
        refused = handshake.receive(frame)
        if refused is not None:
            self._write(encode_frame(refused, handshake.version))
            raise LinkRefused(refused.message)
        if isinstance(frame, Close):
            raise LinkRefused(frame.message or frame.code)
        if isinstance(frame, Hello):
            if frame.role is not Role.PEER or not frame.publisher:
                self._write(
                    encode_frame(handshake.refuse(Code.NOT_ALLOWED, "this port is for peers"), handshake.version)
                )
                raise LinkRefused(
                    f"a {frame.role.value} connected to a port for peers", hint="plait broker serves clients"
                )
            self.node, self._remote_nonce = frame.publisher, frame.nonce or b""
            welcome = handshake.welcome(
                broker_name=self._group.name, broker=self._own_id, session=0, heartbeat_s=HEARTBEAT_S, nonce=self._nonce
            )
            self._write(encode_frame(welcome, 0))
        elif isinstance(frame, Welcome):
            self.node, self._remote_nonce = frame.broker, frame.nonce or b""
        if self.node == self._own_id:
            raise LinkRefused("the link leads back to this process")
        self._decoder.establish(handshake.version)
        self.stage = Stage.MEETING
        address, profiles = self._meeting
        group = self._group
        proof = group.proof(self._proof_input(self._own_id, dialler=self._dials))
        self._write(encode_frame(Meeting(group.name, group.space_digest, address, proof, profiles), VERSION_MAX))

    def _proof_input(self, prover: int, *, dialler: bool) -> bytes:
        """Return the bytes that a proof covers: the dialler's nonce, the other nonce, the prover's id and its role."""
        nonces = self._nonce + self._remote_nonce if self._dials else self._remote_nonce + self._nonce
        return nonces + prover.to_bytes(8) + bytes([dialler])

    def _handle_meeting(self, frame: Frame) -> Meeting:
        if isinstance(frame, Close):
            raise LinkRefused(frame.message or frame.code)
        if not isinstance(frame, Meeting):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} before a meeting")
        problem = self._mismatch(frame)
        if problem:
            self.close(Code.NOT_ALLOWED, problem)
            raise LinkRefused(problem, hint="all members of a group have one name, one secret and one event space")
        self.address = frame.address
        self.stage = Stage.OPEN
        return frame

    def _mismatch(self, meeting: Meeting) -> str:
        if meeting.group != self._group.name:
            return f"this is the group {self._group.name}"
        if meeting.space != self._group.space_digest:
            return f"the group {self._group.name} has another event space"
        proof = self._group.proof(self._proof_input(self.node, dialler=not self._dials))
        if len(self._remote_nonce) != NONCE_BYTES or not hmac.compare_digest(proof, meeting.proof):
            return f"the group {self._group.name} has another secret"
        return ""
