"""A hostile broker with the overlay's secret and its own keys, which sends frames as a test requests.

The attacks of `hostile.py` change the frames of a production broker; this one may send anything. It connects as a
broker, answers pings, and can act for brokers that it has invented.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from plait_broker import Caller
from plait_broker.overlay.security.identity import Identity, incarnation_of
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.security.mutual_auth import MutualAuth
from plait_core.events import Event
from plait_core.wire import (
    Destination,
    Forward,
    Frame,
    Handshake,
    Introduction,
    Ping,
    Pong,
    Welcome,
    encode_block,
    encode_frame,
)
from plait_core.wire.event_block import BLOCK_BYTES
from plait_core.wire.frame_types.envelope_frames import LINK_STATE, Signed, read_document
from plait_core.wire.frame_types.overlay_frames import DatabaseSummary, LinkState

from .linked_brokers import BrokerFace, LinkedBrokers, Speaker

DELAY_S = 0.001
"""Delay of its link."""


class Persona:
    """An identity of the hostile broker: its own, or an invented one."""

    def __init__(self, rng: Random, log: bytes = b"") -> None:
        identity = Identity(rng, log)
        self.id = identity.id
        self.trust = MessageAuth(self.id, identity)
        self.log = incarnation_of(identity.incarnation_key) if log else 0
        self.version = 0

    def link_state(self, neighbours: Sequence[int] = (), *, born: int = 0) -> Signed:
        """Return its link state, signed, in a version above the last."""
        self.version += 1
        delays = (1000,) * len(neighbours)
        return self.trust.envelop(
            LinkState(self.id, self.version, "insider", tuple(neighbours), delays, self.log, born)
        )

    def event(self, to: int, position: int, block: bytes) -> Forward:
        """Return an event with its own MAC, to a broker whose public keys it knows."""
        proof = self.trust.prove_event(to, position, 0, block)
        return Forward(self.id, 0, 0, (self.id,), (Destination(to, position, proof),), block)


class Insider(Speaker):
    """One link of the hostile broker."""

    def __init__(self, world: LinkedBrokers, at: BrokerFace, *, seed: int = 99, log: bytes = b"") -> None:
        super().__init__()
        self.world = world
        self.rng = Random(seed)
        self.me = Persona(self.rng, log)
        self.heard: list[Frame] = []
        self.mutual_auth = MutualAuth.dialler("", self.me.id, "insider", self.rng)
        assert self.mutual_auth.hello is not None
        self.handshake = Handshake.initiator(self.mutual_auth.hello)
        self.wire = world.connect(self, at, DELAY_S)
        at.broker.connected(self.wire.number, Caller("127.0.0.1:7"), world.now)
        world.carry(self.wire, self, encode_frame(self.handshake.start(), 0))
        world.run(1.0)
        self.say(DatabaseSummary(True, True, (), (), (), ()), self.me.link_state([at.broker.id]))
        world.run(1.0)

    def say(self, *frames: Frame | bytes) -> None:
        """Send frames in one write."""
        said = [frame if isinstance(frame, bytes) else encode_frame(frame) for frame in frames]
        self.world.carry(self.wire, self, b"".join(said))

    def _hear(self, frame: Frame) -> None:
        if isinstance(frame, Welcome):
            self.handshake.receive(frame)
            self.mutual_auth.welcome = frame
            self.world.carry(self.wire, self, encode_frame(self.mutual_auth.introduce("127.0.0.1", fixed=False), 0))
        elif isinstance(frame, Introduction):
            assert self.mutual_auth.welcome is not None
            self.decoder.establish(self.mutual_auth.welcome.version)
        elif isinstance(frame, Ping):
            self.say(Pong(frame.nonce))
        else:
            if isinstance(frame, Signed) and frame.kind == LINK_STATE:
                link_state = read_document(frame)
                assert isinstance(link_state, LinkState)
                self.me.trust.check(frame, link_state)  # it keeps the public keys
            self.heard.append(frame)


def unreadable() -> bytes:
    """Return the block of an event with undecodable attributes."""
    block = bytearray(encode_block(Event({"x": 5}, b"payload", publisher=77, sequence=1)))
    block[BLOCK_BYTES] = 0xC1  # which begins nothing
    return bytes(block)
