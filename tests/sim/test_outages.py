"""F1 and F2: brokers away for long, alone or all at once, and nothing confirmed is lost to a durable subscription,
though whoever knew of it was away as well. `make test` plays 60 histories, `make nightly` 5,000."""

from __future__ import annotations

import os

import pytest

from plait_lab.simulation.outages import Outages

SEEDS = 5_000 if os.environ.get("PLAIT_NIGHTLY") else 60
SHARE = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_what_is_confirmed_arrives_however_long_its_broker_is_away(first: int) -> None:
    worlds = [Outages(seed) for seed in range(first, first + SHARE)]
    for world in worlds:
        complaints = world.play()
        assert not complaints, f"seed {world.seed}: {complaints[0]}"
    assert sum(world.due for world in worlds) > 50 * SHARE, "events were due, or nothing is proved"
    assert sum(world.away_s for world in worlds) > 20 * SHARE, "and brokers away"
