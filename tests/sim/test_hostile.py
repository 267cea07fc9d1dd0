"""S3: one broker of the overlay is hostile, and honest ones that can reach each other without it notice nothing."""

from __future__ import annotations

import os

import pytest

from plait_broker.overlay.detours import ways_around
from plait_broker.overlay.errands import Errands
from plait_broker.overlay.map import Map
from plait_broker.overlay.trust import Trust
from plait_core.wire.overlay_frames import Sheet
from plait_lab.simulation.hostile import ATTACKS, play

SEEDS = 150 if os.environ.get("PLAIT_NIGHTLY") else 4


@pytest.mark.parametrize("attack", ATTACKS)
def test_honest_brokers_get_all_that_is_theirs_and_nothing_else(attack: str) -> None:
    owed = 0
    for seed in range(SEEDS):
        world = play(seed, attack)
        assert not world.complaints, f"play({seed}, {attack!r}): {world.complaints}"
        owed += sum(len(said.owed) for said in world.said.values())
    assert owed > 20 * SEEDS, "something was to be delivered"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_neighbour_that_lies_about_the_delay_of_its_links_is_named_and_no_other_is(attack: str) -> None:
    named = 0
    for seed in range(SEEDS):
        world = play(seed, attack)
        for node in world.nodes:
            assert node.overlay is not None
            disputed = {one.name for one in node.overlay.neighbours.values() if one.disputed}
            assert disputed <= {world.enemy.name}, f"play({seed}, {attack!r})"
            if node is not world.enemy:
                assert disputed <= set("".join(node.remarks).split()), "who runs it is told"
                named += bool(disputed)
    assert bool(named) == (attack in ("sinkhole", "equivocate"))


def complaints(attack: str, seeds: int = 4) -> list[str]:
    return [complaint for seed in range(seeds) for complaint in play(seed, attack).complaints]


def test_without_proofs_of_events_changed_ones_would_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trust, "check_event", lambda *_: None)
    assert any(" I3: " in complaint for complaint in complaints("tamper_events"))
    assert any(" I3: " in complaint for complaint in complaints("forge"))


def test_without_proofs_of_errands_forged_ones_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trust, "check_errand", lambda *_: None)
    monkeypatch.setattr(Trust, "check_want", lambda *_: None)
    found = complaints("forge", 12)
    assert any("never said" in complaint for complaint in found), "what explains is proved like the rest"
    assert any("never said" not in complaint for complaint in found)


@pytest.mark.parametrize("attack", ["drop", "drop_events", "sinkhole"])
def test_without_detours_a_broker_that_loses_everything_would_cut_others_off(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Errands, "by", lambda *_: ())
    assert any(" I1: " in complaint for complaint in complaints(attack))


@pytest.mark.parametrize("seed", [12, 67, 111, 124])
def test_a_broker_is_gone_around_that_is_kept_though_another_way_is_faster(seed: int) -> None:
    assert not play(seed, "drop").complaints


def drawn(links: dict[tuple[int, int], int]) -> Map:
    map = Map()
    for broker in sorted({broker for link in links for broker in link}):
        theirs = {near + far - broker: delay for (near, far), delay in links.items() if broker in (near, far)}
        map.put(Sheet(broker, 1, f"b{broker}", tuple(theirs), tuple(theirs.values())))
    return map


def test_no_other_broker_is_on_all_ways_around() -> None:
    ring = drawn({(1, 2): 100, (2, 3): 100, (3, 4): 100, (1, 5): 900, (5, 4): 900, (2, 5): 900, (3, 5): 900})
    assert ring.path(1, 4) == (1, 2, 3, 4)
    ways = ways_around(ring, 1, 4, 2)
    assert ways == [(1, 5, 4), (1, 2, 3, 4)], "each once, and the usual one, which others may not keep to, last"
    assert not set(ways[0][1:-1]) & set(ways[1][1:-1])


def test_who_is_taken_beside_the_usual_path_is_gone_around_first() -> None:
    square = drawn({(1, 2): 1000, (1, 3): 800, (2, 3): 100, (2, 4): 100, (3, 4): 100})
    assert ways_around(square, 1, 3, 2) == [(1, 3)], "also when nobody is in between on the usual path"
    assert ways_around(square, 1, 3, 3) == []
    assert square.path(1, 4) == (1, 3, 4)
    assert ways_around(square, 1, 4, 2) == [(1, 3, 4), (1, 2, 4)]
    assert ways_around(square, 1, 4, 3) == [(1, 2, 4), (1, 3, 4)]
    assert ways_around(square, 1, 9, 2) == [], "nobody leads there"
