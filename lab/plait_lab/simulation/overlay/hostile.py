"""One hostile broker among honest ones: SCORECARD S3 on random graphs.

It runs the production code and has the overlay's secret, but an attack transforms the frames that leave it. Honest
brokers that can reach each other without it must be unaffected: published events arrive once, in order and unchanged,
and no others do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import ClassVar, Final, TypeAlias

from plait_broker.overlay import ReceivedEvent
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
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from .overlay_nodes import Node, Pipe
from .overlays import OverlayWorld

AGAIN_SHARE: Final = 0.1
"""Share of its frames that it sends again."""

GRUDGE_S: Final = 0.3
"""Between two frames that it makes up."""

FLOOD: Final = 20
"""Events that it makes up at once."""

MISDIRECT_S: Final = 0.1
"""Between two times that it makes up ways."""

TEASE_S: Final = 0.5
"""Between two events that it lets pass."""

Attack: TypeAlias = Callable[["HostileWorld", Node, Frame], Iterator[Frame]]
"""Maps a frame that leaves the hostile broker to the frames sent instead."""


def _passes_through(node: Node, frame: Frame) -> bool:
    assert node.overlay is not None
    me = node.overlay.me
    if isinstance(frame, Forward):
        return frame.path[:1] != (me,)
    if isinstance(frame, SourceRouted):
        return frame.route[0] != me
    return isinstance(frame, EndToEnd) and frame.source != me


def drop(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Lose all transit frames."""
    if not _passes_through(node, frame):
        yield frame


def drop_some(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Lose half of the transit frames."""
    if not _passes_through(node, frame) or world.rng.random() < 0.5:
        yield frame


def drop_events(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Lose events in transit, and nothing else."""
    if not isinstance(frame, Forward | SourceRouted) or not _passes_through(node, frame):
        yield frame


def drop_answers(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Lose acks, and nothing else."""
    inner = unwrap(frame) if isinstance(frame, SourceRouted) else frame
    acks = isinstance(inner, EndToEnd) and isinstance(read_message(inner, 0), InterestAck | StreamAck)
    if not acks or not _passes_through(node, frame):
        yield frame


def one_by_one(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Lose events in transit, except at times the next one of a stream, so that progress never stops entirely."""
    inner = unwrap(frame) if isinstance(frame, SourceRouted) else frame
    if not isinstance(inner, Forward) or not _passes_through(node, frame):
        yield frame
        return
    let = [one for one in inner.destinations if world.may_pass((inner.path[0], one.broker), one.position)]
    if let:
        yield frame if isinstance(frame, SourceRouted) else _for_some(inner, let)


def equivocate(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Send each neighbour other delays in one version, and lose transit frames: no two maps are equal."""
    assert node.overlay is not None
    link_state = _own_link_state(node, frame)
    if link_state is not None:
        delays = tuple(world.rng.choice((1, delay, 30 * delay)) for delay in link_state.delays_us)
        frame = node.overlay.message_auth.envelop(replace(link_state, delays_us=delays))
    yield from drop(world, node, frame)


def misdirect(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Invent paths through itself, as if frames had taken them, and lose the frames sent there."""
    yield from drop(world, node, frame)
    if world.timeline.now >= world.forge_at and isinstance(frame, Ping):
        world.forge_at = world.timeline.now + MISDIRECT_S
        yield from _made_up_ways(world, node)


def sinkhole(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Claim the shortest links to all neighbours, and lose transit frames."""
    assert node.overlay is not None
    link_state = _own_link_state(node, frame)
    if link_state is not None:
        frame = node.overlay.message_auth.envelop(replace(link_state, delays_us=(1,) * len(link_state.delays_us)))
    yield from drop(world, node, frame)


def tamper(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Change all transit frames and all flooded documents."""
    yield (_changed(frame, world.rng) if _passes_through(node, frame) or isinstance(frame, Signed) else frame)


def tamper_events(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Change events in transit, and nothing else."""
    yield _changed(frame, world.rng) if isinstance(frame, Forward) and _passes_through(node, frame) else frame


def replay(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Repeat frames later, its own and those in transit."""
    yield frame
    if world.rng.random() < AGAIN_SHARE:
        world.memory.append(frame)
        if len(world.memory) > 50:
            yield world.memory.pop(world.rng.randrange(len(world.memory)))


def reorder(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Hold transit frames back and release them in another order."""
    if not _passes_through(node, frame):
        yield frame
        return
    world.memory.append(frame)
    if len(world.memory) > 20:
        yield world.memory.pop(world.rng.randrange(len(world.memory)))


def forge(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Add frames in the names of others."""
    yield frame
    if world.timeline.now >= world.forge_at:
        world.forge_at = world.timeline.now + GRUDGE_S
        yield _forgery(world, node)


def flood(world: HostileWorld, node: Node, frame: Frame) -> Iterator[Frame]:
    """Add many forged events, in its own name and in others'."""
    yield frame
    if isinstance(frame, Ping):
        yield from (_made_up_event(world, node) for _ in range(FLOOD))


ATTACKS: Final[dict[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        *(drop, drop_some, drop_events, drop_answers, one_by_one, sinkhole, equivocate, misdirect),
        *(tamper, tamper_events, replay, reorder, forge, flood),
    )
}


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


def _own_link_state(node: Node, frame: Frame) -> LinkState | None:
    assert node.overlay is not None
    document = read_document(frame) if isinstance(frame, Signed) and frame.origin == node.overlay.me else None
    return document if isinstance(document, LinkState) else None


def _made_up_ways(world: HostileWorld, node: Node) -> Iterator[Frame]:
    """Invent paths from all honest brokers through this one to its neighbours."""
    overlay = node.overlay
    assert overlay is not None
    nonsense = encode_frame(Ping(1))
    for origin in overlay.map.distances(overlay.me):
        for neighbour in overlay.neighbours:
            here = overlay.map.path(origin, overlay.me, without=(neighbour,))
            if origin not in (overlay.me, neighbour) and here is not None:
                yield SourceRouted((*here, neighbour), len(here), 0, nonsense)


def _for_some(frame: Forward, destinations: Sequence[Destination]) -> Forward:
    """Return a copy for fewer destinations."""
    return Forward(frame.tree, frame.delay_us, frame.flags, frame.path, tuple(destinations), frame.block)


def _forgery(world: HostileWorld, node: Node) -> Frame:
    """Forge a frame in another broker's name."""
    rng = world.rng
    honest = [other.overlay for other in world.nodes if other is not node and other.overlay is not None]
    victim, target = rng.choice(honest), rng.choice(honest)
    far = 2**40 + rng.randrange(1000)
    return rng.choice(
        (
            envelop_document(LinkState(victim.me, far, "victim", (), ())),
            envelop_document(Advertisement(victim.me, 1, far, "")),
            envelop_document(Advertisement(victim.me, 77, 1, "x >= 0")),
            envelop_document(DurableInterest(victim.me, 77, 1, "x >= 0")),
            envelop_message(InterestUpdate((target.me,), victim.me, (far,), (0,), True, (), (), ())),
            envelop_message(InterestAck(target.me, victim.me, 0, 0, far)),
            envelop_message(StreamAck(target.me, victim.me, far)),
            envelop_message(StreamSkip(target.me, victim.me, far)),
            envelop_message(DeliveryOutcome(target.me, victim.me, 1, 1, "")),
            envelop_message(TraceStep(target.me, victim.me, 1, 1, "delivered")),
            envelop_message(Query(target.me, victim.me, 1, "why", "{}")),
            envelop_message(QueryResult(target.me, victim.me, 1, "{}")),
            _forged_event(world, (victim, node.overlay or victim), target),
        )
    )


def _made_up_event(world: HostileWorld, node: Node) -> Forward:
    """Forge an event: its own, relayed for another broker, or another broker's."""
    honest = [other.overlay for other in world.nodes if other is not node and other.overlay is not None]
    victim, target, me = world.rng.choice(honest), world.rng.choice(honest), node.overlay
    assert me is not None
    return _forged_event(world, world.rng.choice(((me,), (victim, me), (victim,), (target, me))), target)


def _forged_event(world: HostileWorld, path: Sequence[Overlay], target: Overlay) -> Forward:
    """Forge an event at the next position of the stream that it claims to belong to."""
    root, rng = path[0].me, world.rng
    block = encode_block(Event({"x": rng.randrange(100), "y": 9}, b"forged", rng.getrandbits(60) + 1, 1, 0))
    incoming = target.dissemination.incoming.get(root)
    to = Destination(target.me, (incoming.expected if incoming is not None else None) or 1)
    return Forward(root, 10, 0, tuple(one.me for one in path), (to,), block)


class HostileNode(Node):
    """A broker that checks received events; one of them is the hostile one."""

    def arrived_(self, arrival: ReceivedEvent) -> None:
        super().arrived_(arrival)
        assert isinstance(self.world, HostileWorld)
        self.world.check_arrival(self, arrival)

    def told(self, frame: TraceMessage) -> None:
        """Complain: no trace message is sent in these histories, so each one was forged."""
        assert isinstance(self.world, HostileWorld)
        if self is not self.world.enemy and self.world.ids.get(frame.source) is not self.world.enemy:
            self.world.complain(f"I3: {self.name} believes a {type(frame).__name__} that {frame.source:x} never said")


class HostileWorld(OverlayWorld):
    """A history with a hostile broker, and without other faults."""

    NODE: ClassVar[type[Node]] = HostileNode

    def __init__(self, seed: int, attack: str, *, brokers: int | None = None) -> None:
        super().__init__(seed, faults=False, brokers=brokers)
        self.on_wire = False
        self.signed = True
        for node in self.nodes:
            node.secret = self.rng.getrandbits(256).to_bytes(32, "big")
        self.attack = ATTACKS[attack]
        self.enemy = self.rng.choice(self.nodes)
        self.memory: list[Frame] = []
        self.forge_at = 0.0
        self._let: dict[tuple[int, int], tuple[int, float]] = {}
        self.expelled_by: set[Node] = set()

    def carry(self, node: Node, link: int, data: bytes | Frame) -> None:
        if node is not self.enemy or node.overlay is None or isinstance(data, bytes):
            super().carry(node, link, data)
            return
        for frame in self.attack(self, node, data):
            super().carry(node, link, frame)

    def owes(self, root: Node, home: Node, offers: list[int], wants: list[int]) -> bool:
        """Return whether interest must be known. Until healing, the hostile broker may delay interest, so what a broker
        knows decides."""
        assert root.overlay is not None
        assert home.overlay is not None
        enemy = self.enemy in (root, home) or self._friends()[root.number] != self._friends()[home.number]
        return not enemy and (self.settled or home.overlay.me in root.overlay.remote_interest.homes)

    def look(self) -> None:
        """Skip the check: the hostile broker may delay the tables of others."""

    def expelled(self, by: Node, other: Node) -> None:
        self.expelled_by.add(by)
        if other is not self.enemy:
            super().expelled(by, other)

    def may_pass(self, stream: tuple[int, int], position: int) -> bool:
        """Return whether an event of a stream may pass: the next one, after some time."""
        due, since = self._let.get(stream, (position, self.timeline.now))
        passes = position == due and self.timeline.now >= since + TEASE_S
        self._let[stream] = (due + passes, self.timeline.now if passes else since)
        return passes or position < due

    def check_arrival(self, node: Node, arrival: ReceivedEvent) -> None:
        """Check I3: an event received in an honest broker's name was published there, bit by bit."""
        frame = arrival.frame
        root = self.ids.get(arrival.root)
        if node is self.enemy or root is self.enemy:
            return
        said = self.said.get((frame.publisher, frame.sequence))
        if said is None or said.root is not root or said.block != bytes(frame.block):
            self.complain(f"I3: {node.name} got what {root.name if root else 'nobody'} never published")

    def judge(self) -> None:
        friends = self._friends()
        for id, said in self.said.items():
            if said.root is self.enemy:
                continue
            for node, _ in said.owed:
                friend = node is not self.enemy and friends[said.root.number] == friends[node.number]
                if friend and not node.arrived.get(id):
                    self.complain(f"I1: {node.name} never got {id} of {said.root.name}, published at {said.at:.3f}")
        for node in self.nodes:
            for other in self.nodes:
                honest = node is not other and self.enemy not in (node, other)
                if honest and friends[node.number] == friends[other.number]:
                    self._judge_interest(node, other)

    def _judge_interest(self, node: Node, other: Node) -> None:
        assert node.overlay is not None
        assert other.overlay is not None
        home = node.overlay.remote_interest.homes.get(other.overlay.me)
        known = set(home.filters.values()) if home is not None else set()
        for filter in other.wants.values():
            meets = any(offer.intersects(filter) for offer in node.offers.values())
            if meets and not any(one.covers(filter) for one in known):
                self.complain(f"I7: {node.name} does not know that {other.name} wants {filter.text}")
        for filter in known:
            if filter not in other.wants.values():
                self.complain(f"I7: {node.name} thinks that {other.name} wants {filter.text}")

    def _friends(self) -> dict[int, int]:
        """Return a group name for each broker; equal for those connected without the hostile one."""
        group = {node.number: node.number for node in self.nodes}
        for _ in self.nodes:
            for pipe in self.pipes:
                near, far = pipe.ends
                if self.enemy not in (near, far) and _links(pipe):
                    least = min(group[near.number], group[far.number])
                    group[near.number] = group[far.number] = least
        return group


def _links(pipe: Pipe) -> bool:
    return pipe.up and not pipe.silent


def play_hostile(seed: int, attack: str) -> HostileWorld:
    """Play a seed."""
    world = HostileWorld(seed, attack)
    world.play()
    return world
