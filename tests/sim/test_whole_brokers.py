"""Whole brokers with one configured seed form one overlay and keep it connected, on virtual time."""

from __future__ import annotations

import pytest
from processes import NIGHTLY

from plait_broker.overlay.discovery.link_selection import LinkSelection
from plait_lab.simulation.overlay.whole_brokers import WholeBrokers

SEEDS = 40 if NIGHTLY else 2

SETTLE_S = 40.0
"""Time for twenty brokers to find each other, and for the seed to drop its surplus links."""

FEW = 20 if NIGHTLY else 12
"""Number of brokers where it does not matter."""


def gathered(seed: int, count: int = 20, settle_s: float = SETTLE_S) -> WholeBrokers:
    crowd = WholeBrokers(count, seed=seed)
    crowd.start()
    crowd.run(settle_s)
    return crowd


@pytest.mark.parametrize("seed", range(SEEDS))
def test_twenty_that_know_one_seed_become_one_overlay(seed: int) -> None:
    crowd = gathered(seed)
    assert crowd.whole
    assert len(crowd.islands()) == 1
    degrees = [crowd.degree(site) for site in crowd.sites]
    assert min(degrees) >= 3
    assert max(degrees) <= 8, "the seed gave up what was too much"
    assert sum(degrees) / len(degrees) <= 6, "and nobody has many more than it needs"
    before = crowd.dials
    crowd.run(20.0)
    assert crowd.dials - before <= 5, "nothing is left to be done"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_seed_dies_and_the_others_stay_one(seed: int) -> None:
    crowd = gathered(seed)
    crowd.kill(crowd.sites[0])
    assert len(crowd.islands()) == 1, "at once: nobody hangs on it alone"
    crowd.run(5.0)
    assert crowd.whole
    crowd.begin(crowd.sites[0])
    crowd.run(10.0)
    assert crowd.whole
    assert len(crowd.alive) == 20


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_partition_heals(seed: int) -> None:
    crowd = gathered(seed, FEW, 15.0)
    crowd.part(crowd.sites[: 3 + 2 * (seed % 4)])
    crowd.run(20.0)
    assert len(crowd.islands()) == 2, "each side is one"
    crowd.heal()
    crowd.run(15.0)
    assert len(crowd.islands()) == 1
    assert crowd.whole


def test_a_partition_heals_without_the_seed() -> None:
    crowd = gathered(7, FEW, 15.0)
    crowd.kill(crowd.sites[0])
    crowd.part(crowd.sites[FEW // 2 :])
    crowd.run(30.0)
    crowd.heal()
    crowd.run(20.0)
    assert crowd.whole


def test_islands_of_two_seeds_find_each_other() -> None:
    crowd = WholeBrokers(12, seed=3, seeds=2)
    crowd.part(site for number, site in enumerate(crowd.sites) if number % 2)
    crowd.start()
    crowd.run(30.0)
    assert len(crowd.islands()) == 2
    crowd.heal()
    crowd.run(40.0)
    assert crowd.whole


def test_brokers_that_come_and_go_leave_one_overlay() -> None:
    crowd = gathered(11, FEW, 15.0)
    for turn in range(48 if NIGHTLY else 8):
        site = crowd.rng.choice(crowd.sites)
        if site.broker is not None:
            crowd.kill(site)
        else:
            crowd.begin(site)
        crowd.run(5.0)
        assert len(crowd.islands()) == 1, turn
    crowd.run(10.0)
    assert crowd.whole


def test_the_same_seed_is_the_same_run() -> None:
    def history() -> list[object]:
        crowd = gathered(5, 6, 15.0)
        return [crowd.dials, crowd.timeline.steps, sorted(map(sorted, crowd.islands())), crowd.links]

    assert history() == history()


# --- planted ----------------------------------------------------------------------------------------------------------


def test_without_probing_a_partition_would_not_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSelection, "_probes", lambda self, reached, now: [])
    crowd = gathered(7, FEW, 15.0)
    crowd.kill(crowd.sites[0])
    crowd.part(crowd.sites[FEW // 2 :])
    crowd.run(30.0)
    crowd.heal()
    crowd.run(20.0)
    assert not crowd.whole


def test_without_looking_a_broker_would_give_up_the_only_way_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSelection, "_spared", lambda self, broker, links: True)
    monkeypatch.setattr(LinkSelection, "_more", lambda self, reached, now, chosen: [])  # all hang on the seed
    monkeypatch.setattr(LinkSelection, "_probes", lambda self, reached, now: [])
    crowd = gathered(1)
    assert not crowd.whole
