"""Whole histories drawn from seeds, under every kind of fault, break no invariant.

`make test` plays 1,000 seeds, `make nightly` 30,000. A failure prints the line that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from plait_lab.simulation.one_broker.faults import SCENARIOS
from plait_lab.simulation.one_broker.seeded_histories import REDRAW, play, replay_line

SEEDS = 30_000 if os.environ.get("PLAIT_NIGHTLY") else 1_000
SHARE = 40
"""Seeds that one test item plays, which takes some seconds."""

TWICE = 100
"""Seeds played twice, to check that the same seed gives the same history (I10)."""

IN_A_SCENARIO = 100 if os.environ.get("PLAIT_NIGHTLY") else 10
"""Seeds of each scenario alone. The other tests mix all scenarios."""


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    for seed in range(first, first + SHARE):
        verdict = play(seed)
        assert not verdict.violations, f"{verdict.violations[0]}\n\n    {replay_line(seed)}\n"
        assert seed >= TWICE or play(seed).history == verdict.history, replay_line(seed)


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "any"])
def test_no_scenario_breaks_an_invariant(scenario: str) -> None:
    for seed in range(IN_A_SCENARIO):
        verdict = play(seed, scenario)
        assert not verdict.violations, f"{verdict.violations[0]}\n\n    {replay_line(seed, scenario)}\n"


@pytest.mark.parametrize(("seed", "scenario"), [(568, "disk"), (1578, "any"), (137, "crashes"), (227, "network")])
def test_seeds_that_once_failed_hold(seed: int, scenario: str) -> None:
    verdict = play(seed, scenario)
    assert not verdict.violations, f"{verdict.violations[0]}\n\n    {replay_line(seed, scenario)}\n"


def test_the_history_does_not_depend_on_how_this_process_hashes() -> None:
    line = [sys.executable, "-m", "plait_lab.simulation", "--seed", "7"]
    runs = [
        subprocess.run(line, env=os.environ | {"PYTHONHASHSEED": salt}, capture_output=True, text=True, check=True)
        for salt in ("1", "2")
    ]
    assert "history" in runs[0].stdout
    assert runs[0].stdout == runs[1].stdout


def test_other_seeds_are_other_histories() -> None:
    assert len({play(seed).history for seed in range(10)}) == 10


def test_every_kind_of_fault_hits_something_alive() -> None:
    hits: Counter[str] = Counter()
    for seed in range(SEEDS):
        hits.update(fault.kind for fault in play(seed).recorder.faults if fault.live)
        if len(hits) >= len(SCENARIOS["any"]):
            return
    pytest.fail(f"only {sorted(hits)}")


def test_a_history_in_which_nothing_happens_is_redrawn() -> None:
    assert play(0, "calm").vacuous, "without a fault nothing is proved"
    redrawn = next(verdict for verdict in map(play, range(SEEDS)) if verdict.drawn != verdict.seed)
    assert not redrawn.vacuous
    assert redrawn.drawn % REDRAW == redrawn.seed
