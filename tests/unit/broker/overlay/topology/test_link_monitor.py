"""The link monitor: an overloaded machine neither floods noise nor loses links because it has stalled itself."""

from __future__ import annotations

from random import Random

from plait_broker.overlay import Overlay
from plait_broker.overlay.settings import Incarnation, OverlaySettings
from plait_broker.overlay.topology.link_monitor import FLOODS_BURST, FLOODS_PER_S
from plait_core.wire import Ping, Pong

ME, OTHER, LINK = 1, 2, 7


class Monitored:
    """A broker with one link, whose pings are answered after `delay_s`, or never."""

    def __init__(self) -> None:
        self.overlay = Overlay(ME, OverlaySettings(name="b1"), Incarnation(), None, Random(1), 0.0)
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


def test_a_stall_of_this_process_is_no_silence_of_its_neighbour() -> None:
    monitored = Monitored()
    for now in (0.0, 0.5, 1.0):
        monitored.tick(now)
    monitored.tick(3.2)
    assert monitored.linked, "answers may have come while this process did not run"
    for beat in range(8):
        monitored.tick(3.7 + beat / 2)
    assert not monitored.linked, "none has come since"


def test_a_silent_neighbour_is_dead_after_the_bound() -> None:
    monitored = Monitored()
    for beat in range(6):
        monitored.tick(beat / 2)
    assert monitored.linked
    monitored.tick(3.0)
    assert not monitored.linked
