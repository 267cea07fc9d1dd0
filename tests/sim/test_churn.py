"""F14: brokers leave and join every five seconds, for two minutes. `make nightly` plays 5,000 such histories."""

from __future__ import annotations

import os

import pytest

from plait_lab.simulation.overlay.worlds.churn import TURNS, Churn

SEEDS = 5_000 if os.environ.get("PLAIT_NIGHTLY") else 20
SHARE = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_who_comes_and_goes_breaks_no_invariant(first: int) -> None:
    histories = [Churn(seed) for seed in range(first, first + SHARE)]
    for history in histories:
        complaints = history.play()
        assert not complaints, f"seed {history.seed}: {complaints[0]}"
    assert sum(history.turns for history in histories) > SHARE * TURNS / 2, "they come and go"
    assert sum(history.world.oracle.due for history in histories) > 50 * SHARE, "and events are due"
