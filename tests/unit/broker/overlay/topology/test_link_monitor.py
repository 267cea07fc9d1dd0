"""The link monitor: an overloaded machine neither floods noise nor loses links because it has stalled itself."""

from __future__ import annotations

from random import Random

from plait_broker.overlay import Overlay
from plait_broker.overlay.settings import Incarnation, OverlaySettings
from plait_broker.overlay.topology.link_monitor import FLOODS_BURST, FLOODS_PER_S, JOIN_S
from plait_broker.overlay.topology.neighbours import CAPACITY_AGAIN_S
from plait_broker.overlay.transport.lane_window import START_BYTES
from plait_core.wire import Ping, Pong

ME, OTHER, LINK = 1, 2, 7


class Monitored:
    """A broker with one link, whose pings are answered after `delay_s`, or never."""

    def __init__(self, capacity: int = 0) -> None:
        settings = OverlaySettings(name="b1", link_capacity=capacity)
        self.overlay = Overlay(ME, settings, Incarnation(), None, Random(1), 0.0)
        self.overlay.link_up(LINK, OTHER, "b2", 0.0)
        self.pings: list[int] = []

    def tick(self, now: float) -> None:
        self.overlay.tick(now)
        while self.overlay.pending:
            for output in self.overlay.take_outputs(now):
                frame = getattr(output, "frame", None)
                if isinstance(frame, Ping):
                    self.pings.append(frame.nonce)

    def answer(self, sent_at: float, delay_s: float) -> None:
        """Answer all pings, the last of them sent at this time."""
        for nonce in self.pings:
            self.overlay.receive(OTHER, Pong(nonce), sent_at + delay_s)
        self.pings.clear()

    def run(self, since: int, until: int, *capacities: float) -> None:
        """Let the lane have these capacities in turn, one in each second. The delay stays the same."""
        for second in range(since, until):
            if capacities:
                capacity = self.overlay.neighbours[OTHER].lane.figures.capacity
                capacity.bytes_per_s = capacities[second % len(capacities)]
                capacity.measured_s += 1.0
            for now in (second, second + 0.5):
                self.tick(now)
                self.answer(now, 0.002)

    @property
    def capacities(self) -> tuple[int, ...]:
        return self.overlay.map.known[ME].capacities

    @property
    def linked(self) -> bool:
        return OTHER in self.overlay.neighbours

    @property
    def version(self) -> int:
        return self.overlay.map.known[ME].version


def test_a_delay_that_changes_all_the_time_floods_at_a_bounded_rate() -> None:
    monitored = Monitored()
    seconds = 120
    for beat in range(2 * seconds):
        now = beat / 2
        monitored.tick(now)
        monitored.answer(now, 0.001 if beat // 4 % 2 else 0.200)
    before_and_after = monitored.version
    assert 10 < before_and_after <= FLOODS_BURST + FLOODS_PER_S * seconds + 2, "the first delay floods in any case"


def test_a_change_that_lasts_floods_at_once() -> None:
    monitored = Monitored()
    for beat in range(40):
        monitored.tick(beat / 2)
        monitored.answer(beat / 2, 0.002 if beat < 20 else 0.050)
    flooded_us = dict(zip(*((known := monitored.overlay.map.known[ME]).neighbours, known.delays_us), strict=True))
    assert flooded_us[OTHER] > 20_000


def test_a_measured_capacity_floods_and_noise_does_not() -> None:
    monitored = Monitored()
    monitored.run(0, 5)
    assert monitored.capacities == (), "it is unknown until the lane is full"
    monitored.run(5, 6, 20_000.0)
    assert monitored.capacities == (), "the first figure is often too low"
    monitored.run(6, 8, 100_000.0)
    assert monitored.capacities == (100_000,)
    version, later = monitored.version, 8 + 4 * int(CAPACITY_AGAIN_S)
    monitored.run(8, later, 80_000.0, 120_000.0)
    assert monitored.version == version
    monitored.run(later, later + 2, 50_000.0)
    assert monitored.capacities == (50_000,)


def test_a_capacity_that_changes_all_the_time_floods_every_half_minute_at_most() -> None:
    monitored = Monitored()
    monitored.run(0, 5)
    version, seconds = monitored.version, 300
    monitored.run(5, 5 + seconds, 100_000.0, 500_000.0)
    assert 2 <= monitored.version - version <= 1 + seconds / CAPACITY_AGAIN_S


def test_a_configured_capacity_goes_before_what_is_measured() -> None:
    monitored = Monitored(capacity=125_000)
    monitored.run(0, 5)
    version = monitored.version
    monitored.run(5, 60, 50_000.0, 400_000.0)
    assert (monitored.capacities, monitored.version) == ((125_000,), version)


def test_a_stall_of_this_process_is_no_silence_of_its_neighbour() -> None:
    monitored = Monitored()
    for now in (0.0, 0.5, 1.0):
        monitored.tick(now)
    monitored.tick(3.2)
    assert monitored.linked, "answers may have come while this process did not run"
    for beat in range(8):
        monitored.tick(3.7 + beat / 2)
    assert not monitored.linked, "none has come since"


def test_a_link_whose_neighbour_acknowledges_no_event_is_closed_and_named() -> None:
    monitored = Monitored()
    lane = monitored.overlay.neighbours[OTHER].lane
    lane.wrote(100, 1, 0.0)
    monitored.run(0, 60)
    assert monitored.linked, "a lane with room awaits no echo"
    lane.wrote(2 * START_BYTES, 1, 60.0)
    assert lane.stamp(60.0)[1], "now it waits for one"
    monitored.run(60, 72)
    assert monitored.linked
    monitored.run(72, 74)
    assert not monitored.linked
    assert "acknowledged no event" in monitored.overlay.links_lost[OTHER]
    assert monitored.overlay.counts["links_mute"] == 1


def test_a_link_whose_events_arrive_slowly_stays() -> None:
    monitored = Monitored()
    lane = monitored.overlay.neighbours[OTHER].lane
    for second in range(0, 100, 5):
        monitored.run(second, second + 5)
        lane.wrote(100, 1, second + 5.0)
        assert lane.echoed(lane.stamp(second + 5.0)[0], 0, second + 5.0)
        lane.wrote(2 * START_BYTES, 1, second + 5.0)
        lane.stamp(second + 5.0)
    assert monitored.linked


def test_a_silent_neighbour_is_dead_after_the_bound() -> None:
    monitored = Monitored()
    for beat in range(6):
        monitored.tick(beat / 2)
    assert monitored.linked
    monitored.tick(3.0)
    assert not monitored.linked


def test_links_that_come_up_one_after_the_other_flood_together() -> None:
    overlay = Overlay(ME, OverlaySettings(name="b1"), Incarnation(), None, Random(1), 0.0)
    overlay.tick(0.0)
    versions, now = [], 0.0
    for other in range(2, 8):
        now += JOIN_S / 100
        overlay.link_up(10 + other, other, f"b{other}", now)
        (ping,) = [
            frame for output in overlay.take_outputs(now) if isinstance(frame := getattr(output, "frame", None), Ping)
        ]
        overlay.receive(other, Pong(ping.nonce), now + 0.001)
        versions.append(overlay.map.known[ME].version)
    while overlay.pending:
        overlay.take_outputs(now)
    assert set(versions) == {versions[0]}, "the first link floods at once"
    assert overlay.map.known[ME].neighbours == (2,)
    assert now < overlay.due_at <= 2 * JOIN_S, "the others wait for their time"
    overlay.tick(overlay.due_at)
    assert overlay.map.known[ME].version == versions[0] + 1
    assert overlay.map.known[ME].neighbours == tuple(range(2, 8))
    overlay.link_down(4, 2 * JOIN_S)
    assert overlay.map.known[ME].neighbours == (2, 3, 5, 6, 7), "a lost link does not wait"
