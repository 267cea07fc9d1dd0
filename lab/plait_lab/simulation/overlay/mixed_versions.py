"""Overlays in which half of the brokers are of a newer version (SCORECARD F13).

Newer brokers know one more field in LinkState, Advertisement and InterestUpdate, one more document kind, one more
message kind and one more control frame type. They are production brokers whose bodies get the field on the wire, signed
again with their own keys; a reader beside each of them reads what older brokers do not know. In the histories brokers
join, crash and restart, some as the other version, links are cut and fall silent, and messages take source routes. No
broker may expel another, the oracle judges all events and tables as ever, and the newer documents and messages must
reach all newer brokers through the older ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.security.identity import Forged
from plait_broker.overlay.topology.flooding import key_of
from plait_broker.overlay.topology.source_routes import unwrap
from plait_core.limits import WIRE_LIMITS
from plait_core.wire import VERSION_MAX, Close, Frame, Ping, encode_frame
from plait_core.wire.frame_header import PREFIX
from plait_core.wire.frame_types.envelope_frames import (
    DOCUMENT_KINDS,
    END_TO_END,
    SOURCE_ROUTED,
    EndToEnd,
    Signed,
    SourceRouted,
)
from plait_core.wire.frame_types.frame_schema import kind_number
from plait_core.wire.frame_types.overlay_frames import InterestUpdate
from plait_core.wire.msgpack_codec import pack, unpack_fields

from .broker_node import OverlayNode
from .enemies.honest_oracle import EXPULSIONS
from .faults import FAULTS
from .network import Endpoint, LinkConnection
from .random_histories import LIFE_S, RandomHistory
from .wire_tap import decode, pieces
from .world import World, WorldTerms

LATER_FIELD: Final = "later_field"
LATER_DOCUMENT: Final = 0x1F01
LATER_MESSAGE: Final = 0x1F02
LATER_FRAME: Final = 0x7E

INTEREST_UPDATE: Final = kind_number(InterestUpdate)

BROKERS: Final = (4, 5, 6, 8)
JOINS_BY_S: Final = 18.0
"""Some brokers start only by then: all others are there after 8 s, and things happen for 10 s more."""

BEGIN_S: Final = 8.0

CHANGES_S: Final = 3.0
"""Between two versions of a newer document, and between two newer messages of one broker, on average."""

ARRIVES_S: Final = 2.0
"""Time for a message to reach any broker once all is healed."""


def with_later_field(body: bytes) -> bytes:
    """Return a body with a field that older brokers do not know."""
    fields = unpack_fields(body, WIRE_LIMITS) if body else {}
    return bytes(pack({LATER_FIELD: {"deep": [1, 2, 3]}} | fields))


def has_later_field(body: bytes) -> bool:
    """Return whether a body arrived with that field."""
    return bool(body) and LATER_FIELD in unpack_fields(body, WIRE_LIMITS)


class MixedBroker:
    """A broker that is of the newer version in some of its lives."""

    def __init__(self, world: World, node: OverlayNode, *, newer: bool) -> None:
        """`newer`: whether its first life is of the newer version."""
        self.node = node
        self.rng = Random(f"{world.seed}/{node.number}")
        self.joins_at = self.rng.uniform(BEGIN_S, JOINS_BY_S) if self.rng.random() < 0.25 else self.rng.uniform(0, 0.2)
        self.messages: set[tuple[int, int, int]] = set()
        """Messages of the newer kind that it has read: its id, the source and the number."""
        self.later_fields = 0
        """Interest updates that it has read with the newer field."""
        self.numbers_sent = 0
        self._newer = [newer]
        """Whether each of its lives is of the newer version."""
        self._versions = [0]
        """By life, the version of its document of the newer kind."""
        self._world = world
        world.wire.intercept(node, self._change)
        node.on_received.append(self._read)

    @property
    def newer(self) -> bool:
        """Whether it runs in the newer version now."""
        return self.node.broker is not None and self.newer_in(self.node.lives)

    @property
    def overlay(self) -> Overlay:
        """The overlay of the broker."""
        return self.node.overlay

    def newer_in(self, life: int) -> bool:
        """Return whether a life is of the newer version: it may be upgraded or rolled back at each start."""
        while len(self._newer) < life:
            self._newer.append(self._newer[-1] != (self.rng.random() < 0.5))
            self._versions.append(0)
        return self._newer[life - 1]

    # --- what a newer broker sends ------------------------------------------------------------------------------------

    def flood_and_send(self, others: Sequence[OverlayNode]) -> None:
        """Flood another version of a document of the newer kind, and send a message of the newer kind to a broker."""
        life = self.node.lives - 1
        self._versions[life] += 1
        version, overlay = self._versions[life], self.overlay
        body = b"" if version % 4 == 0 else bytes(pack({"version": version, "later": [version] * 20}))
        overlay.flooding.originate_raw(Signed(LATER_DOCUMENT, overlay.me, 1, version, body))
        if others:
            self.send_message(self.rng.choice(others).overlay.me, tries=self.rng.randrange(3))
        self._act()

    def send_message(self, to: int, *, tries: int = 0) -> int:
        """Send a message of the newer kind, with `tries` along a source route as well. Return its number."""
        overlay = self.overlay
        self.numbers_sent += 1
        body = bytes(pack({"number": self.numbers_sent, "to": to}))
        envelope = overlay.message_auth.prove(EndToEnd(LATER_MESSAGE, overlay.me, (to,), body))
        overlay.unicast.send_envelope(envelope, self._world.now, (tries,))
        self._act()
        return self.numbers_sent

    def later_document(self, signed: Signed) -> Signed:
        """Return a document of this broker with the newer field."""
        if signed.kind not in DOCUMENT_KINDS or not signed.body:
            return signed
        return self.overlay.message_auth.sign(replace(signed, body=with_later_field(signed.body)))

    def _act(self) -> None:
        self.overlay.pending = True
        self.node.act()

    def _change(self, connection: LinkConnection, frame: Frame) -> Sequence[Frame | bytes]:
        if not self.newer:
            return (frame,)
        me = self.overlay.me
        if isinstance(frame, Ping):
            body = self.rng.randbytes(self.rng.randrange(40))
            return (frame, PREFIX.pack(len(body), VERSION_MAX, LATER_FRAME, 0) + body)
        if isinstance(frame, Signed) and frame.origin == me:
            return (self.later_document(frame),)
        if isinstance(frame, EndToEnd) and frame.source == me:
            return (self._later_message(frame),)
        if isinstance(frame, SourceRouted) and frame.route[0] == me:
            (inner,) = decode(frame.frame)
            if isinstance(inner, EndToEnd):
                later = replace(frame, frame=encode_frame(self._later_message(inner)))
                return (self.overlay.message_auth.prove_route(later),)
        return (frame,)

    def _later_message(self, envelope: EndToEnd) -> EndToEnd:
        """Return a message of this broker with the newer field, if it is an interest update."""
        if envelope.kind != INTEREST_UPDATE:
            return envelope
        return self.overlay.message_auth.prove(replace(envelope, body=with_later_field(envelope.body)))

    # --- what a newer broker reads ------------------------------------------------------------------------------------

    def _read(self, node: OverlayNode, connection: LinkConnection, data: bytes) -> None:
        if connection.link.number < 0 or not self.newer:
            return
        for version, number, piece in pieces(data):
            if number not in (END_TO_END, SOURCE_ROUTED):
                continue
            (frame,) = decode(piece, version)
            inner = unwrap(frame) if isinstance(frame, SourceRouted) and frame.at == len(frame.route) - 1 else frame
            if isinstance(inner, EndToEnd) and self.overlay.me in inner.to:
                self._read_message(inner)

    def _read_message(self, envelope: EndToEnd) -> None:
        overlay = self.overlay
        try:
            overlay.message_auth.check_message(envelope, envelope.to.index(overlay.me))
        except Forged:  # its source's public keys have not come yet
            return
        if envelope.kind == LATER_MESSAGE:
            number = unpack_fields(envelope.body, WIRE_LIMITS)["number"]
            self.messages.add((overlay.me, envelope.source, number))
        else:
            self.later_fields += has_later_field(envelope.body)


class MixedVersions:
    """One history of such brokers."""

    def __init__(self, seed: int, *, faults: bool = True, brokers: int | None = None) -> None:
        name = f"mixed/{seed}/{faults}"
        self.rng = Random(name)
        count = brokers or self.rng.choice(BROKERS)
        self.history = RandomHistory(name, brokers=count, terms=WorldTerms(signed=True))
        self.history.build()
        self.brokers = [MixedBroker(self.world, node, newer=node.number % 2 == seed % 2) for node in self.world.nodes]
        self.reached = 0
        """Newer documents and messages that had to reach a newer broker at the end."""
        self._faults = faults
        self._ends = False
        """Whether newer brokers flood and send no more."""
        self.world.wire.on_close(self._see_close)

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    @property
    def newer(self) -> list[MixedBroker]:
        """The brokers that are of the newer version now."""
        return [broker for broker in self.brokers if broker.newer]

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, world, history = self.rng, self.world, self.history
        for broker in self.brokers:
            world.timeline.at(broker.joins_at, broker.node.start)
            world.timeline.after(rng.expovariate(1 / CHANGES_S), lambda broker=broker: self._go_on(broker))  # type: ignore[misc]
        history.add_clients()
        world.run(BEGIN_S)
        history.publish_within(LIFE_S, rng.randint(60, 120))
        for _ in range(rng.randint(0, 25)):
            world.timeline.after(rng.uniform(0, LIFE_S), history.change)
        if self._faults:
            for _ in range(rng.randint(1, 6)):
                kind = rng.choice(FAULTS)
                world.timeline.after(rng.uniform(0, LIFE_S), lambda kind=kind: history.faults.cause(kind))  # type: ignore[misc]
        world.run(LIFE_S)
        history.conclude()
        self._ends = True
        self._judge_messages()
        for broker in self.brokers:
            self._judge_documents(broker)
        return world.complaints

    def _go_on(self, broker: MixedBroker) -> None:
        """Let a newer broker flood and send what only newer brokers know, now and then."""
        if self._ends:
            return
        if broker.newer and broker.node.runs:
            broker.flood_and_send([node for node in self.world.nodes if node is not broker.node and node.broker])
        self.world.timeline.after(broker.rng.expovariate(1 / CHANGES_S), lambda: self._go_on(broker))

    def _see_close(self, node: OverlayNode, other: Endpoint, close: Close) -> None:
        if close.code in EXPULSIONS:
            self.world.complain(f"F13: {node.name} expels an honest broker: {close.code} {close.message}")

    def _judge_messages(self) -> None:
        """Send a message of the newer kind from each newer broker to each other one, and check that it arrives."""
        newer = self.newer
        sent = [
            (source, source.send_message(to.overlay.me), to) for source in newer for to in newer if to is not source
        ]
        self.world.run(ARRIVES_S)
        self.reached += len(sent)
        for source, number, to in sent:
            if (to.overlay.me, source.overlay.me, number) not in to.messages:
                self.world.complain(f"F13: {to.node.name} never got newer message {number} of {source.node.name}")

    def _judge_documents(self, broker: MixedBroker) -> None:
        """Check that a broker, older or newer, has the newest version of each newer document, to the byte."""
        for other in self.newer:
            if other is broker:
                continue
            flooding, me = other.overlay.flooding, other.overlay.me
            for own in [flooding.stored(key) for key in flooding.keys if key[0] == me]:
                if own is None or own.withdrawn:
                    continue
                self.reached += 1
                right, found = other.later_document(own.signed), broker.overlay.flooding.stored(key_of(own.signed))
                if found is None or found.signed != right:
                    text = f"lacks document {right.kind:#x}/{right.number} of {other.node.name}"
                    self.world.complain(f"F13: {broker.node.name} {text}")
