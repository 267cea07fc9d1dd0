"""Thesis Algorithm 3 and 2.5.1: coarser for a better place, finer to save bandwidth, by rates that are measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from peer_bench import Bench, profile, settings

from plait_core.wire.frame_types.peer_frames import Connect, PotentialParent
from plait_peer import THESIS, PlaitParentPolicy, ThesisParentPolicy
from plait_peer.protocol.rates import Rates, aggregated, reports


def publisher(rate: float = 16.0) -> object:
    return profile(50, "", bound=0.0, rates=(rate,))


class WinningCoarser(ThesisParentPolicy):
    """Ranks as in the thesis, coarser sub-spaces as in Plait."""

    undo_after = PlaitParentPolicy.undo_after
    coarser = PlaitParentPolicy.coarser


def refused(kind: type[ThesisParentPolicy], *, false: float, bar: float = 0.25, periods: int = 40) -> Bench:
    """A peer for `1011` that a publisher keeps refusing, since its children have more."""
    bench = Bench("1011", bound=1.0, with_settings=settings(replace(THESIS, parents=kind()), false_share=false))
    for _ in range(periods):
        bench.gossip(publisher())  # type: ignore[arg-type]
        bench.periods()
        for to, connect in bench.take(Connect):
            bench.receive(to, PotentialParent(True, connect.dz, (), bar, 5.0))
    return bench


def test_lines_1_to_3_what_stays_uncovered_is_coarsened_as_far_as_bandwidth_allows() -> None:
    assert refused(ThesisParentPolicy, false=0.0).peer.dz == ("1011",)
    assert refused(ThesisParentPolicy, false=0.07).peer.dz == ("101",)
    assert refused(ThesisParentPolicy, false=0.2).peer.dz == ("10",)


def test_line_2_not_before_its_time() -> None:
    assert refused(ThesisParentPolicy, false=1.0, periods=6).peer.dz == ("1011",)


def test_plait_coarsens_no_further_than_needed_for_a_parent() -> None:
    assert refused(WinningCoarser, false=1.0, bar=0.1, periods=20).peer.dz == ("101",)
    assert refused(WinningCoarser, false=1.0, bar=0.2, periods=20).peer.dz == ("10",)


def test_plait_does_not_coarsen_without_a_gain() -> None:
    assert refused(WinningCoarser, false=0.07, bar=0.25).peer.dz == ("1011",)


def test_plait_undoes_a_useless_coarsening() -> None:
    bench = refused(WinningCoarser, false=1.0, bar=0.1, periods=60)
    assert bench.peer.counters.coarsened >= 1
    assert bench.peer.counters.refined >= 1
    assert bench.peer.dz == ("1011",)


def test_lines_4_to_6_too_many_false_positives_refine_and_send_children_away() -> None:
    bench = Bench("1011", bound=3.0, with_settings=settings(false_share=0.1))
    bench.peer.state.dz = ("10",)
    bench.adopt(profile(2, "", bound=1.0), "10", sources={50: 1.0})
    bench.child(profile(8, "100", bound=4.0))
    number = 0
    for _ in range(8):
        bench.gossip(publisher())  # type: ignore[arg-type]
        for _ in range(4):
            number += 1
            bench.event(2, "1001", number=number)
        bench.peer.parents.by_id[2].last_seen = bench.now
        bench.periods()
    assert bench.peer.counters.refined >= 1
    assert bench.peer.dz in (("101",), ("1011",))
    assert 8 not in bench.peer.children.by_id  # line 6
    assert bench.peer.parents.by_id[2].dz == bench.peer.dz  # the parent keeps serving the refined subscription


def test_within_bandwidth_nothing_is_refined() -> None:
    bench = Bench("1011", bound=3.0, with_settings=settings(false_share=0.5))
    bench.peer.state.dz = ("10",)
    bench.adopt(profile(2, "", bound=1.0), "10", sources={50: 1.0})
    for number in range(1, 10):
        bench.gossip(publisher())  # type: ignore[arg-type]
        bench.event(2, "1001", number=number)
        bench.peer.parents.by_id[2].last_seen = bench.now
        bench.periods()
    assert bench.peer.dz == ("10",)


def test_2_5_1_rates_of_finer_sub_spaces_are_counted() -> None:
    rates = Rates(1.0, 64)
    for _ in range(50):
        for dz in ("1000", "1000", "1010"):
            rates.count(dz, "10", matched=True)
        rates.fade()
    assert rates.of("10") == pytest.approx(3.0, rel=0.15)
    assert rates.of("100") == pytest.approx(2.0, rel=0.15)


def test_2_5_1_the_rate_of_a_coarser_one_is_aggregated_from_what_others_measure() -> None:
    """Sub-space 1 from those of 10 and 11, the example of the thesis."""
    others = [profile(2, "10", rates=(3.0,)), profile(3, "110", "111", rates=(1.0, 0.5)), profile(4, "0", rates=(9.0,))]
    assert aggregated(reports(others, "1"), "1", overall=100.0) == 4.5


def test_2_5_1_what_nobody_measures_is_taken_to_be_average() -> None:
    assert aggregated({"10": 3.0}, "1", overall=8.0) == 3.0 + 2.0


def test_the_subscription_always_covers_the_interest() -> None:
    bench = refused(ThesisParentPolicy, false=1.0)
    with pytest.raises(AssertionError, match="property 2"):
        bench.peer.accuracy._change_subscription(("0",))


def test_new_subscribers_that_know_no_rates_do_not_take_coarser_ones_to_be_free() -> None:
    bench = Bench("1011", bound=1.0, with_settings=settings(false_share=0.0))
    for _ in range(30):
        bench.gossip(profile(50, "", bound=0.0), profile(3, "1010", bound=2.0, rates=(0.0,)))
        bench.periods()
        for to, connect in bench.take(Connect):
            bench.receive(to, PotentialParent(True, connect.dz, (), 0.25, 5.0))
    assert bench.peer.dz == ("1011",)


@pytest.mark.parametrize(("events_per_s_max", "refined"), [(3.0, True), (9.0, False)])
def test_a_declared_bandwidth_is_measured_against_and_obeyed(events_per_s_max: float, refined: bool) -> None:
    """Receive four events a second, mostly false positives. Their share is allowed, but a limit of 3 is exceeded."""
    declared = settings(false_share=1.0, events_per_s_max=events_per_s_max)
    bench = Bench("1011", bound=3.0, with_settings=declared)
    bench.peer.state.dz = ("10",)
    bench.adopt(profile(2, "", bound=1.0), "10", sources={50: 1.0})
    for number in range(1, 41):
        bench.gossip(publisher())  # type: ignore[arg-type]
        bench.event(2, "1001" if number % 4 else "1011", number=number)
        bench.peer.parents.by_id[2].last_seen = bench.now
        if number % 4 == 0:
            bench.periods()
    assert (bench.peer.dz != ("10",)) is refined


@pytest.mark.parametrize(("events_per_s_max", "dz"), [(1.5, "1011"), (3.0, "101"), (6.0, "10")])
def test_coarsening_stays_within_the_declared_bandwidth(events_per_s_max: float, dz: str) -> None:
    """The publisher sends 16 events a second: four fall into a quarter of the space, two into an eighth, and so on."""
    declared = settings(THESIS, false_share=1.0, events_per_s_max=events_per_s_max)
    bench = Bench("1011", bound=1.0, with_settings=declared)
    while bench.now < 60 and bench.peer.dz != (dz,):
        refuse(bench)
    for _ in range(8):
        refuse(bench)
    assert bench.peer.dz == (dz,)


def refuse(bench: Bench) -> None:
    """Play a period in which the publisher refuses the peer."""
    bench.gossip(publisher())  # type: ignore[arg-type]
    bench.periods()
    for to, connect in bench.take(Connect):
        bench.receive(to, PotentialParent(True, connect.dz, (), 0.25, 5.0))
