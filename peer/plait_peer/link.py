"""One connection between two processes of peers: key exchange, handshake, frames of many peers. No I/O.

The ends exchange keys (`link_cipher.py`), by which each proves the group's secret. Everything else is encrypted: Hello
and Welcome, a Meeting from each end, then frames. The other end may send frames only for the peers in its process:
`Node` checks this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Final

from plait_core.errors import FrameError, FrameFault, PlaitError
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    EventFrame,
    FrameDecoder,
    Handshake,
    Hello,
    Role,
    Welcome,
    encode_frame,
)
from plait_core.wire.frame_types.connection_frames import Close
from plait_core.wire.frame_types.peer_frames import Meeting, PeerEvent, PeerFrame, Profile
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frames import Frame

from .event_frames import event_head
from .group import Group
from .link_cipher import CipherFault, LinkCipher
from .link_queue import LinkQueue
from .protocol.outputs import PeerId

IDLE_S: Final = 20.0
"""Time without a frame after which a link is closed: gossip opens many links that are used once."""
HANDSHAKE_S: Final = 5.0
"""Time from the connection to the other end's Meeting: three round trips, and turns of busy processes. A stranger that
sends byte by byte gets no more."""
HEARTBEAT_S: Final = 2.0
"""A field of Welcome that links do not use: peers send their own keepalives."""
SAME_SECRET: Final = "all members of a group have one name and one secret"  # noqa: S105 - a hint, not a secret


class LinkRefused(PlaitError):
    """One end refused the link."""


class Stage(Enum):
    KEYS = auto()  # the other end has not proved the group's secret yet
    GREETING = auto()  # Hello and Welcome
    MEETING = auto()  # the other end's Meeting is awaited
    OPEN = auto()
    CLOSED = auto()


class Link:
    """One end of the connection. `take` returns the bytes of one write."""

    def __init__(
        self,
        group: Group,
        own_id: int,
        address: str,
        cipher: LinkCipher,
        known_profiles: Callable[[], Iterable[Profile]],
        *,
        dials: bool,
    ) -> None:
        """`known_profiles` returns the profiles for the Meeting, once the other end has proved the group's secret."""
        self.stage = Stage.KEYS
        self.dials: Final = dials
        self.node = 0
        """The id of the process at the other end."""
        self.address = ""
        """The address at which the other end listens."""
        self.paused = False
        """Whether the connection accepts no bytes now."""
        self.opened_at = self.last_used_at = 0.0
        self.round_trip_s = 0.0
        """The time from the connection to the other end's proof: one round trip, at either end."""
        self.sender = self.receiver = 0
        """The remote and the local peer of the frames that follow, by the last LinkPair frame."""
        self.closed_cleanly = False
        """Whether the other end closed on purpose: its peers have said goodbye, and are not lost."""
        self.marked_alive_at = 0.0
        """When a part of a frame last counted as a sign of life."""
        self._queue = LinkQueue()
        self._group = group
        self._own_id = own_id
        self._address = address
        self._known_profiles = known_profiles
        self._cipher = cipher
        self._keys = cipher.write_handshake()
        """Bytes of the key exchange to write."""
        self._decoder = FrameDecoder()
        hello = Hello(VERSION_MIN, VERSION_MAX, Role.PEER, group.name, own_id)
        self._handshake = Handshake.initiator(hello) if dials else Handshake.acceptor()
        self._greet_if_proven()

    @property
    def size(self) -> int:
        """Bytes queued for the connection."""
        return self._queue.size + len(self._keys)

    def receive(self, data: bytes) -> tuple[Meeting | None, list[Frame]]:
        """Handle received bytes. Return the other end's Meeting when it has just arrived, and the frames after it.

        FrameError or LinkRefused closes the link.
        """
        if self.stage is Stage.CLOSED:
            return None, []
        plaintext = self._decrypt(data)
        if not plaintext:
            return None, []
        self._decoder.feed(plaintext)
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
        if type(frame) is PeerEvent:
            event = event or event_head(frame) + frame.block
            self._queue.add_event((sender, receiver), frame, event)
            return event
        self._queue.add_control((sender, receiver), frame)
        return None

    def holds(self, receiver: PeerId, event: PeerEvent) -> bool:
        """Return whether a copy of an event with confirmation is queued for a receiver, from any sender."""
        return self._queue.holds(receiver, event)

    def close(self, code: str, message: str = "") -> None:
        """Queue a Close frame; no frame follows it. An end that has not proved the group's secret gets none."""
        if self.stage not in (Stage.CLOSED, Stage.KEYS):
            version = VERSION_MAX if self.stage in (Stage.OPEN, Stage.MEETING) else self._handshake.version
            self._queue.add_close(encode_frame(Close(code, message[:200]), version))
        self.stage = Stage.CLOSED

    def send_events(
        self,
        sender: PeerId,
        receiver: PeerId,
        frames: Sequence[EventFrame],
        destination: tuple[int, int, int],
        bytes_max: int,
    ) -> int:
        """Queue a local publisher's events while no more than `bytes_max` bytes are queued. Return the number of events
        left out.

        Fast path of `send`; the events' bytes are taken from other frames.
        """
        room = bytes_max - len(self._keys)
        return self._queue.add_events((sender, receiver), frames, (destination,), room)

    def expired(self, now: float) -> bool:
        """Return whether the link should be closed: it is idle, or its handshake takes too long."""
        if self.stage is Stage.OPEN:
            return now - self.last_used_at > IDLE_S
        return self.stage is not Stage.CLOSED and now - self.opened_at > HANDSHAKE_S

    def take(self) -> bytes:
        """Return the bytes of one write, encrypted together: control frames, and the first events. More may be queued:
        call it again while the connection accepts bytes."""
        keys, self._keys = self._keys, b""
        queued = self._queue.take()
        return keys + self._cipher.encrypt(queued) if queued else keys

    def _write(self, data: bytes) -> None:
        self._queue.add_link_frame(data)

    # --- key exchange and records -------------------------------------------------------------------------------------

    def _decrypt(self, data: bytes) -> bytes:
        """Return the plaintext of received bytes, and continue the key exchange if it is not finished.

        Bytes that do not authenticate end the link without an answer: a stranger gets nothing that differs.
        """
        try:
            plaintext = self._cipher.decrypt(data)
        except CipherFault as fault:
            refused = LinkRefused(fault.message, hint=SAME_SECRET if self.stage is Stage.KEYS else "")
            self.stage = Stage.CLOSED
            self._keys, self._queue = b"", LinkQueue()
            raise refused from None
        if self.stage is Stage.KEYS:
            self._keys += self._cipher.write_handshake()
            self._greet_if_proven()
        return plaintext

    def _greet_if_proven(self) -> None:
        """Start the handshake of frames once the other end has proved the group's secret."""
        if self._cipher.proven:
            self.stage = Stage.GREETING
            self.round_trip_s = self.last_used_at - self.opened_at
            if self.dials:
                self._write(encode_frame(self._handshake.start(), self._handshake.version))

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
            self.node = frame.publisher
            welcome = handshake.welcome(
                broker_name=self._group.name, broker=self._own_id, session=0, heartbeat_s=HEARTBEAT_S
            )
            self._write(encode_frame(welcome, 0))
        elif isinstance(frame, Welcome):
            self.node = frame.broker
        if self.node == self._own_id:
            raise LinkRefused("the link leads back to this process")
        self._decoder.establish(handshake.version)
        self.stage = Stage.MEETING
        meeting = Meeting(self._group.space_digest, self._address, tuple(self._known_profiles()))
        self._write(encode_frame(meeting, VERSION_MAX))

    def _handle_meeting(self, frame: Frame) -> Meeting:
        if isinstance(frame, Close):
            raise LinkRefused(frame.message or frame.code)
        if not isinstance(frame, Meeting):
            raise FrameError(FrameFault.ORDER, f"{type(frame).__name__} before a meeting")
        if frame.space != self._group.space_digest:
            problem = f"the group {self._group.name} has another event space"
            self.close(Code.NOT_ALLOWED, problem)
            raise LinkRefused(problem, hint="all members of a group have one event space")
        self.address = frame.address
        self.stage = Stage.OPEN
        return frame
