"""F1 and F2: long outages of single brokers or of all at once lose no confirmed event for a durable subscription.

This holds even if each broker that knew of the subscription has been down as well.
`make test` plays 60 histories, `make nightly` 5,000."""

from __future__ import annotations

import os

import pytest

from plait_core.filters import parse
from plait_lab.simulation.overlay.worlds.outages import LoggingNode, Outages

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


def test_who_cannot_store_what_is_wanted_keeps_nobody_waiting_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Outages(1, faults=False, brokers=3)
    home, other, _ = world.nodes
    for node in world.nodes:
        node.start()
    world.timeline.run(8.0)
    monkeypatch.setattr(other, "synced", lambda *_: None)  # its disk takes no more
    home.subscribe(parse("x >= 0"), durable=True)
    wanted = max(home.wants)
    world.timeline.run(8.0 + 3.0)
    assert wanted not in home.installed
    world.timeline.run(8.0 + 5.0)
    assert wanted in home.installed
    assert [remark for remark in home.remarks if remark.startswith(f"{other.name} can be reached, and does not ack")]
    assert home.overlay is not None
    assert home.overlay.counts["interest_unacked"] == 1
    home.subscribe(parse("y >= 0"), durable=True)
    world.timeline.run(8.0 + 5.5)
    assert max(home.wants) in home.installed, "it is not waited for again before it has answered"
    assert home.overlay.counts["interest_unacked"] == 1


@pytest.mark.parametrize("seed", range(8))
def test_what_is_installed_is_known_by_whoever_starts_anew_alone(seed: int) -> None:
    """Kill all brokers when a durable subscription is installed; one that restarts alone still knows it.

    No advertisement overlapped the subscription before. An event published meanwhile is confirmed only after its
    home broker has it.
    """
    world = Outages(seed, faults=False, brokers=3)
    nodes = [node for node in world.nodes if isinstance(node, LoggingNode)]
    home, other, third = nodes
    for node in nodes:
        node.start()
    world.timeline.run(8.0)
    home.subscribe(parse("x >= 0"), durable=True)
    until = world.timeline.now
    while not home.installed:
        world.timeline.run(until := until + 0.0001)
    for node in nodes:
        node.stop()
    world.timeline.run(until + 1.0)
    other.start()
    other.advertise(parse("x >= 0"))
    world.timeline.run(until + 11.0)
    other.publish({"x": 1})
    world.timeline.run(until + 12.0)
    assert world.said
    assert not other.confirmed, "nobody that is there has what it wants"
    home.start()
    third.start()
    world.timeline.run(until + 42.0)
    assert list(home.logged) == list(other.confirmed) == list(world.said)
