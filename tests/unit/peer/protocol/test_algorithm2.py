"""Thesis Algorithm 2: events, down as usual, and up when they enter below the top; their delays; no duplicates."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from peer_bench import Bench, profile, settings

from plait_core.wire.frame_types.peer_frames import Accept, Connect, Disconnect, PeerEvent
from plait_peer import PLAIT, MeasuredDelay


def connected(bound: float = 3.0) -> Bench:
    """Peer 1 for `1`, with parent 2, and children 8 for `10` and 9 for `11`."""
    bench = Bench("1", bound=bound)
    bench.adopt(profile(2, "", bound=2.0), "1", sources={50: 1.0})
    bench.child(profile(8, "10", bound=4.0))
    bench.child(profile(9, "11", bound=4.0))
    bench.sent.clear()
    return bench


def test_lines_9_to_11_forward_to_the_matching_children() -> None:
    bench = connected()
    bench.event(2, "101")
    assert [(to, event.delay, event.hops) for to, event in bench.take(PeerEvent)] == [(8, 2.0, 2)]
    assert [event.dz for event in bench.delivered] == ["101"]


def test_line_5_delays_accumulate() -> None:
    bench = connected()
    bench.event(2, "101", delay=1.0)
    assert bench.delivered[0].delay == 2.0


def test_an_event_is_taken_once() -> None:
    bench = connected()
    bench.event(2, "101")
    bench.event(2, "101")
    assert len(bench.delivered) == 1
    assert bench.peer.counters.duplicates == 1


def test_lines_6_to_8_from_a_child_it_goes_up_and_down() -> None:
    bench = connected()
    bench.event(8, "101", publisher=60)
    assert [to for to, _ in bench.take(PeerEvent)] == [2]  # and not back to 8
    bench.event(8, "111", publisher=60, number=2)
    assert [to for to, _ in bench.take(PeerEvent)] == [2, 9]


def test_lines_6_to_8_from_a_publisher_that_only_we_know_it_goes_up_and_down() -> None:
    bench = connected()
    bench.adopt(profile(60, "", bound=0.0), "1", sources={60: 0.0})
    bench.event(60, "101", publisher=60, delay=0.0)
    assert [to for to, _ in bench.take(PeerEvent)] == [2, 8]


def test_events_from_a_parent_are_not_forwarded_up() -> None:
    bench = connected()
    bench.event(8, "101", publisher=50)
    assert [to for to, _ in bench.take(PeerEvent)] == []


def test_lines_2_to_4_the_topmost_meets_the_publisher() -> None:
    bench = Bench("1", bound=3.0)
    bench.adopt(profile(50, "", bound=0.0), "1", sources={50: 0.0})
    bench.child(profile(8, "10", bound=4.0))
    bench.gossip(profile(60, "", bound=0.0))
    bench.sent.clear()
    bench.event(8, "101", publisher=60)
    assert [(to, connect.dz) for to, connect in bench.take(Connect)] == [(60, ("1",))]


def test_2_4_4_a_publisher_that_the_parent_passes_on_is_left() -> None:
    bench = Bench("1", bound=3.0)
    bench.adopt(profile(60, "", bound=0.0), "1", sources={60: 0.0})
    bench.adopt(profile(2, "", bound=2.0), "1", sources={60: 1.0})
    bench.periods()
    assert set(bench.peer.parents.by_id) == {2}
    assert 60 in [to for to, _ in bench.take(Disconnect)]


def test_2_4_4_a_parent_whose_events_are_too_late_is_left() -> None:
    bench = connected(bound=3.0)
    bench.event(2, "101", delay=2.0)
    assert 2 in bench.peer.parents.by_id
    bench.event(2, "101", delay=3.0, number=2)
    assert 2 not in bench.peer.parents.by_id
    assert 2 not in bench.peer.candidates.subscribers


def test_property_1_nothing_outside_the_subscription_is_delivered_or_passed_on() -> None:
    bench = connected()
    bench.event(2, "001")
    assert not bench.delivered
    assert not bench.take(PeerEvent)
    assert bench.peer.counters.outside == 1


def test_events_of_unconnected_peers_are_dropped() -> None:
    bench = connected()
    bench.event(66, "101")
    assert not bench.delivered
    assert bench.peer.reputation.score(66) > 0


def test_false_positives_are_counted_and_kept_from_the_application() -> None:
    bench = Bench("101", bound=3.0)
    bench.peer.state.dz = ("1",)
    bench.adopt(profile(2, "", bound=2.0), "1", sources={50: 1.0})
    bench.event(2, "110")
    assert not bench.delivered
    assert bench.peer.counters.false_positives == 1


def test_section_2_7_a_parent_that_announces_too_long_a_delay_is_left() -> None:
    bench = Bench("1", bound=3.0, with_settings=settings(PLAIT))
    bench.adopt(profile(2, "", bound=9.0, delay=1.0), "1", sources={50: 1.0})
    bench.peer.parents.by_id[2].sources = {50: 2.0}
    bench.periods()
    assert 2 in bench.peer.parents.by_id
    bench.peer.parents.by_id[2].sources = {50: 3.0}
    bench.periods()
    assert 2 not in bench.peer.parents.by_id


def measured(bound: float, delay: float, link_s: float) -> Bench:
    """Return a peer with a parent: events reach the parent after `delay`, and the link to it takes `link_s`."""
    bench = Bench("1", bound=bound, with_settings=settings(replace(PLAIT, link_cost=MeasuredDelay())))
    bench.peer.parents.connect(2, ("1",), bench.now)
    bench.now += 2 * link_s
    bench.receive(2, Accept(profile(2, "", bound=9.0, delay=delay), ("1",), (50,), (delay,)))
    return bench


def test_a_link_costs_half_of_a_measured_round_trip() -> None:
    assert measured(1.0, 0.3, 0.1).peer.parents.delay(("1",)) == pytest.approx(0.4)


def test_section_2_7_the_example_with_links_of_5_3_and_2() -> None:
    """s tolerates 5 and q 6; by requirements s is above q, and q too late. By delays q is above s, and both in time."""
    assert 2 in measured(bound=5.0, delay=3.0, link_s=2.0).peer.parents.by_id  # s below q
    assert 2 not in measured(bound=6.0, delay=5.0, link_s=2.0).peer.parents.by_id  # q below s


# --- many at a time, as the live peer takes and gives them ------------------------------------------------------------


def leaf() -> Bench:
    """Return a peer with a parent and no children."""
    bench = Bench("10", bound=8.0)
    bench.gossip(profile(50, "", bound=0.0))
    bench.adopt(profile(2, "10"), "10", sources={50: 1.0})
    return bench


@pytest.mark.parametrize("seed", range(20))
def test_events_that_come_many_at_a_time_are_new_to_the_same_as_those_that_come_one_by_one(seed: int) -> None:
    rng = Random(seed)
    many, single = leaf(), leaf()
    for _ in range(30):
        numbers = [rng.randrange(1, 60) for _ in range(rng.randrange(1, 8))]
        numbers = sorted(set(numbers)) if rng.random() < 0.5 else numbers
        arrived = many.peer.receive_batch(2, 50, numbers, "101", 1.0)
        assert arrived is not None
        before = len(single.delivered)
        for number in numbers:
            single.event(2, "101", number=number)
        got = [number for number, new in zip(numbers, arrived[1] or [True] * len(numbers), strict=True) if new]
        assert got == [event.number for event in single.delivered[before:]]
    assert many.peer.counters.delivered == single.peer.counters.delivered
    assert many.peer.counters.duplicates == single.peer.counters.duplicates
    assert many.peer.rates.total == single.peer.rates.total


def test_the_short_way_is_for_leaves_and_for_events_in_time_alone() -> None:
    bench = leaf()
    assert bench.peer.receive_batch(2, 50, [1], "101", 7.5) is None, "too late: somebody is to blame"
    assert bench.peer.receive_batch(3, 50, [1], "101", 1.0) is None, "not from a parent"
    assert bench.peer.receive_batch(2, 50, [1], "01", 1.0) is None, "not ours"
    bench.child(profile(9, "10", bound=9.0))
    assert bench.peer.receive_batch(2, 50, [1], "101", 1.0) is None, "a child matches it"


def test_publishers_of_one_parent_are_remembered_up_to_a_limit() -> None:
    bench = leaf()
    for publisher in range(1000, 1000 + 2 * bench.peer.state.settings.publishers_max):
        bench.peer.receive_batch(2, publisher, [1], "101", 1.0)
    assert len(bench.peer.dissemination._highest) <= bench.peer.state.settings.publishers_max


def test_a_publisher_sends_a_batch_to_the_matching_children() -> None:
    bench = Bench("", bound=0.0)
    bench.child(profile(8, "10", bound=3.0))
    bench.child(profile(9, "0", bound=3.0))
    assert bench.peer.publish_batch([1, 2, 5], "101") == (8,)
    assert bench.peer.counters.events_sent == 3
    with pytest.raises(AssertionError, match="event numbers must rise"):
        bench.peer.publish_batch([5], "101")
