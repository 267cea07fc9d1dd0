"""Processes of peers on virtual time, with links that take five milliseconds: nodes, sessions and their records."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from random import Random

import numpy as np

from plait_core.events import Event
from plait_core.space import Schema
from plait_core.telemetry import RecordKind, record_dtype
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    Confirm,
    ControlFrame,
    Deliver,
    FrameDecoder,
    Hello,
    Role,
    encode_block,
    encode_frame,
    encode_publish,
)
from plait_core.wire.frame_types.session_frames import Acknowledge, Advertise, Late, Subscribe
from plait_peer.event_records import PeerTelemetry
from plait_peer.group import Group
from plait_peer.node import Node
from plait_peer.periodic_samples import Sampler
from plait_peer.sdk.session import SdkSession
from plait_peer.server import LIVE, WRITE_BUFFER_BYTES
from plait_telemetry.telemetry import TelemetrySettings

WALL_US = 1_790_000_000_000_000
LINK_S = 0.005


@dataclass
class Process:
    """One process with an application."""

    name: str
    node: Node
    session: SdkSession
    telemetry: PeerTelemetry
    sampler: Sampler
    publisher: int
    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    received: dict[int, list[int]] = field(default_factory=dict)
    """By subscription, the number n of each event that the application received."""
    sequence: int = 0

    def say(self, frame: ControlFrame, now: float) -> None:
        self.session.receive(encode_frame(frame, VERSION_MAX), now)

    def listen(self, now: float) -> None:
        """Let the application read its deliveries, and acknowledge those that await it."""
        acks: list[Acknowledge] = []
        self.decoder.feed(self.session.take())
        while frames := self.decoder.take():
            for frame in frames:
                if isinstance(frame, Deliver):
                    n = frame.attributes()["n"]
                    assert isinstance(n, int)
                    for subscription, _, position in frame.deliveries:
                        self.received.setdefault(subscription, []).append(n)
                        if position:
                            acks.append(Acknowledge(subscription, (position,)))
        for ack in acks:
            self.say(ack, now)

    def records(self, *kinds: RecordKind) -> np.ndarray:
        """Return the telemetry records of some kinds, or all."""
        ring = self.telemetry.ring
        found = np.frombuffer(ring.copy(0, ring.written), record_dtype())
        return found[np.isin(found["kind"], kinds)] if kinds else found


class Processes:
    """Processes of one group; all join at the first."""

    def __init__(self, *names: str, space: Schema | None = None) -> None:
        self.now = 100.0
        self._rng = Random(7)
        self._wires: dict[tuple[int, int], tuple[int, int]] = {}
        self._on_the_way: list[tuple[float, int, int, int, bytes]] = []
        """A heap of arrivals: time, order, process, link, bytes."""
        self._order = 0
        self._made = 0
        self.silent: set[str] = set()
        """Processes whose links accept no bytes."""
        self.bytes_per_s: dict[str, float] = {}
        """What each link of a process carries outwards; without an entry any amount."""
        self._free_at: dict[tuple[int, int], float] = {}
        """When such a link has carried what it has accepted."""
        self.dead: set[str] = set()
        self._group = Group(space=space)
        self.all = [self._process(name, 1 + at) for at, name in enumerate(names)]
        for process in self.all[1:]:
            process.node.link_table.dial(self.all[0].node.address)

    def _process(self, name: str, publisher: int) -> Process:
        telemetry = PeerTelemetry(TelemetrySettings(), WALL_US)
        node = Node(self._group, f"{name}:1", self._rng, LIVE, now=self.now, telemetry=telemetry)
        session = SdkSession(node, name)
        process = Process(name, node, session, telemetry, Sampler(node, name, telemetry, lambda: [session]), publisher)
        session.receive(
            encode_frame(Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, name, publisher), 0),
            self.now,
        )
        process.decoder.feed(session.take())
        process.decoder.take()
        process.decoder.establish(VERSION_MAX)
        return process

    def subscribe(
        self, process: Process, subscription: int, filter: str, within_us: int = 0, late: Late = Late.DROP
    ) -> None:
        process.say(Subscribe(subscription, subscription, filter, within_us, late), self.now)

    def advertise(self, process: Process) -> None:
        process.say(Advertise(900, 1, "true"), self.now)

    def event_of(self, process: Process, n: int) -> Event:
        """Return the next event of a process."""
        process.sequence += 1
        published_us = int(self.now * 1e6) + WALL_US
        return Event({"n": n}, publisher=process.publisher, sequence=process.sequence, published_us=published_us)

    def block_of(self, process: Process, n: int) -> bytes:
        """Return the next event as peers forward it."""
        return encode_block(self.event_of(process, n))

    def publish(self, process: Process, *ns: int) -> None:
        """Publish events that are read in one batch."""
        events = [self.event_of(process, n) for n in ns]
        process.session.receive(b"".join(encode_publish(event, Confirm.NONE) for event in events), self.now)

    def run(self, seconds: float) -> None:
        """Advance the time."""
        end = self.now + seconds
        looks = 0.0
        while self.now < end:
            self._carry()
            self.now += LINK_S / 2
            while self._on_the_way and self._on_the_way[0][0] <= self.now:
                _, _, at, link, data = heapq.heappop(self._on_the_way)
                self.all[at].node.received(link, data, self.now)
            for process in self.alive:
                if process.node.next_deadline() <= self.now:
                    process.node.tick(self.now)
                if self.now >= looks:
                    process.session.tick(self.now)
                process.listen(self.now)
            if self.now >= looks:
                looks = self.now + LIVE.period_s

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.all if process.name not in self.dead]

    def kill(self, process: Process) -> None:
        """Stop a process and break its connections."""
        self.dead.add(process.name)
        for link in list(process.node.links):
            self.cut(self.all.index(process), link)

    def sample(self) -> None:
        """Take the samples of one second."""
        for process in self.alive:
            process.sampler.sample(self.now, 1.0, 0)

    def _carry(self) -> None:
        for at, process in enumerate(self.all):
            for dial in process.node.link_table.take_dials():
                other = next(at for at, each in enumerate(self.all) if each.node.address == dial.address)
                if self.all[other].name in self.dead:
                    process.node.unreachable(dial.address, self.now)
                    continue
                self._made += 1
                self._wires[at, self._made] = other, self._made
                self._wires[other, self._made] = at, self._made
                process.node.connected(self._made, dial.address, self.now)
                self.all[other].node.connected(self._made, "", self.now)
            process.node.link_table.take_writable()
            for id, link in process.node.links.items():
                while link.size and self._accepts(at, id):
                    self._write(at, id, link.take())
            for id in process.node.link_table.take_closing():
                self.cut(at, id)

    def _accepts(self, at: int, link: int) -> bool:
        """Return whether a link accepts bytes now. A slow one buffers as much as a live connection does."""
        name = self.all[at].name
        buffered_s = self._free_at.get((at, link), 0.0) - self.now
        return name not in self.silent and buffered_s * self.bytes_per_s.get(name, 0.0) < WRITE_BUFFER_BYTES

    def _write(self, at: int, link: int, data: bytes) -> None:
        """Put bytes on a link. They arrive as they are carried, a kilobyte at a time if it is slow."""
        rate = self.bytes_per_s.get(self.all[at].name, 0.0)
        pieces = [data[start : start + 1024] for start in range(0, len(data), 1024)] if rate else [data]
        for piece in pieces:
            carried = max(self._free_at.get((at, link), 0.0), self.now) + (len(piece) / rate if rate else 0.0)
            self._free_at[at, link] = carried
            self._order += 1
            heapq.heappush(self._on_the_way, (carried + LINK_S, self._order, *self._wires[at, link], piece))

    def cut(self, at: int, link: int) -> None:
        """Break a connection at both ends."""
        other, same = self._wires.pop((at, link))
        self.all[at].node.disconnected(link, self.now)
        self.all[other].node.disconnected(same, self.now)
