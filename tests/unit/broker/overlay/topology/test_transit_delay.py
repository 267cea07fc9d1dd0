"""Transit delays of a link, estimated from the neighbour's clock stamps and from answers to pings."""

from __future__ import annotations

from random import Random

import pytest

from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.overlay.topology.transit_delay import MARK_S, SPAN_S, SPANS, TransitDelay
from plait_core.events import U64_MAX
from plait_core.wire.frame_types.overlay_frames import ClockStamp, StreamAck
from plait_lab.simulation.overlay.held_connection import HELD, HeldConnection, running_broker
from plait_lab.simulation.overlay.wire_tap import decode
from plait_lab.simulation.overlay.world import World, linked_world

THEIRS_US = 7_000_000_000_000
"""Time on the other clock when ours reads 0."""


class Way:
    """A link whose delay the test sets, between two independent clocks."""

    def __init__(self, drift: float = 0.0) -> None:
        self.transit = TransitDelay(0.0)
        self.drift = drift
        self.now = 0.0

    def mark(self, sent_s: float, link_s: float) -> int:
        """Send a frame with a clock stamp and return the transit delay estimated on arrival."""
        self.now = sent_s + link_s
        self.transit.mark(THEIRS_US + round(sent_s * (1 + self.drift) * 1e6), self.now)
        return self.transit.us(self.now)

    def beat(self, from_s: float, until_s: float, link_s: float = 0.001) -> None:
        """Ping twice a second; each answer begins with a clock stamp."""
        at = from_s
        while at < until_s:
            self.mark(at + link_s, link_s)
            self.transit.answered(link_s * 1e6, self.now)
            at += 0.5


def test_before_anything_is_known_nothing_is_added() -> None:
    way = Way()
    assert way.transit.us(5.0) == 0
    assert way.mark(5.0, 0.3) == 0, "one mark alone says nothing"
    assert way.mark(5.1, 0.35) == pytest.approx(50_000, abs=2)


def test_without_marks_it_is_half_the_shortest_round_trip() -> None:
    transit = TransitDelay(0.0)
    for half_us in (900.0, 400.0, 750_000.0):
        transit.answered(half_us, 1.5)
    assert transit.us(99.0) == 400


def test_what_comes_long_after_its_mark_was_under_way_for_longer() -> None:
    way = Way()
    way.beat(0.0, 3.0)
    assert way.mark(3.0, 0.001) == 1000
    assert way.transit.us(way.now + MARK_S) == 1000, "as old a mark may be when something is written"
    assert way.transit.us(way.now + 0.3) == pytest.approx(1000 + (0.3 - MARK_S) * 1e6, abs=2)


def test_a_standstill_longer_than_all_that_is_remembered_is_still_told() -> None:
    way = Way()
    way.beat(0.0, 5.0)
    lasts_s = 3 * SPAN_S * SPANS
    assert way.mark(5.0, lasts_s) == pytest.approx(1000 + (lasts_s - 0.001) * 1e6, abs=2)
    way.transit.answered(lasts_s * 1e6 / 2, way.now)
    assert way.mark(way.now, 0.001) == pytest.approx(1000, abs=2), "and nothing of it afterwards"


@pytest.mark.parametrize("drift", [-100e-6, 100e-6])
def test_clocks_that_drift_apart_add_a_millisecond_at_most(drift: float) -> None:
    way = Way(drift)
    way.beat(0.0, 600.0)
    assert way.mark(600.0, 0.001) == pytest.approx(1000, abs=1100)


def test_a_clock_that_is_set_back_or_forth_adds_nothing() -> None:
    way = Way()
    way.beat(0.0, 5.0)
    for at_us in (0, THEIRS_US, U64_MAX, 3, THEIRS_US * 2, 0):
        way.transit.mark(at_us, way.now)
        assert 0 <= way.transit.us(way.now) <= 1000


@pytest.mark.parametrize("seed", range(20))
def test_whatever_a_neighbour_says_its_own_link_alone_is_slower_and_not_for_longer_than_it_said_so(seed: int) -> None:
    rng, transit, now = Random(seed), TransitDelay(0.0), 0.0
    for _ in range(500):
        now += rng.choice((0.0, 0.001, 0.5))
        if rng.random() < 0.3:
            transit.answered(rng.choice((1.0, 1000.0, now * 500_000)), now)
        else:
            transit.mark(rng.choice((0, U64_MAX, rng.getrandbits(64), round(now * 1e6))), now)
        assert 0 <= transit.us(now) <= now * 1e6 + now * 500_000 + 1


def test_a_neighbour_keeps_what_it_measures_and_what_events_are_charged_apart() -> None:
    neighbour = Neighbour(2, "b", 0, 0.0)
    for beat, round_trip_s in enumerate((0.002, 0.002, 1.5)):
        neighbour.ping(beat, 10.0 * beat)
        neighbour.pong(beat, 10.0 * beat + round_trip_s)
    assert neighbour.delay_us > 100_000, "routes may flee from it"
    assert neighbour.transit.us(30.0) == 1000


def test_marks_are_few_and_the_first_comes_after_the_introduction() -> None:
    world = World("marks", brokers=0, terms=HELD)
    wire = HeldConnection(world, running_broker(world, "a"), running_broker(world, "b")).open()
    assert wire.up, "a mark before the introduction would have ended it"
    world.run(0.8)  # the link is measured, and nothing is sent before the next heartbeat
    before = len(wire.written[0])
    near, far = (end.overlay for end in wire.ends)
    for number in range(1000):
        wire.brokers[0].tick(world.now)
        near.unicast.send(StreamAck(far.me, near.me, number), world.now)
        near.pending = True
        wire.ends[0].act()
        world.run(0.001)
    assert wire.up
    found = marks(wire.written[0][before:])
    assert 1 / MARK_S / 2 < len(found) <= 1 / MARK_S + 1
    assert found == sorted(found)
    assert found[0] == pytest.approx(800_000, abs=5), "the first frame after a silence is a mark"


def test_marks_are_for_brokers_alone() -> None:
    world = linked_world({(0, 1): 0.001})
    client = world.connected_client(0)
    connection = client.connection
    client.write(ClockStamp(U64_MAX))
    world.run(1.0)
    assert client.connection is not connection, "its broker has closed it"
    assert "ClockStamp" in world.nodes[0].closed[connection.ids[1]]
    assert len(world.broker(0).broker_connections) == 1


def marks(data: list[bytes]) -> list[int]:
    return [frame.at_us for frame in decode(b"".join(data)) if isinstance(frame, ClockStamp)]
