"""Delays across brokers: events state their true delay, delay bounds hold, and expired events are dropped in place.

Whole brokers on virtual time (`plait_lab.simulation.overlay.linked_brokers`); `tests/integration/test_tracing.py`
uses real processes.
"""

from __future__ import annotations

from typing import Any

import pytest

from plait_broker import DropReason
from plait_broker.overlay.transport.event_copy import EventCopy
from plait_core import Event
from plait_core.wire import Confirm, Deliver, Destination, Publish, encode_block, encode_publish
from plait_core.wire.frame_types.session_frames import LATE, Late, Notice, Subscribe
from plait_lab.simulation.overlay.linked_brokers import CLIENT_DELAY_S, FrameClient, LinkedBrokers

SLOW_US = 60_000
CHAIN = {(0, 1): 0.010, (1, 2): SLOW_US / 1e6}
WAY_US = 70_000


@pytest.fixture
def world() -> LinkedBrokers:
    world = LinkedBrokers(CHAIN)
    world.run()
    return world


def publisher_of(world: LinkedBrokers) -> FrameClient:
    publisher = world.client(0)
    publisher.advertise("price >= 0")
    world.run(6.0)  # by then the delay between it and its broker is measured
    return publisher


def subscriber_of(world: LinkedBrokers, broker: int, **terms: Any) -> FrameClient:
    subscriber = world.client(broker)
    subscriber.subscribe("price > 10", **terms)
    world.run(6.0)
    assert subscriber.done(1)
    return subscriber


def dropped(world: LinkedBrokers, reason: DropReason) -> list[int]:
    return [face.broker.counters.dropped[reason] for face in world.brokers]


def test_an_event_tells_the_truth_of_its_way(world: LinkedBrokers) -> None:
    publisher, subscribers = publisher_of(world), [subscriber_of(world, broker) for broker in range(3)]
    publisher.publish({"price": 11})
    world.run(1.0)
    ids = [face.broker.id for face in world.brokers]
    for hops, (subscriber, way_us) in enumerate(zip(subscribers, (0, 10_000, WAY_US), strict=True)):
        (frame,) = subscriber.heard(Deliver)
        assert list(frame.path) == ids[: hops + 1]
        assert frame.delay_us == pytest.approx(way_us + CLIENT_DELAY_S * 1e6, rel=0.02, abs=50)


@pytest.mark.parametrize(("within_us", "late"), [(WAY_US + 5_000, False), (WAY_US - 5_000, True)])
@pytest.mark.parametrize("policy", [Late.DROP, Late.FLAG])
def test_a_delay_bound_holds_over_a_slow_link(world: LinkedBrokers, within_us: int, late: bool, policy: Late) -> None:
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
        assert [frame.deliveries[0].flags & LATE for frame in heard] == [LATE * late] * 5
        assert dropped(world, DropReason.LATE) == [0, 0, 0]


def test_a_link_that_becomes_slow_makes_events_late(world: LinkedBrokers) -> None:
    publisher = publisher_of(world)
    bound = subscriber_of(world, 2, within_us=100_000, late=Late.FLAG)
    publisher.publish({"price": 11})
    world.run(1.0)
    world.wire(1, 2).delay_s = 0.2
    world.run(5.0)
    publisher.publish({"price": 12})
    world.run(1.0)
    assert [frame.deliveries[0].flags & LATE for frame in bound.heard(Deliver)] == [0, LATE]


@pytest.mark.parametrize(("lifetime_us", "dies_at"), [(5_000, 1), (40_000, 2), (200_000, None)])
def test_what_expires_on_its_way_dies_there_and_delays_nobody(
    world: LinkedBrokers, lifetime_us: int, dies_at: int | None
) -> None:
    publisher, subscriber = publisher_of(world), subscriber_of(world, 2)
    publisher.sequence += 1
    lifetime_share = Event.checked(
        {"price": 99}, publisher=publisher.publisher, sequence=publisher.sequence, lifetime_us=lifetime_us
    )
    world.carry(publisher.wire, publisher, encode_publish(lifetime_share))
    publisher.publish({"price": 12})
    world.run(3.0)
    prices = [event["price"] for event in subscriber.delivered]
    expired = dropped(world, DropReason.EXPIRED)
    if dies_at is None:
        assert (prices, expired) == ([99, 12], [0, 0, 0])
        return
    assert prices == [12]
    died = [face.broker.overlay.counts["expired"] for face in world.brokers]
    assert died[1] == (dies_at == 1), "it is known where"
    assert sum(expired) == 1, "and counted once"
    (after,) = subscriber.heard(Deliver)
    if dies_at == 2:
        assert after.delay_us == pytest.approx(WAY_US, rel=0.02), "who comes after it does not wait for it"
    assert after.delay_us < WAY_US * 5, "nor for long, when its place has to be asked for"


@pytest.mark.parametrize("claimed_us", [2**64 - 1, 2**64 - 15_000, 2**63])
def test_an_age_that_a_broker_made_up_expels_no_other_broker(claimed_us: int) -> None:
    """Check that an age with no room for the delays of further links is bounded before it is relayed."""
    world = LinkedBrokers({(0, 1): 0.010, (1, 2): 0.020})
    world.run()
    liar, between, last = (one.broker.overlay for one in world.brokers)
    block = encode_block(Event({"x": 1}, b"", 77, 1, 0))
    to = [Destination(last.me, 1, 0)]
    link = liar.neighbours[between.me].link
    liar.outputs.append(EventCopy(link, Publish(Confirm.NONE, block), 0, claimed_us, 0, (liar.me,), to, world.now))
    world.brokers[0].act()
    world.run(0.5)
    assert last.counts["forged"] == 1, "it arrived, and its MAC was checked"
    assert [len(one.neighbours) for one in (liar, between, last)] == [1, 2, 1]


@pytest.mark.parametrize("durable", ["", "ledger"])
@pytest.mark.parametrize("opened_s", [0.05, 3.0])
def test_another_filter_is_answered_when_it_is_known_where_events_come_from(durable: str, opened_s: float) -> None:
    world = LinkedBrokers({(0, 1): 0.010, (1, 2): 0.300})
    world.run(4.0)
    publisher, subscriber = world.client(2), world.client(0)
    publisher.advertise("price >= 0")
    world.run(3.0)
    subscriber.subscribe("price >= 5", 5, durable=durable)
    world.run(opened_s)
    subscriber.write(Subscribe(7, 5, "price >= 3", durable=durable))
    while not subscriber.done(7):
        world.run(0.005)
    publisher.publish({"price": 4})
    world.run(2.0)
    assert subscriber.delivered == [{"price": 4}]
