"""F14: brokers leave and join every five seconds, for two minutes. `make nightly` plays 5,000 such histories."""

from __future__ import annotations

import os

import pytest

from plait_lab.simulation.overlay.worlds.churn import TURNS, Churn

SEEDS = 5_000 if os.environ.get("PLAIT_NIGHTLY") else 20
SHARE = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_who_comes_and_goes_breaks_no_invariant(first: int) -> None:
    worlds = [Churn(seed) for seed in range(first, first + SHARE)]
    for world in worlds:
        complaints = world.play()
        assert not complaints, f"seed {world.seed}: {complaints[0]}"
    assert sum(world.turns for world in worlds) > SHARE * TURNS / 2, "they come and go"
    assert sum(len(said.owed) for world in worlds for said in world.said.values()) > 20 * SHARE, "and events are due"


def test_a_seed_that_once_failed_holds() -> None:
    """Regression: a broker kept an advertisement that was withdrawn while its origin was unreachable."""
    assert Churn(175).play() == []
