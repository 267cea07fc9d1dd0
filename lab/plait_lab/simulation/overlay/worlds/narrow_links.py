"""Full links in a random history: narrow bandwidths, bursts of large events, slow brokers, and small streams.

Links are narrow or wide. A burst offers a narrow link more than it carries, so that lanes queue and streams wait. All
bursts of a history together take the narrowest link some seconds, so that everything has arrived at its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import exp, log
from random import Random
from typing import Final

from plait.relay.shaping import WAITING_BYTES_MAX
from plait_broker.overlay.transport.lane_window import START_BYTES
from plait_broker.server.tcp_connection import WRITE_BUFFER_BYTES
from plait_core import Attributes
from plait_core.wire import Confirm
from plait_core.wire.frame_types.connection_frames import PONG

from ..broker_node import OverlayNode
from ..frame_client import FrameClient
from ..network import Link
from ..oracle import LinkOracle
from ..processing import ProcessingTime, exponential
from ..world import World

BYTES_PER_S: Final = (64_000.0, 640_000.0)
"""Least and greatest rate of the narrowest links of a history."""

WIDER: Final = (1, 1, 4, 16)
"""Multiples of it that the rates of links are."""

ASYMMETRIC: Final = 0.3
"""Share of the links whose directions have rates of their own."""

QUEUE_BYTES: Final = (4 << 10, 16 << 10, 64 << 10, WAITING_BYTES_MAX)
"""Bytes that wait in front of a link at most, beyond those in the send buffers."""

WRITE_LIMIT_BYTES: Final = (4 << 10, 16 << 10, WRITE_BUFFER_BYTES)
"""High marks of send buffers. The usual one is hardly ever reached: the window of a lane is smaller."""

EVENT_BYTES: Final = (200, 1_000, 4_000, 16_000)
"""Payloads of the events of a burst."""

BURSTS: Final = (2, 4)
BURST_S: Final = (0.5, 4.0)
"""Number of bursts, and the time that the narrowest link needs for one of them."""

BURST_EVENTS_MAX: Final = 100
"""Events of one burst: more would cost time of the simulator and fill nothing else."""

SPREAD_S: Final = (0.0, 0.0, 0.5, 2.0)
"""Times within which the events of a burst are published."""

SHORT_LIVED: Final = 0.25
LIFETIME_S: Final = (0.2, 2.0)
"""Share of the bursts whose events have a lifetime, and the least and the greatest one. Those that wait too long
expire."""

SMALL: Final = 0.3
STREAM_BYTES: Final = (96 << 10, 256 << 10)
"""Share of the histories in which streams are bounded by so many bytes, so that some drop their oldest events."""

SLOW: Final = 0.25
COPY_S: Final = (0.0001, 0.002)
"""Share of the histories whose brokers take time for what they receive, and the time for a copy."""

FRAME_SHARE: Final = 0.1
"""A control frame takes this share of the time for a copy."""

EVENTS_BEFORE: Final = 2 * BURST_EVENTS_MAX
"""Events that are in front of a control frame at a slow broker at most: a broker reads frames in their order."""

LOOK_S: Final = 0.2
"""Time between two looks at queues."""

BEHIND_BYTES: Final = START_BYTES + 3 * max(EVENT_BYTES)
"""Bytes in front of a control frame on a link at most: a lane's first window, the events that may exceed it or are
written just then, and other control frames."""


class NarrowLinks:
    """The bandwidths of the links of one world, and the bursts that fill them."""

    def __init__(self, world: World, rng: Random, draw_event: Callable[[Random], Attributes], *, faults: bool) -> None:
        """Create it once the links are built, and before the brokers start."""
        self.rate = _between(rng, BYTES_PER_S)
        """The rate of the narrowest links, in bytes/s."""
        self.lanes_queued = self.streams_waited = self.writes_refused = 0
        """How often a lane had a queue, a stream waited for its window, and a connection took nothing."""
        self.slow = rng.random() < SLOW
        self.stream_bytes_max = rng.choice(STREAM_BYTES) if rng.random() < SMALL else 0
        """The bound of all streams; 0 for that of the settings."""
        self._world = world
        self._rng = rng
        self._draw_event = draw_event
        self.oracle = LinkOracle(world.timeline, world.nodes, world.complain, faults=faults)
        world.oracle.is_dropped = self.oracle.is_dropped
        if not faults:  # it decodes all writes, which takes time
            world.wire.on_frame(PONG, self.oracle.see_pong)
        for link in world.network.links:
            self._limit(link)
        for node in world.nodes:
            if self.stream_bytes_max:
                node.on_started.append(self._bound_streams)
            if self.slow:
                copy_s = _between(rng, COPY_S)
                frame_s = FRAME_SHARE * copy_s
                time = ProcessingTime(frame_s=frame_s, event_s=copy_s, copy_s=copy_s, factor=exponential)
                node.set_processing(time)

    def load(self, for_s: float) -> None:
        """Schedule bursts within a time, and look at what they fill."""
        world, rng = self._world, self._rng
        for _ in range(rng.randint(*BURSTS)):
            world.timeline.after(rng.uniform(0, for_s), self.burst)
        for step in range(int(for_s / LOOK_S)):
            world.timeline.after(step * LOOK_S, self._look)

    def burst(self) -> None:
        """Publish events of one kind at one client."""
        rng = self._rng
        attributes, size, spread_s = self._draw_event(rng), rng.choice(EVENT_BYTES), rng.choice(SPREAD_S)
        clients = [client for client in self._world.clients if client.may_publish(attributes)]
        count = min(BURST_EVENTS_MAX, max(1, round(self.rate * _between(rng, BURST_S) / size)))
        lifetime_us = round(1e6 * _between(rng, LIFETIME_S)) if rng.random() < SHORT_LIVED else 0
        confirm = rng.choice(list(Confirm))
        if clients:
            publish = partial(self._publish, rng.choice(clients), attributes, confirm, bytes(size), lifetime_us)
            for _ in range(count):
                self._world.timeline.after(rng.uniform(0, spread_s), publish)

    def _publish(
        self, client: FrameClient, attributes: Attributes, confirm: Confirm, payload: bytes, lifetime_us: int
    ) -> None:
        if client.may_publish(attributes):
            client.publish(attributes, confirm, payload, lifetime_us=lifetime_us)

    def _limit(self, link: Link) -> None:
        rng, network = self._rng, self._world.network
        rates = [self.rate * rng.choice(WIDER)] * 2
        if rng.random() < ASYMMETRIC:
            rates[1] = self.rate * rng.choice(WIDER)
        for end, rate in zip(link.ends, rates, strict=True):
            network.limit_rate(link, rate, end, queue_bytes=rng.choice(QUEUE_BYTES))
        link.write_limit_bytes = rng.choice(WRITE_LIMIT_BYTES)
        link.control_wait_s = BEHIND_BYTES / min(rates)
        if self.slow:
            link.control_wait_s += EVENTS_BEFORE * COPY_S[1]

    def _bound_streams(self, node: OverlayNode) -> None:
        streams = node.overlay.event_streams
        streams.settings = replace(streams.settings, stream_bytes_max=self.stream_bytes_max)

    def _look(self) -> None:
        for node in self._world.nodes:
            if node.broker is not None:
                overlay = node.overlay
                self.lanes_queued += any(one.lane.queue.items > 0 for one in overlay.neighbours.values())
                self.streams_waited += any(one.waiting for one in overlay.event_streams.outgoing.values())
        for link in self._world.network.links:
            self.writes_refused += any(not one.accepts(side) for one in link.connections for side in (0, 1))


def _between(rng: Random, bounds: tuple[float, float]) -> float:
    """Draw a number whose logarithm is uniform between those of two bounds."""
    return exp(rng.uniform(log(bounds[0]), log(bounds[1])))
