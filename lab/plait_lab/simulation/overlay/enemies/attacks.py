"""What a hostile broker sends in place of its own frames: attacks on transit frames, on its own, and in others' names.

The broker is a production broker with the overlay's secret and its own keys. An attack maps each frame that leaves it
to the frames that are written instead, signed with its keys where it has the right ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias

from plait_broker.overlay.overlay import Overlay
from plait_broker.overlay.topology.source_routes import unwrap
from plait_core.events import Event
from plait_core.wire import Destination, Forward, Frame, Ping, encode_block, encode_frame
from plait_core.wire.frame_types.envelope_frames import (
    EndToEnd,
    Signed,
    SourceRouted,
    envelop_document,
    envelop_message,
    read_document,
    read_message,
)
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    DeliveryOutcome,
    Document,
    DurableInterest,
    InterestAck,
    InterestUpdate,
    LinkState,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep

from ..broker_node import OverlayNode
from ..network import LinkConnection
from ..world import World

REPLAYED_SHARE: Final = 0.1
"""Share of its frames that it sends again."""

REPLAYED_KEPT: Final = 50
REORDERED_KEPT: Final = 20
"""Frames that it holds back, to send them later."""

FORGE_S: Final = 0.3
"""Time between two frames that it forges."""

FLOOD: Final = 20
"""Events that it forges at once."""

MISDIRECT_S: Final = 0.1
"""Time between two sets of invented routes."""

PASS_S: Final = 0.5
"""Time between two events of a stream that it lets pass."""

Attack: TypeAlias = Callable[["Attacker", Frame], Iterator[Frame]]
"""Maps a frame that leaves the hostile broker to the frames sent instead."""


class Attacker:
    """The hostile broker with its attack."""

    def __init__(self, world: World, node: OverlayNode, attack: str) -> None:
        self.world = world
        self.node = node
        self.rng = Random(f"{world.seed}/{attack}")
        self.counts: Counter[str] = Counter()
        """What the attack has done to frames: `lost`, `changed` or `added`."""
        self.held: list[Frame] = []
        """Frames to send later."""
        self._attack = ATTACKS[attack]
        self._due = 0.0
        self._passed: dict[tuple[int, int], tuple[int, float]] = {}
        """By stream, the next position to let pass, and when the one before passed."""
        world.wire.intercept(node, self._change)

    @property
    def overlay(self) -> Overlay:
        """The overlay of the hostile broker."""
        return self.node.overlay

    @property
    def honest(self) -> list[OverlayNode]:
        """All other brokers."""
        return [node for node in self.world.nodes if node is not self.node and node.broker is not None]

    def is_due(self, every_s: float) -> bool:
        """Return whether it is time for another forgery."""
        due = self.world.now >= self._due
        if due:
            self._due = self.world.now + every_s
        return due

    def may_pass(self, stream: tuple[int, int], position: int) -> bool:
        """Return whether an event of a stream may pass: the next one, after some time."""
        due, since = self._passed.get(stream, (position, self.world.now))
        passes = position == due and self.world.now >= since + PASS_S
        self._passed[stream] = (due + passes, self.world.now if passes else since)
        return passes or position < due

    def relays(self, frame: Frame) -> bool:
        """Return whether a frame is in transit: another broker is its source."""
        me = self.overlay.me
        if isinstance(frame, Forward):
            return frame.path[:1] != (me,)
        if isinstance(frame, SourceRouted):
            return frame.route[0] != me
        return isinstance(frame, EndToEnd) and frame.source != me

    def own_link_state(self, frame: Frame) -> LinkState | None:
        """Return the link state in a frame if it is the hostile broker's own."""
        document = read_document(frame) if isinstance(frame, Signed) and frame.origin == self.overlay.me else None
        return document if isinstance(document, LinkState) else None

    def _change(self, connection: LinkConnection, frame: Frame) -> Sequence[Frame]:
        sent = list(self._attack(self, frame))
        if not sent:
            self.counts["lost"] += 1
        elif sent[0] is not frame:
            self.counts["changed"] += 1
        self.counts["added"] += max(len(sent) - 1, 0)
        return sent


# --- attacks on the path ----------------------------------------------------------------------------------------------


def drop(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Lose all transit frames."""
    if not attacker.relays(frame):
        yield frame


def drop_some(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Lose half of the transit frames."""
    if not attacker.relays(frame) or attacker.rng.random() < 0.5:
        yield frame


def drop_events(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Lose events in transit, and nothing else."""
    if not isinstance(frame, Forward | SourceRouted) or not attacker.relays(frame):
        yield frame


def drop_answers(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Lose acks, and nothing else."""
    inner = unwrap(frame) if isinstance(frame, SourceRouted) else frame
    acks = isinstance(inner, EndToEnd) and isinstance(read_message(inner, 0), InterestAck | StreamAck)
    if not acks or not attacker.relays(frame):
        yield frame


def one_by_one(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Lose events in transit, except at times the next one of a stream, so that progress never stops entirely."""
    inner = unwrap(frame) if isinstance(frame, SourceRouted) else frame
    if not isinstance(inner, Forward) or not attacker.relays(frame):
        yield frame
        return
    passing = [one for one in inner.destinations if attacker.may_pass((inner.path[0], one[0]), one[1])]
    if passing:
        yield frame if isinstance(frame, SourceRouted) else _for_some(inner, passing)


def tamper(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Change all transit frames and all flooded documents."""
    yield _changed(frame, attacker.rng) if attacker.relays(frame) or isinstance(frame, Signed) else frame


def tamper_events(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Change events in transit, and nothing else."""
    yield _changed(frame, attacker.rng) if isinstance(frame, Forward) and attacker.relays(frame) else frame


def replay(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Repeat frames later, its own and those in transit."""
    yield frame
    if attacker.rng.random() < REPLAYED_SHARE:
        attacker.held.append(frame)
        if len(attacker.held) > REPLAYED_KEPT:
            yield attacker.held.pop(attacker.rng.randrange(len(attacker.held)))


def reorder(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Hold transit frames back and release them in another order."""
    if not attacker.relays(frame):
        yield frame
        return
    attacker.held.append(frame)
    if len(attacker.held) > REORDERED_KEPT:
        yield attacker.held.pop(attacker.rng.randrange(len(attacker.held)))


# --- attacks on the map -----------------------------------------------------------------------------------------------


def sinkhole(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Claim the shortest links to all neighbours, and lose transit frames."""
    link_state = attacker.own_link_state(frame)
    if link_state is not None:
        shortest = replace(link_state, delays_us=(1,) * len(link_state.delays_us))
        frame = attacker.overlay.message_auth.envelop(shortest)
    yield from drop(attacker, frame)


def equivocate(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Send each neighbour other delays in one version, and lose transit frames: no two maps are equal."""
    link_state = attacker.own_link_state(frame)
    if link_state is not None:
        delays = tuple(attacker.rng.choice((1, delay, 30 * delay)) for delay in link_state.delays_us)
        frame = attacker.overlay.message_auth.envelop(replace(link_state, delays_us=delays))
    yield from drop(attacker, frame)


def misdirect(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Invent routes through itself, as if frames had taken them, and lose the frames sent there."""
    yield from drop(attacker, frame)
    if isinstance(frame, Ping) and attacker.is_due(MISDIRECT_S):
        yield from _invented_routes(attacker)


# --- attacks in the name of others ------------------------------------------------------------------------------------


def forge(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Add frames in the names of others."""
    yield frame
    if attacker.is_due(FORGE_S):
        yield attacker.rng.choice(
            (*_forged_documents(attacker), *_forged_messages(attacker), _event_in_transit(attacker))
        )


def forge_messages(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Add messages in the names of others. No relay can verify them, so nobody expels who sends them."""
    yield frame
    if attacker.is_due(FORGE_S):
        yield attacker.rng.choice(_forged_messages(attacker))


def flood(attacker: Attacker, frame: Frame) -> Iterator[Frame]:
    """Add many forged events, in its own name and in others'."""
    yield frame
    if isinstance(frame, Ping):
        yield from (_forged_event_of_anyone(attacker) for _ in range(FLOOD))


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        *(drop, drop_some, drop_events, drop_answers, one_by_one, sinkhole, equivocate, misdirect),
        *(tamper, tamper_events, replay, reorder, forge, forge_messages, flood),
    )
}


# --- changed and forged frames ----------------------------------------------------------------------------------------


def _changed(frame: Frame, rng: Random) -> Frame:
    match frame:
        case Signed():
            document = read_document(frame)
            assert document is not None
            return replace(envelop_document(_changed_document(document)), signature=frame.signature)
        case EndToEnd():
            return _changed_message(frame)
        case SourceRouted():
            return replace(frame, frame=frame.frame[:-1] + bytes([frame.frame[-1] ^ 1]))
        case Forward():
            block = bytearray(frame.block)
            block[rng.randrange(len(block) - 20, len(block))] ^= 1
            return Forward(frame.tree, frame.delay_us, frame.flags, frame.path, frame.destinations, bytes(block))
    return frame


def _changed_document(document: Document) -> Document:
    if isinstance(document, LinkState):
        return replace(document, version=document.version + 1, neighbours=(), delays_us=(), capacities=())
    return replace(document, version=document.version + 1, filter="" if document.filter else "x >= 0")


def _changed_message(frame: EndToEnd) -> EndToEnd:
    match read_message(frame, 0):
        case InterestUpdate() as message:
            body = envelop_message(replace(message, removed=message.added, added=(), filters=(), routing=())).body
        case InterestAck() as message:
            body = envelop_message(replace(message, version=message.version + 1)).body
        case StreamAck() as message:
            body = envelop_message(replace(message, up_to=message.up_to + 5, missing=())).body
        case StreamSkip() as message:
            body = envelop_message(replace(message, up_to=message.up_to + 5)).body
        case DeliveryOutcome() as message:
            body = envelop_message(replace(message, code="" if message.code else "gone")).body
        case _:
            return frame
    return replace(frame, body=body)


def _for_some(frame: Forward, destinations: Sequence[Destination]) -> Forward:
    """Return a copy for fewer destinations."""
    return Forward(frame.tree, frame.delay_us, frame.flags, frame.path, tuple(destinations), frame.block)


def _invented_routes(attacker: Attacker) -> Iterator[Frame]:
    """Invent routes from all honest brokers through the hostile one to its neighbours."""
    overlay = attacker.overlay
    nonsense = encode_frame(Ping(1))
    for origin in overlay.map.distances(overlay.me):
        for neighbour in overlay.neighbours:
            here = overlay.map.path(origin, overlay.me, without=(neighbour,))
            if origin not in (overlay.me, neighbour) and here is not None:
                yield SourceRouted((*here, neighbour), len(here), 0, nonsense)


def _forged_documents(attacker: Attacker) -> Sequence[Frame]:
    """Forge documents in another broker's name."""
    victim, far = attacker.rng.choice(attacker.honest).overlay.me, _far(attacker)
    return (
        envelop_document(LinkState(victim, far, "victim", (), ())),
        envelop_document(Advertisement(victim, 1, far, "")),
        envelop_document(Advertisement(victim, 77, 1, "x >= 0")),
        envelop_document(DurableInterest(victim, 77, 1, "x >= 0")),
    )


def _forged_messages(attacker: Attacker) -> Sequence[Frame]:
    """Forge messages from one honest broker to another one."""
    victim, target = (one.overlay.me for one in attacker.rng.sample(attacker.honest, 2))
    far = _far(attacker)
    return (
        envelop_message(InterestUpdate((target,), victim, (far,), (0,), True, (), (), ())),
        envelop_message(InterestAck(target, victim, 0, 0, far)),
        envelop_message(StreamAck(target, victim, far)),
        envelop_message(StreamSkip(target, victim, far)),
        envelop_message(DeliveryOutcome(target, victim, 1, 1, "")),
        envelop_message(TraceStep(target, victim, 1, 1, "delivered")),
        envelop_message(Query(target, victim, 1, "why", "{}")),
        envelop_message(QueryResult(target, victim, 1, "{}")),
    )


def _far(attacker: Attacker) -> int:
    """Return a version or a position far beyond all that there are."""
    return 2**40 + attacker.rng.randrange(1000)


def _event_in_transit(attacker: Attacker) -> Forward:
    """Forge an event as if it were relayed for its publisher's broker."""
    victim, target = (one.overlay for one in attacker.rng.sample(attacker.honest, 2))
    return _forged_event(attacker.rng, (victim, attacker.overlay), target)


def _forged_event_of_anyone(attacker: Attacker) -> Forward:
    """Forge an event: its own, relayed for another broker, or another broker's."""
    rng, me = attacker.rng, attacker.overlay
    victim, target = rng.choice(attacker.honest).overlay, rng.choice(attacker.honest).overlay
    return _forged_event(rng, rng.choice(((me,), (victim, me), (victim,), (target, me))), target)


def _forged_event(rng: Random, path: Sequence[Overlay], target: Overlay) -> Forward:
    """Forge an event at the next position of the stream that it claims to belong to."""
    root = path[0].me
    block = encode_block(Event({"x": rng.randrange(100), "y": 9}, b"forged", rng.getrandbits(60) + 1, 1, 0))
    incoming = target.event_streams.incoming.get(root)
    to = (target.me, (incoming.expected if incoming is not None else None) or 1, 0)
    return Forward(root, 10, 0, tuple(one.me for one in path), (to,), block)
