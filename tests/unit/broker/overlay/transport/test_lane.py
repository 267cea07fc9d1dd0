"""A lane over a path with a bandwidth and a delay: it stays busy, and little is on its way at any time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

import pytest
from copies import copy

from plait_broker.overlay.topology.transit_delay import MARK_S
from plait_broker.overlay.transport.lane import Lane
from plait_broker.overlay.transport.lane_window import QUEUE_S, START_BYTES, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN

TURN_S = 0.0005
"""How often events are offered."""


@dataclass
class Path:
    """A lane whose bytes go through a queue of one bandwidth, and whose neighbour echoes as a broker does."""

    bytes_per_s: float
    delay_s: float
    size: int = 1100
    offered: float = 1.6
    """Share of the bandwidth."""
    stall_s: float = 0.0
    """The neighbour takes up to this long for a turn of its loop."""
    lane: Lane = field(default_factory=lambda: Lane(0.0))
    now: float = 0.0
    transit_s: list[tuple[float, float]] = field(default_factory=list)
    """When each event arrived, and how long it was on its way."""

    def __post_init__(self) -> None:
        self._rng = Random(1)
        self._timeline: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()
        self._free_at = 0.0
        self._marked_at = -math.inf
        self._offered = 0
        self._stamp = (0, False)
        self._echoed = self._stamp
        self._since = 0
        self._news = self._turn = False
        self._at(0.0, self._offer)

    def run(self, until: float) -> None:
        """Run until a time."""
        while self._timeline[0][0] <= until:
            self.now, _, act, arguments = heappop(self._timeline)
            act(*arguments)
        self.now = until

    def share(self, since: float) -> float:
        """Return the share of the bandwidth that was used since a time."""
        return sum(at > since for at, _ in self.transit_s) * self.size / self.bytes_per_s / (self.now - since)

    def transit(self, since: float, share: float) -> float:
        """Return a percentile of the time on the way since a time."""
        found = sorted(transit_s for at, transit_s in self.transit_s if at > since)
        return found[int(share * (len(found) - 1))]

    def _at(self, at: float, act: Callable[..., None], *arguments: Any) -> None:
        heappush(self._timeline, (at, next(self._numbers), act, arguments))

    def _offer(self) -> None:
        while self._offered < self.now * self.offered * self.bytes_per_s / self.size:
            self._offered += 1
            self.lane.queue.add(copy(self._offered), self.now)
        self._write()
        self._at(self.now + TURN_S, self._offer)

    def _write(self) -> None:
        lane, copies, most = self.lane, 0, self.lane.room
        while lane.queue and copies * self.size < most:
            lane.queue.remove(1)
            copies += 1
        if copies and self.now >= self._marked_at + MARK_S:
            self._marked_at = self.now
            self._send(14, self._stamped, lane.stamp(self.now))
        if copies:
            lane.wrote(copies * self.size, copies, self.now)
            if lane.queue or not lane.room:
                lane.window.limited()
            for _ in range(copies):
                self._send(self.size, self._arrived, self.now)
        if lane.stamp_due:
            self._send(14, self._stamped, lane.stamp(self.now))

    def _send(self, size: int, arrive: Callable[..., None], *arguments: Any) -> None:
        self._free_at = max(self._free_at, self.now) + size / self.bytes_per_s
        self._at(self._free_at + self.delay_s, arrive, *arguments)

    def _stamped(self, stamp: tuple[int, bool]) -> None:
        self._stamp, self._since = stamp, 0
        self._maybe_echo()

    def _arrived(self, written_at: float) -> None:
        self.transit_s.append((self.now, self.now - written_at))
        self._since += 1
        self._news = True
        self._maybe_echo()

    def _maybe_echo(self) -> None:
        if self._news and not self._turn and (self._stamp[1] or self._stamp is not self._echoed):
            self._turn = True
            self._at(self.now + self.stall_s * self._rng.random(), self._echo)

    def _echo(self) -> None:
        self._turn = self._news = False
        self._echoed = self._stamp
        self._at(self.now + self.delay_s, self._answered, self._stamp[0], self._since)

    def _answered(self, at_us: int, since: int) -> None:
        assert self.lane.echoed(at_us, since, self.now)
        self._write()


@pytest.mark.parametrize(
    ("bytes_per_s", "delay_s", "size"),
    [
        (125e3, 0.0, 1100),
        (125e3, 0.02, 1100),
        (125e3, 0.02, 135),
        (125e3, 0.1, 1100),
        (1.25e6, 0.02, 1100),
        (12.5e6, 0.0005, 9000),
        (12.5e6, 0.05, 36000),
    ],
)
def test_a_full_lane_is_busy_and_a_control_frame_waits_little(bytes_per_s: float, delay_s: float, size: int) -> None:
    path = Path(bytes_per_s, delay_s, size)
    path.run(10.0)
    assert path.share(since=3.0) >= 0.95
    bare_s = delay_s + size / bytes_per_s
    assert path.transit(since=3.0, share=0.5) <= bare_s + QUEUE_S + size / bytes_per_s
    assert path.transit(since=3.0, share=0.99) <= 2 * bare_s + QUEUE_S


def test_a_neighbour_that_stalls_at_times_does_not_leave_the_lane_idle() -> None:
    path = Path(12.5e6, 0.02, 36000, stall_s=0.02)
    path.run(8.0)
    assert path.share(since=2.0) >= 0.8


def test_a_lane_with_little_traffic_never_waits() -> None:
    path = Path(12.5e6, 0.02, 9000, offered=0.5)
    path.run(3.0)
    assert path.lane.queue.items == 0
    assert path.transit(since=1.0, share=1.0) <= 0.02 + QUEUE_S / 2


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_the_window_follows_a_bandwidth_that_changes(factor: float) -> None:
    path = Path(1.25e6, 0.01, 4000, offered=1.6)
    path.run(5.0)
    path.bytes_per_s *= factor
    path.offered /= min(factor, 1.0)
    path.run(25.0)
    assert path.share(since=10.0) >= 0.9
    assert path.transit(since=10.0, share=0.5) <= 0.01 + 1.5 * max(QUEUE_S, 2 * path.size / path.bytes_per_s)


def test_the_window_follows_a_path_that_becomes_longer() -> None:
    path = Path(1.25e6, 0.005, 4000)
    path.run(5.0)
    path.delay_s = 0.1
    path.run(25.0)
    assert path.share(since=10.0) >= 0.9


def test_one_copy_of_any_size_may_be_on_its_way() -> None:
    lane = Lane(0.0)
    lane.stamp(0.0)
    lane.wrote(10 * WINDOW_BYTES_MAX, 1, 0.0)
    assert lane.room == 0
    assert lane.echoed(lane.stamp(0.1)[0], 0, 0.2)
    assert lane.room > 0


def test_a_stamp_says_that_the_lane_waits_once() -> None:
    lane = Lane(0.0)
    assert lane.stamp(0.0) == (1, False)
    assert not lane.stamp_due
    lane.wrote(START_BYTES, 1, 0.0)
    assert lane.stamp_due
    assert lane.stamp(0.0) == (2, True), "stamps differ although the time does not"
    assert not lane.stamp_due


def test_echoes_count_what_has_arrived() -> None:
    lane = Lane(0.0)
    first, _ = lane.stamp(0.0)
    lane.wrote(1000, 10, 0.0)
    lane.wrote(500, 5, 0.5)
    assert lane.echoed(first, 4, 0.6)
    assert lane.in_flight == 1100
    assert lane.echoed(first, 12, 0.7)
    assert lane.in_flight == 300
    assert lane.progress_at == 0.7
    assert lane.echoed(first, 12, 0.8), "nothing new"
    assert (lane.in_flight, lane.progress_at) == (300, 0.7)
    assert lane.echoed(lane.stamp(0.9)[0], 0, 1.0)
    assert lane.in_flight == 0


def test_the_capacity_counts_the_bytes_of_events_that_differ_in_size() -> None:
    lane = Lane(0.0)
    for turn in range(100):
        now = 0.05 * turn
        stamp, _ = lane.stamp(now)
        lane.wrote(1_000, 10, now)
        lane.wrote(16_000, 1, now + 0.01)
        assert lane.echoed(stamp, 11, now + 0.04)
    assert lane.window.capacity == pytest.approx(17_000 / 0.05, rel=0.01)


def test_an_echo_of_what_was_not_sent_is_noticed() -> None:
    lane = Lane(0.0)
    first, _ = lane.stamp(0.0)
    lane.wrote(100, 1, 0.0)
    assert not lane.echoed(first + 1, 0, 0.1), "no such stamp"
    assert not lane.echoed(first, 2, 0.1), "no such event"
    assert lane.in_flight == 0, "what was sent has arrived"
    second, _ = lane.stamp(0.2)
    assert lane.echoed(second, 0, 0.3)
    assert lane.echoed(first, 0, 0.4), "an old echo says nothing"
    assert lane.echoed(first, 1, 0.4)


def test_the_window_never_leaves_its_bounds() -> None:
    path = Path(1e3, 0.0, 900, offered=3.0)
    path.run(30.0)
    assert WINDOW_BYTES_MIN <= path.lane.window.size <= WINDOW_BYTES_MAX
