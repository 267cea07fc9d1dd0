"""Thesis Algorithm 1, line by line: pView and pubList, connection management, hints, and cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peer_bench import Bench, profile, settings

from plait_core.wire.frame_types.peer_frames import (
    Accept,
    Beat,
    Connect,
    DetectCycle,
    Disconnect,
    PotentialParent,
    Pulse,
)
from plait_peer import PLAIT, THESIS, ConnectByDelay, ConnectByRequirement, PeerSettings


class RequirementByPoints(ConnectByRequirement):
    """Delay bounds as in the thesis, places as in Plait."""

    competing = ConnectByDelay.competing


BY_POINTS = replace(THESIS, may_connect=RequirementByPoints())


def test_lines_2_to_7_what_has_nothing_in_common_is_left_out() -> None:
    bench = Bench("10")
    bench.gossip(
        profile(2, "1"), profile(3, "100"), profile(4, "0"), profile(5, "", bound=0.0), profile(6, "01", bound=0.0)
    )
    assert set(bench.peer.candidates.subscribers) == {2, 3}  # both a covering and a covered one help to estimate rates
    assert set(bench.peer.candidates.publishers) == {5}


def test_line_8_silent_peers_are_forgotten() -> None:
    bench = Bench("10", with_settings=settings(view_age_max=3))
    bench.gossip(profile(2, "1"), profile(5, "", bound=0.0))
    bench.peer.candidates.subscribers[7] = bench.peer.candidates.subscribers[2]
    bench.periods(3)
    assert 7 in bench.peer.candidates.subscribers
    bench.periods(2)
    assert not bench.peer.candidates.subscribers
    assert not bench.peer.candidates.publishers


def test_an_old_profile_repeated_changes_nothing() -> None:
    bench = Bench("10")
    bench.gossip(profile(2, "1", version=5, delay=9.0))
    bench.gossip(profile(2, "1", version=4, delay=1.0))
    assert bench.peer.candidates.subscribers[2][0].delay == 9.0


def test_lines_12_to_15_a_covering_parent_is_asked_and_leaves_the_view() -> None:
    bench = Bench("10", "110")
    bench.gossip(profile(2, "1", bound=2.0))
    bench.periods()
    ((to, connect),) = bench.take(Connect)
    assert (to, connect.dz) == (2, ("10", "110"))  # all that it covers, at once
    assert 2 not in bench.peer.candidates.subscribers


def test_line_13_nobody_with_a_looser_bound_is_asked() -> None:
    bench = Bench("10", bound=3.0)
    bench.gossip(profile(2, "1", bound=4.0))
    bench.periods(2)
    assert not bench.take(Connect)


def test_section_2_7_by_experience_a_looser_bound_is_no_hindrance() -> None:
    bench = Bench("10", bound=3.0, with_settings=settings(PLAIT))
    bench.gossip(profile(2, "1", bound=9.0, delay=2.0), profile(3, "1", bound=9.0, delay=3.0))
    bench.periods()
    assert [to for to, _ in bench.take(Connect)] == [2]


def test_2_4_3_1_publishers_are_asked_when_no_subscriber_suits() -> None:
    bench = Bench("10")
    bench.gossip(profile(5, "", bound=0.0), profile(6, "100", bound=0.0))
    bench.periods()
    assert {to: frame.dz for to, frame in bench.take(Connect)} == {5: ("10",), 6: ("10",)}


def test_line_17_a_tighter_bound_is_refused_with_a_hint() -> None:
    bench = Bench("1", bound=3.0)
    bench.gossip(profile(2, "1", bound=1.0))
    bench.child(profile(8, "10", bound=2.0))
    ((to, answer),) = bench.take(PotentialParent)
    assert to == 8
    assert answer.refused
    assert [hint.peer for hint in answer.hints] == [2]
    assert not bench.take(Accept)


def test_a_connect_outside_the_subscription_is_refused() -> None:
    bench = Bench("10")
    bench.child(profile(8, "11"))
    assert bench.take(PotentialParent)
    assert not bench.peer.children.by_id


def test_lines_18_and_26_the_acknowledgement_goes_to_who_joins() -> None:
    bench = Bench("1")
    bench.child(profile(8, "10"))
    ((to, accept),) = bench.take(Accept)
    assert (to, accept.dz) == (8, ("10",))


def test_lines_19_to_24_the_most_selective_child_goes_with_a_hint() -> None:
    bench = Bench("1", bound=1.0)
    bench.child(profile(8, "1000", bound=2.0))
    bench.child(profile(9, "11", bound=2.0))
    bench.take(Accept)
    bench.child(profile(10, "10", bound=2.0))
    assert [to for to, _ in bench.take(Disconnect)] == [8]
    ((to, hint),) = bench.take(PotentialParent)
    assert (to, hint.refused, [each.peer for each in hint.hints]) == (8, False, [10])  # F_out is looked through as well
    assert [to for to, _ in bench.take(Accept)] == [10]
    assert set(bench.peer.children.by_id) == {9, 10}


def test_line_20_of_equal_ones_the_loosest_goes() -> None:
    bench = Bench("1", bound=1.0)
    bench.child(profile(8, "100", bound=2.0))
    bench.child(profile(9, "101", bound=5.0))
    bench.child(profile(10, "110", bound=3.0))
    assert set(bench.peer.children.by_id) == {8, 10}


def test_line_25_the_one_who_asks_may_be_the_one_to_go() -> None:
    bench = Bench("1", bound=1.0)
    bench.child(profile(8, "100"))
    bench.child(profile(9, "101"))
    bench.take(Accept)
    bench.child(profile(10, "11111"))
    assert not bench.take(Accept)
    ((to, answer),) = bench.take(PotentialParent)
    assert (to, answer.refused, answer.bar_volume) == (10, True, 0.125)


def test_property_4_in_words_only_children_at_one_point_are_in_each_others_way() -> None:
    bench = Bench("1", bound=1.0, with_settings=settings(BY_POINTS))
    for number, dz in enumerate(("100", "101", "110", "111"), 8):
        bench.child(profile(number, dz))
    assert len(bench.peer.children.by_id) == 4
    bench.child(profile(20, "1"))
    assert len(bench.peer.children.by_id) == 5  # two at every point
    bench.child(profile(21, "11"))
    assert {20, 21} <= set(bench.peer.children.by_id)
    assert len(bench.peer.children.by_id) == 4  # 110 and 111 had to go


def test_the_number_of_children_is_bounded() -> None:
    bench = Bench("", bound=1.0, with_settings=PeerSettings(policies=BY_POINTS, links_max=4))
    for number in range(8):
        bench.child(profile(10 + number, f"{number:03b}"))
    assert len(bench.peer.children.by_id) <= 8
    assert len(bench.peer.children.by_id) <= max(4, bench.peer.state.settings.children_max)


def test_lines_31_to_33_every_point_is_covered_once() -> None:
    bench = Bench("100", "110", bound=3.0)
    bench.adopt(profile(2, "1", bound=2.0), "100", "110")
    bench.peer.parents.connect(3, ("110",), bench.now)
    bench.receive(3, Accept(profile(3, "11", bound=2.0), ("110",), (50,), (1.0,)))
    parents = bench.peer.parents.by_id
    assert {peer: parent.dz for peer, parent in parents.items()} == {2: ("100",), 3: ("110",)}
    assert ("100",) in [frame.dz for to, frame in bench.take(Connect) if to == 2]  # it must send less


def test_an_acknowledgement_that_nobody_asked_for_is_turned_down() -> None:
    bench = Bench("10")
    bench.receive(2, Accept(profile(2, ""), ("10",), (50,), (1.0,)))
    assert not bench.peer.parents.by_id
    assert [to for to, _ in bench.take(Disconnect)] == [2]


def test_lines_34_to_42_a_chase_goes_round_and_parts_the_cycle() -> None:
    bench = Bench("10", bound=3.0)
    bench.child(profile(8, "10", bound=3.0))
    bench.child(profile(9, "10", bound=4.0))
    bench.sent.clear()
    bench.peer.parents.connect(2, ("10",), bench.now)
    bench.receive(2, Accept(profile(2, "10", bound=3.0), ("10",), (), ()))
    assert bench.take(DetectCycle) == [(8, DetectCycle(1, "10", 3.0, 0))]  # not to the child with another bound
    bench.receive(2, DetectCycle(77, "10", 3.0, 4))
    assert bench.take(DetectCycle) == [(8, DetectCycle(77, "10", 3.0, 5))]  # another's goes on
    bench.receive(2, DetectCycle(77, "10", 3.0, 4))
    assert not bench.take(DetectCycle)  # once
    bench.receive(2, DetectCycle(1, "10", 3.0, 5))
    assert 2 not in bench.peer.parents.by_id  # ours has come back
    assert [to for to, _ in bench.take(Disconnect)] == [2]


def test_line_36_a_chase_from_nobody_above_is_not_passed_on() -> None:
    bench = Bench("10", bound=3.0)
    bench.child(profile(8, "10", bound=3.0))
    bench.receive(5, DetectCycle(77, "10", 3.0, 0))
    assert not bench.take(DetectCycle)


@pytest.mark.parametrize("silent", [True, False])
def test_parents_live_as_long_as_they_answer(silent: bool) -> None:
    bench = Bench("10", bound=3.0)
    bench.adopt(profile(2, "1", bound=2.0), "10")
    for _ in range(6):
        bench.periods()
        for to, pulse in bench.take(Pulse):
            if not silent:
                bench.receive(to, Beat(pulse.number, (50,), (1.0,)))
    assert (2 in bench.peer.parents.by_id) is not silent


def test_a_pulse_of_an_unknown_child_is_answered_with_disconnect() -> None:
    bench = Bench("10", bound=3.0)
    bench.receive(8, Pulse(1))
    assert [to for to, _ in bench.take(Disconnect)] == [8]


def test_correction_4_a_planted_line_26_is_caught() -> None:
    """Line 26 as printed sends the ack to q, which is the parent itself. Sending to oneself is refused."""
    bench = Bench("1")
    with pytest.raises(AssertionError, match="a peer sends no frame to itself"):
        bench.peer.state.send(bench.peer.id, Disconnect())
