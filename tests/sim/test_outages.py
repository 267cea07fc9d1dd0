"""F1 and F2: long outages of single brokers or of all at once lose no confirmed event for a durable subscription.

This holds even if each broker that knew of the subscription has been down as well.
`make test` plays 60 histories, `make nightly` 5,000."""

from __future__ import annotations

import os

import pytest

from plait_core.wire import Confirm
from plait_core.wire.frame_types.session_frames import Done, DurableAction, Failed, ManageDurable
from plait_lab.simulation.overlay.world import World
from plait_lab.simulation.overlay.worlds.outages import Outages

SEEDS = 5_000 if os.environ.get("PLAIT_NIGHTLY") else 60
SHARE = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SHARE))
def test_what_is_confirmed_arrives_however_long_its_broker_is_away(first: int) -> None:
    histories = [Outages(seed) for seed in range(first, first + SHARE)]
    for history in histories:
        complaints = history.play()
        assert not complaints, f"seed {history.seed}: {complaints[0]}"
    assert sum(history.due for history in histories) > 50 * SHARE, "events were due, or nothing is proved"
    assert sum(history.away_s for history in histories) > 20 * SHARE, "and brokers away"


def three_brokers(seed: int) -> World:
    """Three brokers with logs, linked."""
    world = Outages(seed, faults=False, brokers=3).world
    world.start()
    world.run(8.0)
    return world


def test_who_cannot_store_what_is_wanted_keeps_nobody_waiting_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    world = three_brokers(1)
    home, other, _ = world.nodes
    assert other.disk is not None
    monkeypatch.setattr(other.disk, "persist", lambda *_: None)  # its disk takes no more
    client = world.client(0)
    first = client.subscribe("x >= 0", durable="first")
    world.run(3.0)
    assert not first.installed
    world.run(2.5)
    assert first.installed
    assert [remark for remark in home.remarks if remark.startswith(f"{other.name} can be reached, and does not ack")]
    assert home.overlay.counts["interest_unacked"] == 1
    second = client.subscribe("y >= 0", durable="second")
    world.run(0.5)
    assert second.installed, "it is not waited for again before it has answered"
    assert home.overlay.counts["interest_unacked"] == 1


@pytest.mark.parametrize("seed", range(8))
def test_what_is_installed_is_known_by_whoever_starts_anew_alone(seed: int) -> None:
    """Kill all brokers when a durable subscription is installed; one that restarts alone still knows it.

    No advertisement overlapped the subscription before. An event published meanwhile is confirmed only after its
    home broker has it.
    """
    world = three_brokers(seed)
    home, other, third = world.nodes
    subscription = world.client(0).subscribe("x >= 0", durable="all")
    assert world.run_until(lambda: subscription.installed, 5.0, step_s=0.0001)
    for node in world.nodes:
        node.kill()
    world.run(1.0)
    other.start()
    publisher = world.client(1)
    advertisement = publisher.advertise("x >= 0")
    assert world.run_until(lambda: advertisement.installed, 10.0)
    event = publisher.publish({"x": 1}, Confirm.BROKER)
    world.run(2.0)
    assert event is not None
    assert not event.confirmed, "nobody that is there has what it wants"
    home.start()
    third.start()
    assert world.run_until(lambda: event.confirmed and event.id in subscription.received, 25.0)


def test_a_durable_subscription_is_removed_at_its_home_broker_alone() -> None:
    """While that is away, nobody removes it, and confirmed events wait. Its removal ends the wait."""
    world = three_brokers(3)
    home = world.nodes[0]
    subscriber, publisher = world.client(0), world.client(1)
    subscription = subscriber.subscribe("x >= 0", durable="d")
    advertisement = publisher.advertise("x >= 0")
    assert world.run_until(lambda: subscription.installed and advertisement.installed, 10.0)
    subscriber.leave()
    world.run(1.0)
    home.kill()
    world.run(1.0)
    event = publisher.publish({"x": 1}, Confirm.SUBSCRIBERS)
    publisher.keeps_frames = True
    publisher.write(ManageDurable(99, "d", DurableAction.REMOVE))
    world.run(2.0)
    assert [(failed.request, failed.code) for failed in publisher.heard(Failed)] == [(99, "unknown")]
    assert event is not None
    assert not event.confirmed
    home.start()
    operator = world.client(0, "operator")
    operator.keeps_frames = True
    assert world.run_until(lambda: operator.ready, 5.0)
    operator.write(ManageDurable(99, "d", DurableAction.REMOVE))
    assert world.run_until(lambda: any(done.request == 99 for done in operator.heard(Done)), 10.0)
    assert world.run_until(lambda: event.confirmed or event.refused == "discarded", 20.0), "whichever came first"
    later = publisher.publish({"x": 2}, Confirm.SUBSCRIBERS)
    assert later is not None
    assert world.run_until(lambda: later.confirmed, 10.0), "nobody waits for it any more"


def test_an_event_for_a_broker_that_restarts_is_confirmed_by_its_subscribers() -> None:
    """The event is sent again under another position. Its result there is that of the first position."""
    world = three_brokers(3)
    home, publisher = world.nodes[0], world.client(1)
    subscription = world.client(0).subscribe("x >= 0", durable="d")
    advertisement = publisher.advertise("x >= 0")
    assert world.run_until(lambda: subscription.installed and advertisement.installed, 10.0)
    home.kill()
    world.run(1.0)
    event = publisher.publish({"x": 1}, Confirm.SUBSCRIBERS)
    assert event is not None
    world.run(2.0)
    home.start()
    assert world.run_until(lambda: event.confirmed, 20.0)
    assert event.id in subscription.received
