"""Delays across brokers: events state their true delay, delay bounds hold, and expired events are dropped in place.

Production brokers on virtual time; `tests/integration/test_tracing.py`
uses real processes.
"""

from __future__ import annotations

from typing import Any

import pytest

from plait_broker import DropReason
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_core import Event
from plait_core.filters import parse
from plait_core.wire import Confirm, Deliver, Publish, encode_block
from plait_core.wire.frame_types.session_frames import LATE, Late, Notice
from plait_lab.simulation.overlay.frame_client import CLIENT_DELAY_S, FrameClient
from plait_lab.simulation.overlay.world import World, linked_world

SLOW_US = 60_000
CHAIN = {(0, 1): 0.010, (1, 2): SLOW_US / 1e6}
WAY_US = 70_000


@pytest.fixture
def world() -> World:
    return linked_world(CHAIN)


def publisher_of(world: World) -> FrameClient:
    publisher = world.connected_client(0)
    publisher.advertise("price >= 0")
    world.run(6.0)  # by then the delay between it and its broker is measured
    return publisher


def subscriber_of(world: World, broker: int, **terms: Any) -> FrameClient:
    subscriber = world.connected_client(broker)
    subscription = subscriber.subscribe("price > 10", **terms)
    world.run(6.0)
    assert subscription.installed
    return subscriber


def dropped(world: World, reason: DropReason) -> list[int]:
    return [world.broker(number).counters.dropped[reason] for number in range(3)]


def test_an_event_tells_the_truth_of_its_way(world: World) -> None:
    publisher, subscribers = publisher_of(world), [subscriber_of(world, broker) for broker in range(3)]
    publisher.publish({"price": 11})
    world.run(1.0)
    ids = [world.broker(number).id for number in range(3)]
    for hops, (subscriber, way_us) in enumerate(zip(subscribers, (0, 10_000, WAY_US), strict=True)):
        (frame,) = subscriber.heard(Deliver)
        assert list(frame.path) == ids[: hops + 1]
        assert frame.delay_us == pytest.approx(way_us + CLIENT_DELAY_S * 1e6, rel=0.02, abs=50)


@pytest.mark.parametrize(("within_us", "late"), [(WAY_US + 5_000, False), (WAY_US - 5_000, True)])
@pytest.mark.parametrize("policy", [Late.DROP, Late.FLAG])
def test_a_delay_bound_holds_over_a_slow_link(world: World, within_us: int, late: bool, policy: Late) -> None:
    publisher = publisher_of(world)
    bound = subscriber_of(world, 2, within_us=within_us, late=policy)
    for price in range(11, 16):
        publisher.publish({"price": price})
    world.run(1.0)
    heard = bound.heard(Deliver)
    if late and policy is Late.DROP:
        assert list(heard) == []
        assert dropped(world, DropReason.LATE) == [0, 0, 5]
        assert [(notice.reason, notice.count) for notice in bound.heard(Notice)] == [("late", 5)]
    else:
        assert [frame.deliveries[0][1] & LATE for frame in heard] == [LATE * late] * 5
        assert dropped(world, DropReason.LATE) == [0, 0, 0]


def test_a_link_that_becomes_slow_makes_events_late(world: World) -> None:
    publisher = publisher_of(world)
    bound = subscriber_of(world, 2, within_us=100_000, late=Late.FLAG)
    publisher.publish({"price": 11})
    world.run(1.0)
    world.link_of(1, 2).delay_s = 0.2
    world.run(5.0)
    publisher.publish({"price": 12})
    world.run(1.0)
    assert [frame.deliveries[0][1] & LATE for frame in bound.heard(Deliver)] == [0, LATE]


@pytest.mark.parametrize(("lifetime_us", "dies_at"), [(5_000, 1), (40_000, 2), (200_000, None)])
def test_what_expires_on_its_way_dies_there_and_delays_nobody(
    world: World, lifetime_us: int, dies_at: int | None
) -> None:
    publisher, subscriber = publisher_of(world), subscriber_of(world, 2)
    publisher.publish({"price": 99}, lifetime_us=lifetime_us)
    publisher.publish({"price": 12})
    world.run(3.0)
    prices = [event["price"] for event in subscriber.delivered]
    expired = dropped(world, DropReason.EXPIRED)
    if dies_at is None:
        assert (prices, expired) == ([99, 12], [0, 0, 0])
        return
    assert prices == [12]
    died = [node.overlay.counts["expired"] for node in world.nodes]
    assert died[1] == (dies_at == 1), "it is known where"
    assert sum(expired) == 1, "and counted once"
    (after,) = subscriber.heard(Deliver)
    if dies_at == 2:
        assert after.delay_us == pytest.approx(WAY_US, rel=0.02), "who comes after it does not wait for it"
    assert after.delay_us < WAY_US * 5, "nor for long, when its place has to be asked for"


@pytest.mark.parametrize("claimed_us", [2**64 - 1, 2**64 - 15_000, 2**63])
def test_an_age_that_a_broker_made_up_expels_no_other_broker(claimed_us: int) -> None:
    """Check that an age with no room for the delays of further links is bounded before it is relayed."""
    world = linked_world({(0, 1): 0.010, (1, 2): 0.020})
    liar, between, last = (node.overlay for node in world.nodes)
    block = encode_block(Event({"x": 1}, b"", 77, 1, 0))
    to = [(last.me, 1, 0)]
    link = liar.neighbours[between.me].link
    run = CopyRun(link, world.now)
    run.copies.append((Publish(Confirm.NONE, block), 0, claimed_us, 0, (liar.me,), to))
    liar.outputs.append(run)
    world.nodes[0].act()
    world.run(0.5)
    assert last.counts["forged"] == 1, "it arrived, and its MAC was checked"
    assert [len(one.neighbours) for one in (liar, between, last)] == [1, 2, 1]


@pytest.mark.parametrize("durable", ["", "ledger"])
@pytest.mark.parametrize("opened_s", [0.05, 3.0])
def test_another_filter_is_answered_when_it_is_known_where_events_come_from(durable: str, opened_s: float) -> None:
    world = linked_world({(0, 1): 0.010, (1, 2): 0.300})
    world.run(1.0)
    publisher, subscriber = world.connected_client(2), world.connected_client(0)
    publisher.advertise("price >= 0")
    world.run(3.0)
    subscription = subscriber.subscribe("price >= 5", durable=durable)
    world.run(opened_s)
    subscriber.change(subscription, parse("price >= 3"))
    assert world.run_until(lambda: subscription.installed, 10.0, step_s=0.005)
    publisher.publish({"price": 4})
    world.run(2.0)
    assert subscriber.delivered == [{"price": 4}]
