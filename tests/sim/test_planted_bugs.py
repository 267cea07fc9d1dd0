"""The simulator detects each planted bug within 1,000 seeds, most within a few (SCORECARD H1)."""

from __future__ import annotations

import pytest

from plait_lab.simulation.__main__ import main
from plait_lab.simulation.one_broker.planted_bugs import PLANTED, planted
from plait_lab.simulation.one_broker.seeded_histories import play, replay_line

SEEDS_MAX = 1_000

RARE = {
    "hide_losses_of_a_resume",
    "close_without_notice",
    "drop_one_in_10000",
    "forget_refusals",
    "forget_earlier_filters_on_restart",
}
"""Bugs that take a hundred seeds or more to detect, half a minute each."""

BUGS = [pytest.param(bug, marks=pytest.mark.nightly) if bug in RARE else bug for bug in PLANTED]


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_caught(bug: str) -> None:
    for seed in range(SEEDS_MAX):
        violations = play(seed, PLANTED[bug].scenario, planted(bug)).violations
        assert not [said for said in violations if "planted_bugs.py" in said.text], (
            "the plant itself fails: it is no bug"
        )
        if violations:
            return
    pytest.fail(f"{bug} went unseen for {SEEDS_MAX} seeds")


def test_a_planted_bug_is_gone_afterwards() -> None:
    for bug in PLANTED.values():
        right = getattr(bug.owner, bug.method)
        with bug.plant():
            assert getattr(bug.owner, bug.method) is not right
        assert getattr(bug.owner, bug.method) is right


def test_a_failure_is_replayed_by_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    seed = next(seed for seed in range(SEEDS_MAX) if play(seed, planted=planted("swap_deliveries")).violations)
    line = replay_line(seed, planted="swap_deliveries")
    assert line.startswith("python -m plait_lab.simulation ")
    assert main(line.split()[3:]) == 1
    printed = capsys.readouterr().out
    assert f"seed {seed}" in printed
    assert "I6: " in printed
    assert "receive" in printed, "the history around the failure"


def test_a_seed_that_holds_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1"]) == 0
    assert "holds" in capsys.readouterr().out
