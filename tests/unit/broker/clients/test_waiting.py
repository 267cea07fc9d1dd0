"""Totals of all delivery queues: the running totals always equal the sums over all subscriptions."""

from __future__ import annotations

import pytest

from plait_broker import Broker, BrokerSettings
from plait_core.wire.frame_types.session_frames import Full, Unsubscribe
from plait_lab.simulation.one_broker.network import Path
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.seeded_histories import Run
from plait_lab.simulation.one_broker.stage import Stage

NARROW = Path(bytes_per_s=20_000.0, buffer_bytes=2_000)
SMALL = BrokerSettings(outbox_items_max=50, resume_s=5.0)


def walked(broker: Broker) -> dict[str, int]:
    """Compute the totals from all subscriptions. One that has ended and still drains is found only in its session."""
    found = [subscription for session in broker.sessions.all() for subscription in session.subscriptions.values()]
    return {
        "pending": sum(len(subscription.outbox) for subscription in found),
        "pending_bytes": sum(subscription.outbox.bytes for subscription in found),
        "slow_consumers": sum(subscription.slow for subscription in found),
    }


def told(broker: Broker) -> dict[str, int]:
    described = broker.describe()
    return {key: described[key] for key in ("pending", "pending_bytes", "slow_consumers")}


def crowded(settings: BrokerSettings = SMALL) -> tuple[Stage, RawClient, RawClient]:
    """Return a stage, a subscriber on a narrow path whose two queues have just filled, and a publisher."""
    stage = Stage(settings)
    slow, publisher = stage.raw("slow", path=NARROW), stage.raw("publisher")
    slow.subscribe(1, items_max=30)
    slow.subscribe(2, items_max=40, full=Full.DROP_NEWEST)
    stage.run(0.2)
    for n in range(60):
        publisher.publish(n=n, payload=bytes(1000))
    stage.run(0.05)
    return stage, slow, publisher


NOTHING = {"pending": 0, "pending_bytes": 0, "slow_consumers": 0}


def test_queues_that_fill_and_empty() -> None:
    stage, _, _ = crowded()
    assert told(stage.broker) == walked(stage.broker)
    assert told(stage.broker)["slow_consumers"] == 2
    assert told(stage.broker)["pending"] > 60
    stage.run(30)
    assert told(stage.broker) == walked(stage.broker) == NOTHING


@pytest.mark.parametrize("drain", [False, True])
def test_the_totals_lose_the_queue_of_a_subscription_that_ends(drain: bool) -> None:
    stage, slow, _ = crowded()
    slow.send(Unsubscribe(slow.next_request(), 1, drain=drain))
    stage.run(0.05)
    assert told(stage.broker) == walked(stage.broker)
    assert told(stage.broker)["slow_consumers"] == (2 if drain else 1)
    stage.run(30)
    assert told(stage.broker) == walked(stage.broker) == NOTHING


def test_the_totals_lose_the_queues_of_a_session_that_ends() -> None:
    stage, slow, _ = crowded()
    assert slow.connection is not None
    slow.connection.reset()
    stage.run(0.1)
    assert told(stage.broker) == walked(stage.broker) != NOTHING
    stage.run(10)
    assert told(stage.broker) == walked(stage.broker) == NOTHING


@pytest.mark.parametrize("seed", range(20))
def test_the_totals_agree_with_a_walk_over_all_queues(seed: int) -> None:
    run = Run(seed)
    most: list[int] = []

    def compare() -> None:
        broker = run.targets.broker.broker
        if broker is not None:
            assert told(broker) == walked(broker)
            most.append(told(broker)["pending"])

    for moment in range(300):
        run.timeline.at(moment * 0.05, compare)
    assert run.play() == []
    assert len(most) > 100
