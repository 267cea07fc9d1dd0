"""Full lanes, which are offered more than they carry: their events, their control frames, and the lanes beside them.

    bare = FullLane().measure(load=0.0)                # what keepalives and subscriptions take without events
    full = FullLane().measure(load=1.6)
    assert full.links_dead == 0
    assert full.ping_s <= CONTROL_RATIO * bare.ping_s + CONTROL_S
    assert LanesBeside().measure(load=1.6) <= BESIDE_RATIO * LanesBeside().measure(load=0.0)

The publisher publishes without confirmation and at a fixed rate, however full its broker is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from typing import Final

from plait_broker.overlay.outputs import Output, SendFrame
from plait_core import Attributes
from plait_core.events import EventId
from plait_core.wire import Deliver, Delivery, Forward, Frame, Ping, Pong
from plait_core.wire.frame_header import FORWARD
from plait_core.wire.frame_types.connection_frames import PONG

from ..broker_node import OverlayNode
from ..frame_client import FrameClient, FrameSubscription
from ..network import Link, LinkConnection
from ..wire_tap import decode, pieces
from ..world import World

LANE_BYTES_PER_S: Final = 125_000.0
"""A megabit per second."""

DELAY_S: Final = 0.01
"""Delay of a link with a bandwidth."""

NEAR_S: Final = 0.001
"""Delay of a link without one."""

BEGIN_S: Final = 8.0
"""Time in which all brokers know each other, their links are measured, and interest is installed."""

LOAD_S: Final = 60.0
"""Time for which events are offered."""

DRAIN_S: Final = 60.0
"""Longest time after it until the rest has arrived: an offer of 1.6 times the capacity leaves 36 s of work."""

PAYLOAD_BYTES: Final = 1_000

SUBSCRIBE_EVERY_S: Final = 5.0
"""Time between two subscriptions whose interest crosses the full lane."""

LOOK_S: Final = 0.001
"""Time between two looks whether they are installed."""

BESIDE_S: Final = 30.0
"""Time for which lanes beside a full one are measured."""

BESIDE_PER_S: Final = 20.0
"""Events a second over each lane beside the full one."""

LOADS: Final = (1.2, 1.6)
"""Offers to a full lane, in multiples of its capacity. The targets below hold for each."""

COPIES_MAX: Final = 1.05
GOODPUT_MIN: Final = 0.9
CONTROL_RATIO: Final = 2.0
CONTROL_S: Final = 0.02
"""The delay of control frames on a full lane may be this multiple of that on a bare lane, and this much more."""

BESIDE_RATIO: Final = 1.2
"""The p99 on the lanes beside a full one may be this multiple of that beside an idle one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneReport:
    """The measurements of a full lane."""

    published: int
    delivered: int
    """Events delivered until the end."""
    links_dead: int
    """Links that a broker has declared dead."""
    copies: float
    """Copies that the lane was given for an event, on average."""
    goodput: float
    """Share of the lane's capacity that carried the first copies of delivered events, while events were offered."""
    ping_s: float
    """99th percentile of the time from a ping over the lane until its receiver answers; inf: it answers none."""
    subscribe_s: float
    """Longest time from a subscription whose interest crosses the lane until it is installed, or until the end."""


class FullLane:
    """0 - 1 = 2: a client of broker 0 publishes to one of broker 2. The link between 1 and 2 has a bandwidth. Another
    client of broker 0 subscribes to what is advertised at broker 2, so its interest crosses the full lane."""

    def __init__(self, bytes_per_s: float = LANE_BYTES_PER_S) -> None:
        self.bytes_per_s = bytes_per_s
        world = self.world = World("full lane", brokers=3)
        world.link(0, 1, NEAR_S)
        self.link = world.link(1, 2, DELAY_S, bytes_per_s=bytes_per_s)
        self._sender = world.nodes[1]
        self._copies: dict[EventId, int] = {}
        self._copy_bytes = 0
        self._delivered: dict[EventId, float] = {}
        self._pings: dict[int, float] = {}
        """Unanswered pings of the lane's sender."""
        self._ping_s: list[float] = []
        self._asked: dict[FrameSubscription, float] = {}
        self._subscribe_s: list[float] = []
        self._sender.on_output.append(self._see_output)
        world.wire.see_writes(self._see_write)
        world.wire.on_frame(PONG, self._see_pong)
        world.on_delivered.append(self._see_delivery)

    def measure(self, load: float, for_s: float = LOAD_S) -> LaneReport:
        """Offer events at this multiple of the lane's capacity for a while, and let the rest arrive."""
        world = self.world
        world.start()
        publisher, subscriber, asking, asked = (world.client(broker) for broker in (0, 2, 0, 2))
        publisher.advertise("x >= 0")
        subscriber.subscribe("x >= 0")
        asked.advertise("y >= 0")
        world.run(BEGIN_S)
        assert world.ready, "all is installed"
        publisher.publish({"x": 0}, payload=bytes(PAYLOAD_BYTES))  # shows the bytes of a copy
        world.run(1.0)
        for seen in (self._copies, self._delivered, self._pings, self._ping_s):
            seen.clear()
        before = len(world.events)
        offer(world, publisher, {"x": 1}, load * self.bytes_per_s / self._copy_bytes, for_s)
        for number in range(int(for_s / SUBSCRIBE_EVERY_S)):
            world.timeline.after((number + 0.5) * SUBSCRIBE_EVERY_S, partial(self._subscribe, asking, number))
        world.run(for_s)
        published, in_time, ping_s = len(world.events) - before, len(self._delivered), p99(self._ping_s)
        world.run_until(lambda: len(self._delivered) == published, DRAIN_S)
        assert not world.complaints, world.complaints[0]
        return LaneReport(
            published=published,
            delivered=len(self._delivered),
            links_dead=sum(node.overlay.counts["links_dead"] for node in world.nodes),
            copies=sum(self._copies.values()) / max(1, len(self._copies)),
            goodput=in_time * self._copy_bytes / (self.bytes_per_s * for_s),
            ping_s=ping_s,
            subscribe_s=max([*self._subscribe_s, *(world.now - at for at in self._asked.values())]),
        )

    def _subscribe(self, client: FrameClient, number: int) -> None:
        self._asked[client.subscribe(f"y == {number}")] = self.world.now
        if len(self._asked) == 1:
            self._look()

    def _look(self) -> None:
        for subscription, at in list(self._asked.items()):
            if subscription.installed:
                self._subscribe_s.append(self.world.now - at)
                del self._asked[subscription]
        if self._asked:
            self.world.timeline.after(LOOK_S, self._look)

    def _see_output(self, node: OverlayNode, output: Output) -> None:
        if isinstance(output, SendFrame) and isinstance(output.frame, Ping):
            self._pings[output.frame.nonce] = self.world.now

    def _see_pong(self, link: Link, node: OverlayNode, frame: Frame) -> None:
        if link is self.link and isinstance(frame, Pong) and frame.nonce in self._pings:
            self._ping_s.append(self.world.now - self._pings.pop(frame.nonce))

    def _see_write(self, connection: LinkConnection, side: int, data: bytes) -> None:
        if connection.link is self.link and connection.ends[side] is self._sender:
            for version, number, piece in pieces(data):
                if number == FORWARD:
                    (copy,) = decode(piece, version)
                    assert isinstance(copy, Forward)
                    self._copies[copy.id] = self._copies.get(copy.id, 0) + 1
                    self._copy_bytes = len(piece)

    def _see_delivery(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        self._delivered.setdefault(frame.id, self.world.now)


class LanesBeside:
    """A star: clients of broker 0 publish to clients of four others over links with a bandwidth. One lane is full."""

    def __init__(self, bytes_per_s: float = LANE_BYTES_PER_S) -> None:
        self.bytes_per_s = bytes_per_s
        self.world = World("lanes beside", brokers=5)
        for leaf in range(1, 5):
            self.world.link(0, leaf, DELAY_S, bytes_per_s=bytes_per_s)
        self._delays_s: list[float] = []
        self.world.on_delivered.append(self._see_delivery)

    def measure(self, load: float, for_s: float = BESIDE_S) -> float:
        """Offer events to one leaf at this multiple of its lane's capacity, and few to the others. Return the 99th
        percentile of the delays at the others."""
        world = self.world
        world.start()
        publishers = [world.client(0) for _ in range(4)]
        for leaf, publisher in enumerate(publishers, start=1):
            publisher.advertise(f"leaf == {leaf}")
            world.client(leaf).subscribe(f"leaf == {leaf}")
        world.run(BEGIN_S)
        assert world.ready, "all is installed"
        full, *beside = publishers
        offer(world, full, {"leaf": 1}, load * self.bytes_per_s / PAYLOAD_BYTES, for_s)
        for leaf, publisher in enumerate(beside, start=2):
            offer(world, publisher, {"leaf": leaf}, BESIDE_PER_S, for_s)
        world.run(for_s + 1.0)
        return p99(self._delays_s)

    def _see_delivery(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        if subscription.client.node.number > 1:
            at = next(event.at for event in reversed(self.world.events) if event.id == frame.id)
            self._delays_s.append(self.world.now - at)


def offer(world: World, client: FrameClient, attributes: Attributes, per_s: float, for_s: float) -> None:
    """Publish at a fixed rate for a while, without confirmation."""
    end = world.now + for_s

    def publish() -> None:
        if world.now < end:
            client.publish(attributes, payload=bytes(PAYLOAD_BYTES))
            world.timeline.after(1 / per_s, publish)

    if per_s:
        world.timeline.after(1 / per_s, publish)


def p99(values: list[float]) -> float:
    """Return the 99th percentile: the least value that 99% of them do not exceed. Without values it is infinite."""
    return sorted(values)[ceil(0.99 * len(values)) - 1] if values else inf
