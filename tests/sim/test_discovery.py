"""Production brokers with one configured seed form one overlay and keep it connected, on virtual time."""

from __future__ import annotations

import pytest
from processes import NIGHTLY

from plait_broker.overlay.discovery.link_selection import LinkSelection
from plait_lab.simulation.overlay.worlds.discovery import Discovery

SEEDS = 40 if NIGHTLY else 2

SETTLE_S = 40.0
"""Time for twenty brokers to find each other, and for the seed to drop its surplus links."""

FEW = 20 if NIGHTLY else 12
"""Number of brokers where it does not matter."""


def settled(seed: int, brokers: int = 20, settle_s: float = SETTLE_S) -> Discovery:
    """Return brokers that have found each other."""
    discovery = Discovery(brokers, seed=seed)
    discovery.start()
    discovery.world.run(settle_s)
    return discovery


@pytest.mark.parametrize("seed", range(SEEDS))
def test_twenty_that_know_one_seed_become_one_overlay(seed: int) -> None:
    discovery = settled(seed)
    assert discovery.connected
    assert len(discovery.islands) == 1
    degrees = discovery.degrees
    assert min(degrees) >= 3
    assert max(degrees) <= 8, "the seed has closed its surplus links"
    assert sum(degrees) / len(degrees) <= 6, "and no broker has many more than it needs"
    before = discovery.world.network.dials
    discovery.world.run(20.0)
    assert discovery.world.network.dials - before <= 5, "nothing is left to be done"


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_seed_dies_and_the_others_stay_one(seed: int) -> None:
    discovery = settled(seed)
    discovery.world.nodes[0].kill()
    assert len(discovery.islands) == 1, "at once: no broker depends on it alone"
    discovery.world.run(5.0)
    assert discovery.connected
    discovery.world.nodes[0].start()
    discovery.world.run(10.0)
    assert discovery.connected
    assert len(discovery.alive) == 20


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_partition_heals(seed: int) -> None:
    discovery = settled(seed, FEW, 15.0)
    discovery.partition(discovery.world.nodes[: 3 + 2 * (seed % 4)])
    discovery.world.run(20.0)
    assert len(discovery.islands) == 2, "each side is one"
    discovery.heal()
    discovery.world.run(15.0)
    assert len(discovery.islands) == 1
    assert discovery.connected


def without_the_seed() -> Discovery:
    """Kill the seed, partition the others for a while, and heal them."""
    discovery = settled(7, FEW, 15.0)
    discovery.world.nodes[0].kill()
    discovery.partition(discovery.world.nodes[FEW // 2 :])
    discovery.world.run(30.0)
    assert len(discovery.islands) > 1
    discovery.heal()
    discovery.world.run(20.0)
    return discovery


def test_a_partition_heals_without_the_seed() -> None:
    assert without_the_seed().connected


def test_islands_of_two_seeds_find_each_other() -> None:
    discovery = Discovery(12, seed=3, seeds=2)
    discovery.partition(discovery.world.nodes[1::2])
    discovery.start()
    discovery.world.run(30.0)
    assert len(discovery.islands) == 2
    discovery.heal()
    discovery.world.run(40.0)
    assert discovery.connected


def test_brokers_that_come_and_go_leave_one_overlay() -> None:
    discovery = settled(11, FEW, 15.0)
    for turn in range(48 if NIGHTLY else 8):
        node = discovery.rng.choice(discovery.world.nodes)
        if node.runs:
            node.kill()
        else:
            node.start()
        discovery.world.run(5.0)
        assert len(discovery.islands) == 1, turn
    discovery.world.run(10.0)
    assert discovery.connected


def test_the_same_seed_is_the_same_run() -> None:
    def run() -> list[object]:
        discovery = settled(5, 6, 15.0)
        world = discovery.world
        return [world.network.dials, world.timeline.steps, world.history.hash(), discovery.islands, discovery.degrees]

    assert run() == run()


# --- planted ----------------------------------------------------------------------------------------------------------


def test_without_probing_a_partition_would_not_heal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSelection, "_probes", lambda self, reached, now: [])
    assert not without_the_seed().connected


def test_without_looking_a_broker_would_give_up_the_only_way_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkSelection, "_spared", lambda self, broker, links: True)
    monkeypatch.setattr(LinkSelection, "_more", lambda self, reached, now, chosen: [])  # all depend on the seed
    monkeypatch.setattr(LinkSelection, "_probes", lambda self, reached, now: [])
    assert not settled(1).connected
