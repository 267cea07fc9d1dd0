"""S3: one broker is hostile, and honest brokers that can reach each other without it are unaffected."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest

from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_lab.simulation.overlay.enemies.attacks import ATTACKS
from plait_lab.simulation.overlay.enemies.hostile import HostileHistory, play_hostile

SEEDS = 150 if os.environ.get("PLAIT_NIGHTLY") else 6

EFFECTS: Final = {
    "drop": ("lost",),
    "drop_some": ("lost",),
    "drop_events": ("lost",),
    "drop_answers": ("lost",),
    "one_by_one": ("lost",),
    "sinkhole": ("changed", "lost"),
    "equivocate": ("changed", "lost"),
    "misdirect": ("added", "lost"),
    "tamper": ("changed",),
    "tamper_events": ("changed",),
    "replay": ("added",),
    "reorder": ("changed",),
    "forge": ("added",),
    "forge_messages": ("added",),
    "flood": ("added",),
}
"""What each attack does to frames, if it has an effect at all."""

EXPELLED: Final = {"tamper", "forge", "flood"}
"""Attacks that send frames that no honest broker sends. Replay and reorder may lead to expulsion or not: a delayed
frame may go to the wrong neighbour."""

DISPUTED: Final = {"sinkhole", "equivocate"}
"""Attacks that report too short a delay of a link."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_honest_brokers_get_all_that_is_theirs_and_nothing_else(attack: str) -> None:
    due = received = expelled = disputed = 0
    effects: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = play_hostile(seed, attack)
        complaints = history.world.complaints
        assert not complaints, f"play_hostile({seed}, {attack!r}): {complaints}"
        due += history.due
        received += history.oracle.received
        expelled += len(history.oracle.expelled_by)
        disputed += disputes(history)
        effects += history.attacker.counts
    assert due > 40 * SEEDS, "something was to be delivered"
    assert received > 100 * SEEDS, "and events were compared with what was published"
    assert all(effects[effect] > 3 * SEEDS for effect in EFFECTS[attack]), f"the attack has an effect: {effects}"
    assert bool(expelled) == (attack in EXPELLED) or attack in ("replay", "reorder")
    assert bool(disputed) == (attack in DISPUTED)


def disputes(history: HostileHistory) -> int:
    """Return how many honest brokers say to their operator that the hostile one lies, and check that no other is
    named."""
    hostile, disputed = history.attacker.node, 0
    for node in history.world.nodes:
        named = {one.name for one in node.overlay.neighbours.values() if one.disputed}
        assert named <= {hostile.name}
        if node is not hostile:
            assert named <= set("".join(node.remarks).split()), "the operator is told"
            disputed += bool(named)
    return disputed


def test_every_attack_has_an_effect_to_look_for() -> None:
    assert EFFECTS.keys() == ATTACKS.keys()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_is_always_the_same_history(seed: int) -> None:
    first, second = (play_hostile(seed, "replay") for _ in range(2))
    assert first.world.history.hash() == second.world.history.hash()
    assert first.attacker.counts == second.attacker.counts


def test_a_route_that_the_destination_answers_by_is_tried_next() -> None:
    """The destination's own message makes known the only route that works, after the first ones were tried."""
    assert not play_hostile(29, "drop").world.complaints


# --- without a defence ------------------------------------------------------------------------------------------------


def complaints_of(attack: str, seeds: int = 4) -> list[str]:
    return [complaint for seed in range(seeds) for complaint in play_hostile(seed, attack).world.complaints]


@pytest.mark.parametrize(("attack", "seeds"), [("tamper_events", 4), ("flood", 8)])
def test_without_macs_of_events_changed_and_forged_ones_would_be_received(
    attack: str, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MessageAuth, "check_event", lambda *_: None)
    assert any("never published" in complaint for complaint in complaints_of(attack, seeds))


def test_without_macs_of_messages_forged_ones_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageAuth, "check_message", lambda *_: None)
    found = complaints_of("forge_messages")
    assert any("did not send" in complaint for complaint in found), "trace messages carry MACs like the rest"
    assert any("did not send" not in complaint for complaint in found)


def test_without_signatures_changed_documents_would_be_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MessageAuth, "check", lambda *_: True)
    assert any(" I1: " in complaint or " I7: " in complaint for complaint in complaints_of("tamper"))


@pytest.mark.parametrize("attack", ["drop", "drop_events", "sinkhole"])
def test_without_source_routes_a_broker_that_loses_everything_would_cut_others_off(
    attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ControlUnicast, "send_along", lambda *_, **named: False)
    assert any(" I1: " in complaint for complaint in complaints_of(attack))
