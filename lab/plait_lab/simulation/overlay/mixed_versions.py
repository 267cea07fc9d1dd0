"""Overlays in which half of the brokers are of a newer version (SCORECARD F13).

Newer brokers know one more field in LinkState, Advertisement and InterestUpdate, one more document kind, one more
message kind and one more control frame type. Older brokers are the production code as it is. In the histories brokers
join, crash and restart, some as the other version, links are cut and fall silent, and messages take source routes. No
broker may expel another, the oracle judges all events and tables as ever, and the newer documents and messages must
reach all newer brokers through the older ones.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, ClassVar, Final

from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_core.limits import WIRE_LIMITS
from plait_core.wire import VERSION_MAX, ControlFrame, Ping
from plait_core.wire.frame_header import PREFIX
from plait_core.wire.frame_types.envelope_frames import EndToEnd, Message, Signed
from plait_core.wire.frame_types.overlay_frames import Document, InterestUpdate
from plait_core.wire.msgpack_codec import pack, unpack_fields

from .overlay_nodes import Node
from .overlays import OverlayWorld

LATER_FIELD: Final = "later_field"
LATER_DOCUMENT: Final = 0x1F01
LATER_MESSAGE: Final = 0x1F02
LATER_FRAME: Final = 0x7E

BROKERS: Final = (4, 5, 6, 8)
JOINS_BY_S: Final = 18.0
"""Some brokers start only by then: all others are there after 8 s, and things happen for 12 s more."""

CHANGES_S: Final = 3.0
"""Between two versions of a newer document, and between two newer messages of one broker, on average."""


def with_later_field(body: bytes) -> bytes:
    """Return a body with a field that older brokers do not know."""
    fields = unpack_fields(body, WIRE_LIMITS)
    return bytes(pack({LATER_FIELD: {"deep": [1, 2, 3]}} | fields))


def has_later_field(body: bytes) -> bool:
    """Return whether a body arrived with that field."""
    return LATER_FIELD in unpack_fields(body, WIRE_LIMITS)


class NewerAuth(MessageAuth):
    """Adds the field to every document and interest update before they are signed."""

    def envelop(self, document: Document) -> Signed:
        signed = super().envelop(document)
        return self.sign(replace(signed, body=with_later_field(signed.body))) if signed.body else signed

    def envelop_message(self, message: Message) -> EndToEnd:
        envelope = super().envelop_message(message)
        if not isinstance(message, InterestUpdate):
            return envelope
        return self.prove(replace(envelope, body=with_later_field(envelope.body)))


class NewerOverlay(Overlay):
    """The overlay of a newer broker."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.trust.__class__ = NewerAuth
        self.later_messages: dict[tuple[int, int], bytes] = {}
        """By source and number, the bodies of the messages of the newer kind that came."""
        self.later_fields = 0
        """Interest updates that came with the newer field."""
        self._originate_link_state(self.now)

    def _receive_message(self, envelope: EndToEnd, at: int, now: float) -> None:
        super()._receive_message(envelope, at, now)
        if envelope.kind == LATER_MESSAGE:
            number = unpack_fields(envelope.body, WIRE_LIMITS)["number"]
            self.later_messages[envelope.source, number] = envelope.body
        elif LATER_FIELD.encode() in envelope.body:
            self.later_fields += 1

    def flood_later(self, version: int) -> None:
        """Flood a version of a document of the newer kind; every fourth is a withdrawal."""
        body = b"" if version % 4 == 0 else bytes(pack({"version": version, "later": [version] * 20}))
        self.flooding.originate_raw(Signed(LATER_DOCUMENT, self.me, 1, version, body))

    def send_later(self, to: int, number: int, tries: int) -> None:
        """Send a message of the newer kind, with `tries` along a source route as well."""
        envelope = EndToEnd(LATER_MESSAGE, self.me, (to,), bytes(pack({"number": number, "to": to})))
        self.unicast.send_envelope(self.trust.prove(envelope), (tries,))


class MixedNode(Node):
    """A broker that is of the newer version in some of its lives."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        super().__init__(number, world)
        self.chance = Random(f"mixed/{world.seed}/{number}")
        self.newer = number % 2 == world.seed % 2
        self.joins_at = self.chance.uniform(8.0, JOINS_BY_S) if self.chance.random() < 0.25 else 0.0
        self.version = 0
        """Of its document of the newer kind."""
        self.numbers_sent = 0
        self.came_before = self.unknown_frames = self.unknown_messages = self.detours = 0
        """What its former lives have counted."""

    @property
    def later(self) -> NewerOverlay | None:
        """Its overlay, while it is a newer broker."""
        return self.overlay if isinstance(self.overlay, NewerOverlay) else None

    def start(self) -> None:
        if self.now < self.joins_at:
            self.world.timeline.at(self.joins_at, self.start_again)
            return
        if self.lives and self.chance.random() < 0.5:
            self.newer = not self.newer  # upgraded, or rolled back
        self.overlay_type = NewerOverlay if self.newer else Overlay
        self.version = 0
        super().start()
        self._go_on(self.lives)

    def stop(self) -> None:
        self.count()
        super().stop()

    def count(self) -> None:
        """Add the counters of this life."""
        assert self.overlay is not None
        self.unknown_frames += self.overlay.counts["unknown_frames"]
        self.unknown_messages += self.overlay.counts["unknown_messages"]
        self.detours += self.overlay.counts["detours"]
        if self.later is not None:
            self.came_before += len(self.later.later_messages) + self.later.later_fields

    def send(self, link: int, frame: ControlFrame) -> None:
        super().send(link, frame)
        if self.newer and isinstance(frame, Ping):
            body = self.chance.randbytes(self.chance.randrange(40))
            self.world.carry(self, link, PREFIX.pack(len(body), VERSION_MAX, LATER_FRAME, 0) + body)

    def _go_on(self, life: int) -> None:
        """Flood and send what only newer brokers know, now and then."""
        later, world = self.later, self.world
        assert isinstance(world, MixedVersions)
        if later is None or self.lives != life:
            return
        if not self.paused:
            self.version += 1
            later.flood_later(self.version)
            others = [node.overlay.me for node in world.nodes if node is not self and node.overlay is not None]
            if others:
                self.numbers_sent += 1
                later.send_later(self.chance.choice(others), self.numbers_sent, self.chance.randrange(3))
            self.settle()
        if not world.settled:
            world.timeline.after(self.chance.expovariate(1 / CHANGES_S), lambda: self._go_on(life))


class MixedVersions(OverlayWorld):
    """One history of such brokers."""

    NODE: ClassVar[type[Node]] = MixedNode

    def __init__(self, seed: int, *, faults: bool = True, brokers: int | None = None) -> None:
        super().__init__(seed, faults=faults, brokers=brokers or Random(f"mixed/{seed}").choice(BROKERS))
        self.on_wire = self.signed = True
        for node in self.nodes:
            node.secret = self.rng.getrandbits(256).to_bytes(32, "big")
        self.reached = 0
        """Newer documents and messages that had to reach a newer broker at the end."""

    @property
    def newer(self) -> list[MixedNode]:
        """The brokers that are of the newer version now."""
        return [node for node in self.nodes if isinstance(node, MixedNode) and node.later is not None]

    def judge(self) -> None:
        super().judge()
        self._judge_messages()
        for node in self.nodes:
            self._judge_documents(node)
            if isinstance(node, MixedNode):
                node.count()

    def _judge_messages(self) -> None:
        """Send a message of the newer kind from each newer broker to each other one, and look whether it came."""
        sent: list[tuple[NewerOverlay, int, NewerOverlay]] = []
        for node in self.newer:
            for other in self.newer:
                if other is not node and node.later is not None and other.later is not None:
                    node.numbers_sent += 1
                    node.later.send_later(other.later.me, node.numbers_sent, 0)
                    sent.append((node.later, node.numbers_sent, other.later))
            node.settle()
        self.timeline.run(self.timeline.now + 2.0)
        self.reached += len(sent)
        for source, number, to in sent:
            if (source.me, number) not in to.later_messages:
                self.complain(f"F13: {to.settings.name} never got newer message {number} of {source.settings.name}")

    def _judge_documents(self, node: Node) -> None:
        """Every broker, older or newer, has the newest version of each newer document, to the byte."""
        assert node.overlay is not None
        for other in self.newer:
            assert other.later is not None
            keys = [(other.later.me, LATER_DOCUMENT, 1)]
            keys += [key for key in other.later.flooding.keys if key[0] == other.later.me]
            for key in dict.fromkeys(keys):
                right, found = other.later.flooding.stored(key), node.overlay.flooding.stored(key)
                if right is None or right.withdrawn:
                    continue
                self.reached += 1
                if found is None or found.signed != right.signed:
                    self.complain(f"F13: {node.name} lacks document {key[1]:#x}/{key[2]} of {other.name}")
                elif key[1] != LATER_DOCUMENT and not has_later_field(found.signed.body):
                    self.complain(f"F13: {node.name} has lost a field of document {key[1]:#x} of {other.name}")
