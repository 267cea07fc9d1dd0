"""A broker of a simulated overlay over all its incarnations, the links between brokers, and the published events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from plait_broker.overlay import Incarnation, Overlay, ReceivedEvent
from plait_broker.overlay import outputs as out
from plait_broker.overlay.security.identity import Identity, incarnation_of
from plait_broker.overlay.topology.transit_delay import MARK_S
from plait_core import Attributes
from plait_core.events import Event
from plait_core.filters import Filter
from plait_core.ids import new_id
from plait_core.wire import (
    VERSION_MAX,
    ControlFrame,
    Destination,
    EventFrame,
    Forward,
    Frame,
    FrameDecoder,
    Ping,
    Pong,
    Publish,
    encode_block,
    encode_frame,
    forward_head,
)
from plait_core.wire.event_frames import Confirm
from plait_core.wire.frame_types.envelope_frames import Signed, SourceRouted
from plait_core.wire.frame_types.overlay_frames import ClockStamp
from plait_core.wire.frame_types.trace_frames import TraceMessage

from ..history import Kind

if TYPE_CHECKING:
    from .overlays import OverlayWorld


SYNC_S: Final = 0.002
"""Seconds that a disk takes to store something."""


@dataclass(slots=True)
class Pipe:
    """A link: two directions, each in order."""

    ends: tuple[Node, Node]
    delay_s: float
    number: int
    silent: frozenset[int] = frozenset()
    """Brokers at its ends whose frames vanish unnoticed."""
    jitter_s: float = 0.0
    """Greatest random delay added to a frame."""
    up: bool = True
    last: dict[int, float] = field(default_factory=dict)
    carried: dict[tuple[tuple[int, int], int, int], int] = field(default_factory=dict)
    """Transmissions by event, destination and direction."""


@dataclass(frozen=True, slots=True)
class Said:
    """A published event, and the brokers that must receive it."""

    attributes: Attributes
    block: bytes
    at: float
    root: Node
    incarnation: int
    owed: tuple[tuple[Node, int], ...]
    allowed: frozenset[tuple[Node, int]]


class Node:
    """A broker over all its incarnations."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        self.number = number
        self.world = world
        self.lives = 0
        self.paused = False
        self.held: list[Callable[[], None]] = []
        """Calls held back in order while it is paused: a stopped process learns nothing, not even of a broken link."""
        self.overlay: Overlay | None = None
        self.overlay_type = Overlay
        """The class of the overlay of its next life."""
        self.wants: dict[int, Filter] = {}
        self.durable: set[int] = set()
        """Those of its wants that outlive it."""
        self.memories: dict[out.DocumentKey, Signed] = {}
        """On its disk, the documents of others."""
        self.installed: set[int] = set()
        self.offers: dict[int, Filter] = {}
        self.offered: set[int] = set()
        """Advertisements for which all brokers have sent their interest: their publishers may begin."""
        self.numbers = 0
        self.sequence = 0
        self.publisher = 0
        self.arrived: dict[tuple[int, int], int] = {}
        self.latest: dict[int, int] = {}
        self.due = 0.0
        self.log = number + 1 if number % 2 else 0
        """Identity of its log, by which others recognise its next incarnation; some brokers have none."""
        self.secret = world.rng.getrandbits(256).to_bytes(32, "big") if world.signed else b""
        self.decoder = FrameDecoder(version=VERSION_MAX, keep_unknown=True)
        self.booted_us = number * 3_600_000_000
        """Its clock at the start of the world: hosts boot at different times."""
        self.marked: dict[int, float] = {}
        """Time of the last clock stamp, by link."""
        self.remarks: list[str] = []

    @property
    def name(self) -> str:
        return f"b{self.number}"

    @property
    def runs(self) -> bool:
        """Whether it runs and is not paused."""
        return self.overlay is not None and not self.paused

    # --- the host of the overlay --------------------------------------------------------------------------------------

    def send(self, link: int, frame: ControlFrame) -> None:
        if isinstance(frame, Ping | Pong | SourceRouted):
            self.mark(link)
        self.world.carry(self, link, encode_frame(frame) if self.world.on_wire else frame)

    def relay(self, link: int, frame: ControlFrame) -> bool:
        self.send(link, frame)
        return True

    def mark(self, link: int) -> None:
        """Send a clock stamp unless one was sent just now, as `Connection.take` does."""
        if self.now - self.marked.get(link, -1.0) < MARK_S:
            return
        self.marked[link] = self.now
        sent = ClockStamp(self.booted_us + round(self.now * 1_000_000))
        self.world.carry(self, link, encode_frame(sent) if self.world.on_wire else sent)

    def forward(
        self,
        link: int,
        frame: EventFrame,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: Sequence[Destination],
    ) -> None:
        world = self.world
        pipe = world.pipes[link]
        event = (frame.publisher, frame.sequence)
        passed = [world.number(broker) for broker in path]
        to = [number for broker, position, _ in destinations for number in (world.number(broker), position)]
        world.note(Kind.EVENT_COPY, self, link, *event, delay_us, flags, len(passed), *passed, *to)
        assert destinations, "a copy is responsible for someone"
        self.mark(link)
        assert world.settings.laboratory or len(set(path)) == len(path), "no broker twice"
        for destination in destinations:
            key = (event, destination.broker, self.number)
            pipe.carried[key] = pipe.carried.get(key, 0) + 1
        if world.on_wire:
            head = forward_head(frame.block, tree, delay_us, flags, path, destinations)
            world.carry(self, link, head + frame.block)
        else:
            named = tuple(Destination(*destination) for destination in destinations)
            world.carry(self, link, Forward(tree, delay_us, flags, path, named, frame.block))

    def close(self, link: int, reason: str) -> None:
        self.world.broken(self.world.pipes[link], by=self)

    def expel(self, link: int, reason: str) -> None:
        ends = self.world.pipes[link].ends
        self.world.expelled(self, ends[self is ends[0]])
        self.close(link, reason)

    def remark(self, text: str) -> None:
        self.remarks.append(text)

    def arrived_(self, arrival: ReceivedEvent) -> None:
        frame = arrival.frame
        id = (frame.publisher, frame.sequence)
        self.arrived[id] = self.arrived.get(id, 0) + 1
        if self.arrived[id] > 1:
            self.world.complain(f"I2: {self.name} got {id} again")
        if frame.sequence <= self.latest.get(frame.publisher, 0):
            self.world.complain(f"I6: {self.name} got {id} after {self.latest[frame.publisher]}")
        self.latest[frame.publisher] = max(frame.sequence, self.latest.get(frame.publisher, 0))
        if len(arrival.path) >= len(self.world.nodes):
            self.world.complain(f"I5: {len(arrival.path)} hops")
        assert self.overlay is not None
        self.overlay.acknowledge(arrival.root, arrival.position, self.world.timeline.now)

    def installed_(self, number: int) -> None:
        self.installed.add(number)

    def offered_(self, number: int) -> None:
        self.offered.add(number)

    def interest_changed(self) -> None:
        pass

    def remember(self, key: out.DocumentKey, document: Signed | None) -> None:
        if document is None:
            self.memories.pop(key, None)
            return
        life = self.lives
        self.world.timeline.after(SYNC_S, lambda: self.synced(key, document, life))

    def synced(self, key: out.DocumentKey, document: Signed, life: int) -> None:
        if self.overlay is not None and self.lives == life:
            self.memories[key] = document
            self.overlay.stored([key], self.now)
            self.settle()

    def taken(self, home: int, position: int) -> None:
        pass

    def outcome(self, home: int, position: int, matched: int, code: str) -> None:
        pass

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        self.world.given_up += 1

    def ended(self, frame: Forward, delay_us: int, destinations: Sequence[Destination], reason: str) -> None:
        pass

    def told(self, frame: TraceMessage) -> None:
        pass

    # --- life ---------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        world = self.world
        world.truth.change()
        self.lives += 1
        self.due = 0.0
        self.paused = False
        world.note(Kind.STARTED, self)
        secret = self.secret if world.signed and self.log else b""
        identity = Identity(world.rng, secret) if world.signed else None
        me = identity.id if identity is not None else new_id(world.rng)
        world.ids[me], world.lives[me] = self, self.lives
        self.publisher = new_id(world.rng)
        self.sequence = 0
        self.arrived, self.latest, self.installed, self.offered = {}, {}, set(), set()
        log = incarnation_of(identity.incarnation_key) if identity is not None and self.log else self.log
        self.overlay = self.overlay_type(
            me,
            replace(world.settings, name=self.name),
            Incarnation(log, self.lives, stores=bool(self.log)),
            identity,
            world.rng,
            self.now,
            world.new_index,
        )
        self.overlay.node = self  # type: ignore[attr-defined]
        self.overlay.recall(list(self.memories.values()), self.now)
        for number, filter in self.offers.items():
            self.overlay.advertise(number, filter)
        for number, filter in self.wants.items():
            self.overlay.announce_filter(number, filter, durable=number in self.durable)
        self.settle()
        for pipe in world.pipes:
            if self in pipe.ends and pipe.up:
                world.join(pipe)

    def start_again(self) -> None:
        if self.overlay is None:
            self.start()

    def stop(self) -> None:
        """Kill the process with SIGKILL."""
        assert self.overlay is not None
        world = self.world
        overlay, self.overlay = self.overlay, None
        world.truth.change()
        world.note(Kind.STOPPED, self)
        self.paused = False
        self.held.clear()
        for pipe in world.pipes:
            if self in pipe.ends:
                other = pipe.ends[self is pipe.ends[0]]
                if not pipe.silent:
                    world.timeline.after(0.0, lambda other=other, me=overlay.me: other.down(me))  # type: ignore[misc]

    def down(self, broker: int) -> None:
        if self.paused:
            self.held.append(lambda: self.down(broker))
        elif self.overlay is not None:
            self.world.note(Kind.LINK_DOWN, self, self.world.number(broker))
            self.overlay.link_down(broker, self.now)
            self.settle()

    @property
    def now(self) -> float:
        return self.world.timeline.now

    def hear(self, pipe: Pipe, data: bytes | Frame, life: int) -> None:
        if self.overlay is None or self.lives != life:
            return
        if self.paused:
            self.held.append(lambda: self.hear(pipe, data, life))
            return
        other = pipe.ends[self is pipe.ends[0]]
        frames: Sequence[Frame] = ()
        if isinstance(data, bytes):
            self.decoder.feed(data)
            frames = self.decoder.take()
        else:
            frames = (data,)
        for frame in frames:
            sender = self.world.spoken_by(pipe, other)
            if sender is not None and isinstance(frame, (ControlFrame, Forward)):
                self.overlay.receive(sender, frame, self.now)
                self.carry_out_now()
        self.settle()

    def carry_out_now(self) -> None:
        """Carry out what there is without settling."""
        assert self.overlay is not None
        self.overlay.due_at = self.overlay._next_deadline()
        outputs = self.overlay.outputs[:]
        self.overlay.outputs.clear()
        for output in outputs:
            self.carry(output)

    def carry_out(self) -> None:
        while self.overlay is not None and self.overlay.pending:
            for output in self.overlay.take_outputs(self.now):
                self.carry(output)

    def carry(self, output: out.Output) -> None:
        world = self.world
        if isinstance(output, out.EventCopy):
            link, frame, tree, delay_us, flags, path, to, _ = output
            self.forward(link, frame, tree, delay_us, flags, path, to)
        elif isinstance(output, ReceivedEvent):
            root = world.number(output.root)
            world.note(Kind.RECEIVED, self, root, output.position, output.frame.publisher, output.frame.sequence)
            self.arrived_(output)
        elif isinstance(output, out.SendFrame):
            self.send(*output)
        elif isinstance(output, out.RelayFrame):
            self.relay(*output)
        elif isinstance(output, out.Acked):
            for position, kept in output.events:
                home, at = kept.party or (output.destination, position)
                world.note(Kind.TAKEN, self, world.number(home), at)
                self.taken(home, at)
        elif isinstance(output, out.Lost):
            world.note(Kind.GIVEN_UP, self, world.number(output.destination), output.position)
            self.lost(*output)
        elif isinstance(output, out.DeliveryOutcome):
            home = world.number(output.source)
            world.note(Kind.OUTCOME, self, home, output.position, output.matched, bool(output.code))
            self.outcome(output.source, output.position, output.matched, output.code)
        elif isinstance(output, out.Installed):
            world.note(Kind.INSTALLED, self, output.number)
            self.installed_(output.number)
        elif isinstance(output, out.Advertised):
            world.note(Kind.ADVERTISED, self, output.number)
            self.offered_(output.number)
        elif isinstance(output, out.StoreDocument):
            self.remember(*output)
        elif isinstance(output, out.CloseLink):
            world.note(Kind.CLOSED, self, output.link)
            self.close(*output)
        elif isinstance(output, out.ExpelBroker):
            world.note(Kind.EXPELLED, self, output.link)
            self.expel(*output)
        elif isinstance(output, out.LogRemark):
            self.remark(output.text)

    def settle(self) -> None:
        if self.overlay is None or self.paused:
            return
        self.carry_out()
        self.wake()

    def wake(self) -> None:
        assert self.overlay is not None
        due = max(self.overlay.due_at, self.now)
        if due < self.due or self.due <= self.now:
            self.due = due
            life = self.lives
            self.world.timeline.at(due + 1e-6, lambda: self.ring(life))

    def ring(self, life: int) -> None:
        if self.overlay is None or self.lives != life or self.paused or self.now < self.due:
            return  # it was put off, or is not what it was
        if self.overlay.due_at <= self.now:
            self.overlay.tick(self.now)
            self.carry_out()
        self.due = self.now
        self.wake()

    def resume(self) -> None:
        self.world.truth.change()
        self.world.note(Kind.RESUMED, self)
        self.paused = False
        held, self.held = self.held, []
        for happen in held:
            happen()
        if self.overlay is not None:
            self.overlay.tick(self.now)
            self.carry_out()
            self.due = self.now
            self.wake()

    # --- what its clients do ------------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter, *, durable: bool = False) -> None:
        self.numbers += 1
        self.wants[self.numbers] = filter
        if durable:
            self.durable.add(self.numbers)
        if self.overlay is not None:
            self.overlay.announce_filter(self.numbers, filter, durable=durable)
            self.settle()

    def unsubscribe(self, number: int) -> None:
        del self.wants[number]
        self.installed.discard(number)
        if self.overlay is not None:
            self.overlay.withdraw_filter(number)
            self.settle()

    def advertise(self, filter: Filter) -> None:
        self.numbers += 1
        self.offers[self.numbers] = filter
        if self.overlay is not None:
            self.overlay.advertise(self.numbers, filter)
            self.settle()

    def withdraw(self, number: int) -> None:
        del self.offers[number]
        self.offered.discard(number)
        if self.overlay is not None:
            self.overlay.withdraw(number)
            self.settle()

    def publish(self, attributes: Attributes) -> None:
        overlay = self.overlay
        if overlay is None or self.paused:
            return
        offers = [n for n, f in self.offers.items() if n in self.offered and f.matches(attributes)]
        if not offers:
            return
        world = self.world
        self.sequence += 1
        event = Event(attributes, b"x" * 20, self.publisher, self.sequence, 0)
        frame = Publish(Confirm.NONE, encode_block(event))
        owed = []
        for node in world.nodes:
            wants = [n for n, f in node.wants.items() if n in node.installed and f.matches(attributes)]
            if node is not self and node.overlay is not None and wants and world.owes(self, node, offers, wants):
                owed.append((node, node.lives))
        homes = overlay.destinations(frame)
        named = overlay.publish(frame, homes, 0, 0, self.now) if homes else []
        parties = [(home, position) for home, position, _ in named]
        to = [number for home, position in parties for number in (world.number(home), position)]
        world.note(Kind.PUBLISHED, self, self.publisher, self.sequence, *to)
        self.published(frame, parties)
        allowed = frozenset((world.ids[home], world.lives[home]) for home in homes)
        missing = [node.name for node, life in owed if (node, life) not in allowed]
        if missing:
            world.complain(f"I1: {self.name} does not know the interest of {missing} in {attributes}")
        world.said[self.publisher, self.sequence] = Said(
            attributes, frame.block, self.now, self, self.lives, tuple(owed), allowed
        )
        self.settle()

    def published(self, frame: EventFrame, parties: list[tuple[int, int]]) -> None:
        """Record the destinations of an event that this broker published."""
