"""A hostile broker with the overlay's secret and its own keys, which sends frames as a test requests.

The attacks of `attacks.py` change the frames of a production broker; this one may send anything. It connects as a
broker, answers pings, and can act for brokers that it has invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from plait_broker.overlay.security.identity import Identity, incarnation_of
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.security.mutual_auth import MutualAuth
from plait_core.events import Event
from plait_core.wire import (
    Close,
    Forward,
    Frame,
    FrameDecoder,
    Handshake,
    Introduction,
    Ping,
    Pong,
    Welcome,
    encode_block,
    encode_frame,
)
from plait_core.wire.event_block import BLOCK_BYTES
from plait_core.wire.frame_header import HANDSHAKE_VERSION
from plait_core.wire.frame_types.envelope_frames import LINK_STATE, Signed, read_document
from plait_core.wire.frame_types.overlay_frames import DatabaseSummary, LinkState

from ..broker_node import OverlayNode
from ..network import Endpoint, LinkConnection
from ..world import World

DELAY_S: Final = 0.001
"""Delay of its link."""

DELAY_US: Final = 1000
"""Delay that it reports of its links."""

LINKED_S: Final = 1.0
"""Time in which it has linked to a broker, and that broker knows its link state."""

EVERYTHING: Final = DatabaseSummary(True, True, (), (), (), ())
"""A summary of nothing, which is answered with all documents."""


class Persona:
    """An identity of the hostile broker: its own, or an invented one."""

    def __init__(self, rng: Random, log_secret: bytes = b"") -> None:
        identity = Identity(rng, log_secret)
        self.id = identity.id
        self.auth = MessageAuth(self.id, identity)
        self.incarnation = incarnation_of(identity.incarnation_key) if log_secret else 0
        self.version = 0

    def link_state(self, neighbours: Sequence[int] = (), *, born: int = 0) -> Signed:
        """Return its link state, signed, in a version above the last."""
        self.version += 1
        delays = (DELAY_US,) * len(neighbours)
        return self.auth.envelop(
            LinkState(self.id, self.version, "insider", tuple(neighbours), delays, self.incarnation, born)
        )

    def event(self, to: int, position: int, block: bytes) -> Forward:
        """Return an event with its own MAC, to a broker whose public keys it knows."""
        proof = self.auth.prove_event(to, position, 0, block)
        return Forward(self.id, 0, 0, (self.id,), ((to, position, proof),), block)


class Insider(Endpoint):
    """The hostile broker and its link to one broker of a world."""

    def __init__(self, world: World, at: OverlayNode, *, seed: int = 99, log_secret: bytes = b"") -> None:
        """Create it before the brokers start, and `link` it when they know each other."""
        self.number = len(world.nodes)
        self.rng = Random(seed)
        self.persona = Persona(self.rng, log_secret)
        self.at = at
        self.received_frames: list[Frame] = []
        self.closed: Close | None = None
        """Why the broker has closed the connection."""
        self._world = world
        self._link = world.network.add_link(self, at, DELAY_S)
        self._connection: LinkConnection | None = None
        self._decoder = FrameDecoder()
        secret = world.terms.settings.linking.secret
        self._auth = MutualAuth.dialler(secret, self.persona.id, "insider", self.rng)
        assert self._auth.hello is not None
        self._handshake = Handshake.initiator(self._auth.hello)

    def link(self) -> None:
        """Link to the broker, learn all documents, and flood a link state."""
        self._world.network.dial(self._link, self, self._dialled)
        self._world.run(LINKED_S)
        self.send(EVERYTHING, self.persona.link_state([self.at.overlay.me]))
        self._world.run(LINKED_S)

    def send(self, *frames: Frame | bytes) -> None:
        """Send frames in one write."""
        self._write(b"".join(frame if isinstance(frame, bytes) else encode_frame(frame) for frame in frames))

    def _write(self, data: bytes) -> None:
        assert self._connection is not None, "it is linked"
        self._world.network.write(self._connection, 0, data)

    def _dialled(self, connection: LinkConnection | None) -> None:
        assert connection is not None, "the broker runs"
        self._connection = connection
        self._write(encode_frame(self._handshake.start(), HANDSHAKE_VERSION))

    def ended(self, connection: LinkConnection) -> None:
        """Ignore the end of the connection."""

    def received(self, connection: LinkConnection, data: bytes) -> None:
        """Take bytes."""
        self._decoder.feed(data)
        while frames := self._decoder.take():
            for frame in frames:
                self._receive(frame)

    def _receive(self, frame: Frame) -> None:
        if isinstance(frame, Welcome):
            self._handshake.receive(frame)
            self._auth.welcome = frame
            self._write(encode_frame(self._auth.introduce("127.0.0.1", fixed=False), HANDSHAKE_VERSION))
        elif isinstance(frame, Introduction):
            assert self._auth.welcome is not None
            self._decoder.establish(self._auth.welcome.version)
        elif isinstance(frame, Ping):
            self.send(Pong(frame.nonce))
        elif isinstance(frame, Close):
            self.closed = frame
        else:
            if isinstance(frame, Signed) and frame.kind == LINK_STATE:
                link_state = read_document(frame)
                assert isinstance(link_state, LinkState)
                self.persona.auth.check(frame, link_state)  # it keeps the public keys
            self.received_frames.append(frame)


def unreadable() -> bytes:
    """Return the block of an event with undecodable attributes."""
    block = bytearray(encode_block(Event({"x": 5}, b"payload", publisher=77, sequence=1)))
    block[BLOCK_BYTES] = 0xC1  # which begins nothing
    return bytes(block)
