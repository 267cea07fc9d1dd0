"""The figures of a full lane are those of its link, and those of an idle lane name no capacity."""

from __future__ import annotations

from functools import cache

import pytest

from plait_broker.overlay.topology.neighbours import Neighbour
from plait_lab.simulation.overlay.worlds.full_lanes import DELAY_S, LANE_BYTES_PER_S, FullLane

LOAD_S = 20.0


@cache
def loaded(load: float) -> FullLane:
    lane = FullLane()
    lane.measure(load, LOAD_S)
    return lane


def sender(lane: FullLane) -> Neighbour:
    """Return the receiver as its sender knows it."""
    return neighbour(lane, 1, 2)


def neighbour(lane: FullLane, of: int, broker: int) -> Neighbour:
    nodes = lane.world.nodes
    return nodes[of].overlay.neighbours[nodes[broker].overlay.me]


def test_the_capacity_of_a_full_lane_is_that_of_its_link() -> None:
    measured = sender(loaded(1.6)).lane.figures.capacity.bytes_per_s
    assert measured == pytest.approx(LANE_BYTES_PER_S, rel=0.05)
    assert sender(loaded(0.8)).lane.figures.capacity.bytes_per_s == 0.0


def test_a_full_lane_shows_what_waits_and_for_how_long() -> None:
    figures, now = sender(loaded(1.6)).lane.figures, loaded(1.6).world.now
    assert figures.is_full(now)
    assert figures.peak(10, now).bytes > 0.5 * LANE_BYTES_PER_S
    assert figures.utilisation(now) == pytest.approx(1.0, abs=0.1)
    half = figures.waits.percentile_us(0.5)
    assert half is not None
    assert half > 500_000, "what waits is the work of a second"


def test_a_lane_below_its_capacity_is_not_full() -> None:
    figures, now = sender(loaded(0.8)).lane.figures, loaded(0.8).world.now
    assert not figures.is_full(now)
    assert figures.utilisation(now) is None
    assert figures.peak(10, now).events == 0


def test_both_ends_measure_the_delay_of_events() -> None:
    for load in (0.8, 1.6):
        sent, received = sender(loaded(load)).lane.figures.round_trips, neighbour(loaded(load), 2, 1).arrivals
        assert sum(sent.counts.values()) == sum(received.counts.values()) > 1_000
        assert received.base_us >= DELAY_S * 1e6
        near, far = sent.percentile_us(0.99), received.percentile_us(0.99)
        assert near is not None
        assert far is not None
        assert DELAY_S * 1e6 < far < near, "a round trip has both directions"


def test_the_lane_to_a_full_one_is_not_full() -> None:
    world = loaded(1.6).world
    assert not neighbour(loaded(1.6), 0, 1).lane.figures.is_full(world.now)
