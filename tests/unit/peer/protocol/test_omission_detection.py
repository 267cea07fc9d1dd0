"""Parents that omit events, and parents whose events wait for a full link: only the first are blamed."""

from __future__ import annotations

from peer_bench import Bench, profile

from plait_core.wire.frame_types.peer_frames import Beat, Profile
from plait_peer.protocol.omission_detection import LATE_PERIODS_MAX, WAIT_PERIODS

PARENT = 2
PUBLISHER = 50


def announcement(version: int, *numbers: int) -> Profile:
    places = ("01",) * len(numbers)
    return profile(PUBLISHER, "", bound=0.0, version=version, recent_numbers=numbers, recent_dz=places)


class Child(Bench):
    """A subscriber whose parent is another subscriber."""

    def __init__(self) -> None:
        super().__init__("01")
        self.gossip(announcement(1, 1))
        self.adopt(profile(PARENT, "01", delay=1.0), "01", sources={PUBLISHER: 1.0})
        self.live(10)
        self.version = 1
        self.announce(2)  # later announcements are of events since then

    def live(self, periods: int, *, number: int = 0) -> None:
        """Pass periods in which the parent answers. From `number` on, it sends an event in each."""
        for period in range(periods):
            self.periods()
            self.receive(PARENT, Beat(0, (PUBLISHER,), (1.0,)))
            if number:
                self.event(PARENT, "01", number=number + period)

    def announce(self, *numbers: int) -> None:
        self.version += 1
        self.gossip(announcement(self.version, *numbers))

    @property
    def score(self) -> float:
        return self.peer.reputation.score(PARENT)


def test_a_parent_that_forwards_nothing_is_blamed() -> None:
    child = Child()
    child.announce(100)
    child.live(WAIT_PERIODS + 1)
    assert child.score > 0


def test_a_parent_that_left_an_event_out_is_blamed() -> None:
    child = Child()
    child.announce(100)
    child.live(WAIT_PERIODS + 1, number=101)
    assert child.score > 0


def test_a_parent_whose_earlier_events_still_arrive_is_not_blamed() -> None:
    child = Child()
    child.announce(100)
    child.live(97, number=3)
    assert child.score == 0
    assert PARENT in child.peer.parents.by_id
    child.live(10, number=101)
    assert child.score > 0, "100 was left out after all"


def test_a_parent_that_delays_events_for_ever_is_blamed() -> None:
    child = Child()
    child.announce(1000)
    child.live(LATE_PERIODS_MAX + WAIT_PERIODS + 1, number=3)
    assert child.score > 0
