"""The figures of a lane: delays as base and excess, the capacity, the backlog, and when a lane is full."""

from __future__ import annotations

import pytest

from plait_broker.overlay.transport.lane_figures import (
    CAPACITY_HALF_S,
    DELAYS_S,
    FULL_S,
    MEASURE_S,
    PEAKS,
    SENT_S,
    Capacity,
    ExcessDelays,
    LaneBacklog,
    LaneFigures,
)


def test_a_percentile_is_the_base_plus_an_excess_within_a_bucket() -> None:
    delays = ExcessDelays(0.0)
    assert delays.percentile_us(0.5) is None
    delays.add(40_000, 0, 90, 1.0)
    delays.add(40_000, 5_000, 10, 1.0)
    assert delays.percentile_us(0.5) == 40_000
    above = delays.percentile_us(0.99)
    assert above is not None
    assert 45_000 <= above <= 40_000 + 5_000 * 2 ** (1 / 8) + 1


def test_delays_are_those_of_the_last_minutes() -> None:
    delays = ExcessDelays(0.0)
    delays.add(0, 1_000_000, 1, 1.0)
    delays.add(0, 0, 2, DELAYS_S)
    assert sum(delays.counts.values()) == 3
    delays.add(0, 0, 4, 2 * DELAYS_S)
    assert sum(delays.counts.values()) == 6
    delays.add(0, 0, 8, 9 * DELAYS_S)
    assert delays.counts == {0: 8}


def deliver(capacity: Capacity, bytes_per_s: float, since: float, until: float) -> None:
    """Deliver at a rate, with an echo each ten milliseconds."""
    for step in range(round((until - since) / 0.01)):
        capacity.delivered(round(bytes_per_s * 0.01), since + step * 0.01)


def test_the_capacity_is_the_rate_while_events_wait() -> None:
    capacity = Capacity()
    deliver(capacity, 1e6, 0.0, MEASURE_S / 2)
    assert capacity.bytes_per_s == 0.0, "measured for too short a time"
    deliver(capacity, 1e6, MEASURE_S / 2, 2.0)
    assert capacity.bytes_per_s == pytest.approx(1e6, rel=0.01)


def test_a_pause_is_no_part_of_the_capacity() -> None:
    capacity = Capacity()
    deliver(capacity, 1e6, 0.0, 1.0)
    for second in range(10, 20):
        capacity.interrupt()
        deliver(capacity, 1e6, second, second + MEASURE_S + 0.02)
    assert capacity.bytes_per_s == pytest.approx(1e6, rel=0.01)


def test_the_capacity_follows_a_path_that_becomes_slower_and_outlasts_idle_time() -> None:
    capacity = Capacity()
    deliver(capacity, 1e6, 0.0, 1.0)
    capacity.interrupt()
    deliver(capacity, 1e5, 1e6, 1e6 + 1.0)
    assert capacity.bytes_per_s > 0.9e6, "it was not full in the meantime"
    deliver(capacity, 1e5, 1e6 + 1.0, 1e6 + CAPACITY_HALF_S)
    assert 0.4e6 < capacity.bytes_per_s < 0.6e6
    deliver(capacity, 1e5, 1e6 + CAPACITY_HALF_S, 1e6 + 5 * CAPACITY_HALF_S)
    assert capacity.bytes_per_s == pytest.approx(1e5, rel=0.01)


def test_the_utilisation_is_unknown_without_a_capacity() -> None:
    figures = LaneFigures(0.0)
    for step in range(100):
        figures.wrote(1000, 1, step * 0.1)
    assert figures.utilisation(10.0) is None
    figures.capacity.bytes_per_s = 40_000.0
    assert figures.utilisation(10.0) == pytest.approx(0.25, rel=0.1)
    assert figures.utilisation(100.0) == pytest.approx(0.0, abs=0.01)
    figures.wrote(1_000_000, 1, 200.0)
    assert figures.bytes_per_s(200.0) <= 1_000_000 / SENT_S
    assert figures.utilisation(200.0) == 1.0


def test_the_peak_is_that_of_the_last_seconds_for_every_reader() -> None:
    figures = LaneFigures(0.0)
    figures.backlog_is(7, 7_000, 0.5)
    figures.backlog_is(2, 9_000, 0.6)
    figures.backlog_is(1, 100, 1.5)
    for _ in range(2):
        assert figures.peak(1, 1.7) == LaneBacklog(7, 9_000)
        assert figures.peak(0, 1.7) == LaneBacklog(1, 100)
    figures.backlog_is(0, 0, 1.8)
    assert figures.peak(PEAKS, 5.0) == LaneBacklog(7, 9_000)
    assert figures.peak(PEAKS, 60.0) == LaneBacklog(0, 0)


def test_a_lane_is_full_once_events_have_waited_for_a_while_and_free_as_long_after() -> None:
    figures = LaneFigures(0.0)
    figures.backlog_is(1, 100, 5.0)
    assert not figures.is_full(5.0 + 0.9 * FULL_S)
    assert figures.is_full(5.0 + FULL_S)
    figures.backlog_is(0, 0, 10.0)
    assert figures.is_full(10.0 + 0.9 * FULL_S)
    figures.backlog_is(1, 100, 10.0 + 0.9 * FULL_S)
    assert figures.is_full(10.0 + 0.9 * FULL_S), "the pause was short"
    figures.backlog_is(0, 0, 20.0)
    assert not figures.is_full(20.0 + FULL_S)
    figures.backlog_is(1, 100, 30.0)
    assert not figures.is_full(30.0), "it was free"


def test_a_lane_whose_queue_empties_again_and_again_is_not_full() -> None:
    figures = LaneFigures(0.0)
    for step in range(100):
        figures.backlog_is(5, 500, step * 0.1)
        figures.backlog_is(0, 0, step * 0.1 + 0.05)
        assert not figures.is_full(step * 0.1 + 0.05)


def test_events_that_are_written_at_once_have_waited_for_no_time() -> None:
    figures = LaneFigures(0.0)
    figures.wrote(9_000, 9, 1.0)
    figures.waited(300.0, 1, 1.0)
    figures.wrote(1_000, 1, 1.0)
    assert sum(figures.waits.counts.values()) == figures.events == 10
    assert figures.waits.percentile_us(0.9) == 0.0
    longest = figures.waits.percentile_us(1.0)
    assert longest is not None
    assert 300 <= longest <= 330
