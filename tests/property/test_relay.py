"""A stream leaves the relay as it entered, or is known to be torn, under all changing link conditions."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from plait.relay.shaping import IN_FLIGHT_BYTES_MAX, WAITING_BYTES_MAX, FlowShape, Shape, ShapedLane

shapes = st.builds(
    Shape,
    delay_s=st.floats(0, 0.5),
    jitter_s=st.floats(0, 0.5),
    loss=st.floats(0, 0.9),
    bandwidth_bit_s=st.none() | st.floats(1e5, 1e9),
    flow=st.sampled_from([FlowShape.OPEN, FlowShape.OPEN, FlowShape.OPEN, FlowShape.FROZEN]),
)
steps = st.lists(st.tuples(st.floats(0, 0.3), st.none() | shapes | st.integers(0, 20_000)), max_size=60)
"""After a delay: another link condition, bytes, or only a poll."""


def drained(lane: ShapedLane, now: float) -> tuple[bytes, float]:
    """Collect the output at the lane's own deadlines until it is drained, with the time."""
    out = b""
    while (due := lane.next_deadline()) is not None:
        now = max(now, due)
        out += b"".join(lane.take(now))
    return out, now


@given(shapes, steps, st.integers(0, 2**32))
def test_every_byte_once_and_in_order(first: Shape, steps: list[tuple[float, Shape | int | None]], seed: int) -> None:
    chance = random.Random(seed)
    lane, now, given, out = ShapedLane(first, chance.random), 0.0, b"", b""
    for pause_s, step in steps:
        now += pause_s
        if isinstance(step, Shape):
            lane.reshape(step, now)
        elif step is not None and not lane.full:
            data = chance.randbytes(step)
            given += data
            lane.add(data, now)
        out += b"".join(lane.take(now))
        assert given.startswith(out)
        assert lane.held_bytes == len(given) - len(out)
        assert lane.held_bytes <= WAITING_BYTES_MAX + IN_FLIGHT_BYTES_MAX + 20_000
    lane.end()
    lane.reshape(Shape(), now)
    rest, _ = drained(lane, now)
    assert out + rest == given
    assert lane.finished
    assert lane.carried_bytes == len(given)
    assert not lane.has_lost_bytes


open_shapes = shapes.filter(lambda shape: shape.flow is FlowShape.OPEN)


@given(open_shapes, st.lists(st.integers(1, 50_000), max_size=10), st.integers(), st.floats(0.001, 0.1))
def test_polling_a_lane_does_not_change_arrival_times(shape: Shape, sizes: list[int], seed: int, step_s: float) -> None:
    """Polling between deadlines does not change arrival times."""
    arrivals: list[list[float]] = []
    for looks in (False, True):
        lane, now, times = ShapedLane(shape, random.Random(seed).random), 0.0, []
        for number, size in enumerate(sizes):
            lane.add(bytes(size), number * 0.01)
        while (due := lane.next_deadline()) is not None:
            now = max(now, min(due, now + step_s) if looks else due)
            times += [now for _ in lane.take(now)]
        arrivals.append(times)
    assert arrivals[0] == arrivals[1]


@given(st.floats(0.001, 0.5), st.integers(1, 200_000))
def test_nothing_arrives_before_its_delay(delay_s: float, size: int) -> None:
    lane = ShapedLane(Shape(delay_s=delay_s), random.Random(1).random)
    lane.add(bytes(size), 10.0)
    assert not lane.take(10.0 + 0.99 * delay_s)
    assert lane.next_deadline() == 10.0 + delay_s
    assert b"".join(lane.take(10.0 + delay_s)) == bytes(size)


@given(st.floats(1e5, 1e8), st.integers(1, 100_000))
def test_a_bandwidth_takes_its_time(bandwidth: float, size: int) -> None:
    lane = ShapedLane(Shape(bandwidth_bit_s=bandwidth), random.Random(1).random)
    lane.add(bytes(size), 0.0)
    _, last = drained(lane, 0.0)
    assert abs(last - 8 * size / bandwidth) < 1e-6


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_a_dropped_byte_breaks_the_stream(before: int, after: int) -> None:
    lane = ShapedLane(Shape(delay_s=1.0), random.Random(1).random)
    lane.add(bytes(before), 0.0)
    lane.reshape(Shape(flow=FlowShape.LOST), 0.5)
    lane.add(bytes(after), 0.6)
    assert lane.has_lost_bytes
    assert lane.dropped_bytes == before + after
    assert not lane.held_bytes
    assert lane.next_deadline() is None


def test_losses_are_stalls_and_as_many_as_they_should_be() -> None:
    lane = ShapedLane(Shape(delay_s=0.01, loss=0.1), random.Random(1).random)
    for number in range(2000):
        lane.add(bytes(100), number * 100.0)
        drained(lane, number * 100.0)
    assert 170 < lane.stalls < 280, "one in nine: a retransmission may be lost, too"


def test_waiting_bytes_are_sent_at_the_new_bandwidth() -> None:
    lane = ShapedLane(Shape(bandwidth_bit_s=8000), random.Random(1).random)
    lane.add(bytes(100_000), 0.0)
    assert lane.full or lane.held_bytes == 100_000
    lane.reshape(Shape(), 2.0)
    out, last = drained(lane, 2.0)
    assert len(out) > 90_000
    assert last < 4.0
