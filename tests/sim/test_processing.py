"""Simulated brokers with processing time: one frame after the other, timers in between, and true ages of events."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from plait_broker.overlay.topology.transit_delay import MARK_S
from plait_core.events import Event, EventId
from plait_core.wire import Deliver, Delivery, Ping, Pong, encode_publish
from plait_core.wire.frame_types.connection_frames import PING
from plait_lab.simulation.overlay.bandwidth import RECEIVE_BUFFER_BYTES
from plait_lab.simulation.overlay.broker_node import OverlayNode
from plait_lab.simulation.overlay.frame_client import CLIENT_DELAY_S, FrameClient, FrameSubscription, PublishedEvent
from plait_lab.simulation.overlay.network import Link
from plait_lab.simulation.overlay.processing import InputQueue, ProcessingTime, exponential
from plait_lab.simulation.overlay.world import World
from plait_lab.simulation.timeline import Timeline

FRAME_S = 0.1


def busy_world(time: ProcessingTime, *, brokers: int = 1) -> tuple[World, FrameClient]:
    """A chain of brokers. The first one is slow, and it has a connected client."""
    world = World("processing", brokers=brokers)
    for near in range(brokers - 1):
        world.link(near, near + 1, 0.001)
    world.nodes[0].set_processing(time)
    world.start()
    client = world.connected_client(0)
    world.run(2.0)
    return world, client


def pong_times(world: World, client: FrameClient, for_s: float) -> list[float]:
    """Return when the client gets answers to its pings, from now on."""
    begun, times, seen = world.now, list[float](), len(client.heard(Pong))
    while world.now < begun + for_s:
        world.run(0.001)
        pongs = len(client.heard(Pong))
        times += [world.now - begun] * (pongs - seen)
        seen = pongs
    return times


def test_frames_are_processed_one_after_the_other() -> None:
    world, client = busy_world(ProcessingTime(frame_s=FRAME_S))
    client.write(Ping(1), Ping(2), Ping(3))
    assert pong_times(world, client, 1.0) == pytest.approx([FRAME_S, 2 * FRAME_S, 3 * FRAME_S], abs=0.002)


def test_kinds_and_sizes_of_frames_take_times_of_their_own() -> None:
    time = ProcessingTime(frame_s=1.0, event_s=10.0, copy_s=100.0, byte_s=0.001)
    event = encode_publish(Event({"x": 1}, b"payload", 1, 1))
    assert time.draw(event, Random(1)) == pytest.approx(11.0 + 0.001 * len(event))
    drawn = [ProcessingTime(frame_s=1.0, factor=exponential).draw(event, Random(seed)) for seed in range(1_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(1.0, rel=0.1)


def test_a_frame_in_parts_is_processed_when_it_is_complete() -> None:
    inputs = InputQueue(Timeline(), Random(1), lambda: None)
    inputs.time = ProcessingTime()
    frames = [encode_publish(Event({"x": x}, b"payload", 1, 1)) for x in range(3)]
    data = b"".join(frames)
    for size in (1, 7, len(frames[0]), 1_000):
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        assert [frame for part in parts for frame in inputs.split(1, part)] == frames
    assert inputs.split(2, frames[0][:-1]) == []
    inputs.forget(2)
    assert inputs.split(2, frames[0]) == [frames[0]]


def test_timers_do_not_wait_for_all_frames() -> None:
    world, client = busy_world(ProcessingTime(frame_s=FRAME_S), brokers=2)
    pings: list[float] = []

    def see(link: Link, node: OverlayNode, frame: object) -> None:
        if node is world.nodes[0]:
            pings.append(world.now)

    world.wire.on_frame(PING, see)
    client.write(*(Ping(nonce) for nonce in range(100)))
    settings = world.nodes[0].overlay.settings
    heartbeat_s = settings.heartbeat_s
    world.run(settings.detect_s - heartbeat_s)  # then the link is dead: answers wait behind the client's frames
    assert len(pings) >= 4
    assert all(later - earlier <= heartbeat_s + FRAME_S + 0.001 for earlier, later in pairwise(pings))


def test_a_pause_holds_the_frame_that_is_processed() -> None:
    world, client = busy_world(ProcessingTime(frame_s=FRAME_S))
    client.write(Ping(1), Ping(2))
    world.run(FRAME_S / 2)
    world.nodes[0].pause()
    assert not pong_times(world, client, 1.0)
    world.nodes[0].resume()
    assert pong_times(world, client, 1.0) == pytest.approx([0.0, FRAME_S], abs=0.002)


def test_a_killed_broker_processes_nothing_of_its_former_life() -> None:
    world, client = busy_world(ProcessingTime(frame_s=FRAME_S))
    client.write(*(Ping(nonce) for nonce in range(10)))
    world.run(FRAME_S / 2)
    world.nodes[0].kill()
    world.nodes[0].start()
    client.frames.clear()
    world.run(3.0)
    assert client.welcome is not None
    assert not client.heard(Pong)


@pytest.mark.parametrize("paused", [False, True])
def test_a_broker_that_reads_too_slowly_stops_its_writer(paused: bool) -> None:
    world, client = busy_world(ProcessingTime(frame_s=FRAME_S))
    world.network.limit_rate(client.link, 1e6)
    if paused:
        world.nodes[0].pause()
    frame = encode_publish(Event({"x": 1}, bytes(10_000), client.publisher, 1))
    client.write_bytes(frame * 100)
    world.run(2.0)
    assert client.connection is not None
    assert client.connection.unread_bytes[1] == pytest.approx(RECEIVE_BUFFER_BYTES, abs=2 * len(frame))
    assert client.link.bottlenecks[client.number].waiting_bytes > 50 * len(frame)
    world.nodes[0].resume()
    world.run(20.0)
    assert client.connection.unread_bytes[1] == 0
    assert client.link.bottlenecks[client.number].waiting_bytes == 0


# --- ages -------------------------------------------------------------------------------------------------------------

HOPS = 2
FEW_S = 0.001
"""Error of a claimed delay besides MARK_S for each hop: the least frames of both directions differ by some bytes."""

SERVICE = ProcessingTime(frame_s=0.0001, copy_s=0.009, factor=exponential)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("bytes_per_s", "time"),
    [(125_000.0, None), (None, SERVICE), (125_000.0, SERVICE)],
    ids=["bandwidth", "processing", "both"],
)
def test_events_state_their_true_age(bytes_per_s: float | None, time: ProcessingTime | None, seed: int) -> None:
    """In a chain of three, bursts of events wait for links and for brokers. In between, pings find both idle."""
    world = World(seed, brokers=3)
    for near in range(2):
        world.link(near, near + 1, 0.001, bytes_per_s=bytes_per_s)
    for node in world.nodes[1:]:
        node.set_processing(time)
    world.start()
    publisher, subscriber = world.client(0), world.client(2)
    publisher.advertise("x >= 0")
    subscriber.subscribe("x >= 0")
    world.run(10.0)
    assert world.ready
    sent_at: dict[EventId, float] = {}
    ages: list[tuple[float, float]] = []

    def publish(event: PublishedEvent) -> None:  # it may wait in the lane before it is written
        sent_at[event.id] = world.now

    def deliver(subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        ages.append((frame.delay_us / 1e6, world.now - CLIENT_DELAY_S - sent_at[frame.id]))

    world.on_published.append(publish)
    world.on_delivered.append(deliver)
    for _ in range(20):
        for _ in range(30):
            publisher.publish({"x": 1}, payload=bytes(1_000))
        world.run(2.0)
    assert len(ages) == len(world.events)
    assert max(true_s for _, true_s in ages) > 0.25, "they had to wait"
    for claimed_s, true_s in ages:
        assert abs(claimed_s - true_s) <= HOPS * MARK_S + FEW_S
    assert not world.complaints
