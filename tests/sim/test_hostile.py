"""S3: one broker is hostile, and honest brokers that can reach each other without it are unaffected."""

from __future__ import annotations

import os

import pytest

from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_lab.simulation.overlay.hostile import ATTACKS, play_hostile

SEEDS = 150 if os.environ.get("PLAIT_NIGHTLY") else 4


@pytest.mark.parametrize("attack", ATTACKS)
def test_honest_brokers_get_all_that_is_theirs_and_nothing_else(attack: str) -> None:
    owed = 0
    for seed in range(SEEDS):
        world = play_hostile(seed, attack)
        assert not world.complaints, f"play({seed}, {attack!r}): {world.complaints}"
        owed += sum(len(said.owed) for said in world.said.values())
    assert owed > 20 * SEEDS, "something was to be delivered"


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_neighbour_that_lies_about_the_delay_of_its_links_is_named_and_no_other_is(attack: str) -> None:
    named = 0
    for seed in range(SEEDS):
        world = play_hostile(seed, attack)
        for node in world.nodes:
            assert node.overlay is not None
            disputed = {one.name for one in node.overlay.neighbours.values() if one.disputed}
            assert disputed <= {world.enemy.name}, f"play({seed}, {attack!r})"
            if node is not world.enemy:
                assert disputed <= set("".join(node.remarks).split()), "who runs it is told"
                named += bool(disputed)
    assert bool(named) == (attack in ("sinkhole", "equivocate"))


@pytest.mark.parametrize("attack", ATTACKS)
def test_who_says_what_no_honest_broker_says_is_expelled_and_no_other_is(attack: str) -> None:
    """Check that an attack leads to expulsion exactly when it sends frames that no honest broker sends.

    Every history checks that no honest broker is expelled. Replay and reorder may lead to expulsion or not: a delayed
    frame may go to the wrong neighbour.
    """
    expelled = sum(len(play_hostile(seed, attack).expelled_by) for seed in range(SEEDS))
    assert bool(expelled) == (attack in ("tamper", "forge", "flood")) or attack in ("replay", "reorder")


def complaints(attack: str, seeds: int = 4) -> list[str]:
    return [complaint for seed in range(seeds) for complaint in play_hostile(seed, attack).complaints]


def test_without_proofs_of_events_changed_ones_would_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageAuth, "check_event", lambda *_: None)
    assert any(" I3: " in complaint for complaint in complaints("tamper_events"))
    assert any(" I3: " in complaint for complaint in complaints("forge"))


def test_without_macs_of_messages_forged_ones_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageAuth, "check_message", lambda *_: None)
    found = complaints("forge", 12)
    assert any("never said" in complaint for complaint in found), "trace messages carry MACs like the rest"
    assert any("never said" not in complaint for complaint in found)


@pytest.mark.parametrize("attack", ["drop", "drop_events", "sinkhole"])
def test_without_detours_a_broker_that_loses_everything_would_cut_others_off(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlUnicast, "by", lambda *_: ())
    assert any(" I1: " in complaint for complaint in complaints(attack))


@pytest.mark.parametrize("seed", [12, 67, 111, 124])
def test_a_broker_is_gone_around_that_is_kept_though_another_way_is_faster(seed: int) -> None:
    assert not play_hostile(seed, "drop").complaints
