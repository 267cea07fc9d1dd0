"""Advertisements between brokers: which brokers get an interest, and how events wait until all know of them."""

from __future__ import annotations

from random import Random

import pytest

from plait_broker import BrokerSettings
from plait_broker.broker import Broker
from plait_broker.clients.access import OpenGate, Principal
from plait_broker.drop_reasons import DropReason
from plait_broker.pipeline.advertisement_gate import UNUSED_S
from plait_broker.pipeline.inferred_advertisements import (
    ANYTHING,
    NARROWING_MAX,
    SHAPES_MAX,
    VALUES_MAX,
    InferredAdvertisements,
)
from plait_core import Attributes, Event
from plait_core.filters import EVERYTHING
from plait_core.wire import VERSION_MAX, VERSION_MIN, Confirm, Hello, Publish, Role, encode_block
from plait_core.wire.frame_types.overlay_frames import InterestUpdate, LinkState
from plait_core.wire.frame_types.session_frames import Done, Receipt
from plait_lab.simulation.overlay.world import World, linked_world

CHAIN = {(0, 1): 0.010, (1, 2): 0.010}


@pytest.fixture
def chain() -> World:
    return linked_world(CHAIN)


def wanted(world: World, broker: int) -> set[str]:
    """Return the filters that a broker holds as interest of other brokers."""
    interest = world.broker(broker).overlay.remote_interest
    return {text for home in interest.homes for _, text in interest.texts(home)}


def offered(world: World, broker: int) -> set[str]:
    """Return the advertisements that a broker knows of other brokers."""
    return {filter.text for filter in world.broker(broker).overlay.remote_advertisements.values()}


def test_nobody_learns_of_a_subscription_that_nobody_publishes_for(chain: World) -> None:
    subscriber = chain.connected_client(2)
    subscription = subscriber.subscribe("kind == 'alarm'")
    chain.run(0.1)
    assert subscription.installed
    assert wanted(chain, 0) == wanted(chain, 1) == set()


def test_only_brokers_whose_publishers_meet_it_learn_of_a_subscription(chain: World) -> None:
    first, second = chain.connected_client(0), chain.connected_client(1)
    first.advertise("kind == 'alarm'")
    second.advertise("kind == 'quote'")
    chain.run(0.2)
    assert first.ready
    assert second.ready
    subscription = chain.connected_client(2).subscribe("kind == 'alarm' and level > 3")
    chain.run(0.2)
    assert subscription.installed
    assert wanted(chain, 0) == {"kind == 'alarm' and level > 3"}
    assert wanted(chain, 1) == set()


def test_the_first_event_after_advertising_arrives(chain: World) -> None:
    subscriber, publisher = chain.connected_client(2), chain.connected_client(0)
    subscriber.subscribe("level > 3")
    chain.run(0.2)
    publisher.advertise("kind == 'alarm'")
    assert chain.run_until(lambda: publisher.ready, 1.0, step_s=0.001)
    publisher.publish({"kind": "alarm", "level": 5})
    chain.run(0.2)
    assert subscriber.delivered == [{"kind": "alarm", "level": 5}]


def test_events_of_a_publisher_that_does_not_advertise_arrive_all_and_in_order(chain: World) -> None:
    subscriber, publisher = chain.connected_client(2), chain.connected_client(0)
    subscriber.subscribe("level >= 0")
    chain.run(0.2)
    for level in range(20):
        publisher.publish({"kind": "alarm" if level % 2 else "quote", "level": level})
    chain.run(0.5)
    assert [event["level"] for event in subscriber.delivered] == list(range(20))
    assert offered(chain, 2) == {"kind in ['alarm', 'quote']"}


def test_what_waits_for_an_offer_is_confirmed_when_all_have_it(chain: World) -> None:
    subscriber, publisher = chain.connected_client(2), chain.connected_client(0)
    subscriber.subscribe("level >= 0")
    chain.run(0.2)
    publisher.publish({"level": 1}, Confirm.SUBSCRIBERS)
    chain.run(0.005)
    assert not publisher.heard(Receipt)
    chain.run(0.5)
    assert len(subscriber.delivered) == 1


def test_a_subscription_is_installed_only_when_all_offers_are_known(chain: World) -> None:
    publisher, subscriber = chain.connected_client(0), chain.connected_client(2)
    for level in range(200):
        if level == 50:
            subscriber.subscribe("level >= 0")
        publisher.publish({"level": level})
        chain.run(0.001)
        if subscriber.heard(Done):
            break
    installed = level
    for level in range(installed + 1, installed + 50):
        publisher.publish({"level": level})
    chain.run(0.5)
    levels = [event["level"] for event in subscriber.delivered]
    assert levels == list(range(levels[0], installed + 50))
    assert levels[0] <= installed + 1


def test_an_advertisement_that_changes_loses_nothing_meanwhile(chain: World) -> None:
    subscriber, publisher = chain.connected_client(2), chain.connected_client(0)
    subscriber.subscribe("level >= 0")
    publisher.advertise("level < 10")
    chain.run(0.2)
    publisher.advertise("level >= 10")
    for level in (3, 12, 4, 13):
        publisher.publish({"level": level})
    chain.run(0.5)
    assert [event["level"] for event in subscriber.delivered] == [3, 12, 4, 13]


def test_a_broker_that_sends_no_interest_delays_others_until_the_timeout(chain: World) -> None:
    subscriber, publisher = chain.connected_client(1), chain.connected_client(0)
    subscriber.subscribe("level >= 0")
    chain.run(0.2)
    mute = chain.broker(2).overlay
    send = mute.unicast.send
    mute.unicast.send = lambda message, now, tries=(0,): (  # type: ignore[method-assign]
        None if isinstance(message, InterestUpdate) else send(message, now, tries)
    )
    publisher.publish({"level": 1})
    chain.run(1.0)
    assert subscriber.delivered == []
    chain.run(3 * mute.settings.detect_s)
    assert subscriber.delivered == [{"level": 1}]
    assert chain.broker(0).overlay.counts["advertisements_unacked"] == 1


def test_what_is_not_published_any_more_is_not_offered_any_more(chain: World) -> None:
    publisher = chain.connected_client(0)
    publisher.publish({"kind": "alarm"})
    publisher.publish({"kind": "alarm", "level": 3})
    publisher.publish({"level": 3})
    chain.run(1.0)
    assert offered(chain, 2) == {"kind == 'alarm'", "true"}
    for _ in range(10):
        publisher.publish({"kind": "alarm"})
        chain.run(UNUSED_S / 8)
    chain.run(UNUSED_S)
    chain.run(UNUSED_S)
    assert offered(chain, 2) == set()
    publisher.publish({"level": 3})
    chain.run(1.0)
    assert offered(chain, 2) == {"true"}


def test_alone_nothing_is_offered_and_nothing_waits() -> None:
    world = linked_world({})
    publisher, subscriber = world.connected_client(0), world.connected_client(0)
    subscriber.subscribe("level >= 0")
    publisher.publish({"level": 1})
    world.run(0.001)
    assert subscriber.delivered == [{"level": 1}]
    assert world.broker(0).overlay.advertisements.revision == 0


def widen(*events: Attributes) -> list[str]:
    derived = InferredAdvertisements()
    return [derived.widen(event)[1].text for event in events]


def test_texts_and_flags_narrow_and_numbers_do_not() -> None:
    assert widen({"symbol": "IBM", "price": 3.5, "halted": False}, {"symbol": "MSFT", "price": 4, "halted": False}) == [
        "not halted and symbol == 'IBM'",
        "not halted and symbol in ['IBM', 'MSFT']",
    ]


def test_an_attribute_with_many_values_narrows_no_more() -> None:
    texts = widen(*({"symbol": f"S{number}", "kind": "q"} for number in range(VALUES_MAX + 1)))
    assert f"'S{VALUES_MAX - 1}'" in texts[-2]
    assert texts[-1] == "kind == 'q'"


def test_each_shape_is_by_itself_and_too_many_are_anything() -> None:
    derived = InferredAdvertisements()
    numbers = {derived.widen({f"a{number}": "x"})[0] for number in range(SHAPES_MAX)}
    assert len(numbers) == SHAPES_MAX
    assert derived.widen({"b": "x"}) == (ANYTHING, EVERYTHING)


def test_a_flag_is_no_number_and_no_text() -> None:
    assert widen({"a": True}, {"a": "true"})[-1] == "a in [true, 'true']"
    assert widen({"a": 1}) == ["true"]
    assert widen({"a": True}, {"a": 1})[-1] == "true"


def test_what_no_filter_can_say_narrows_nothing() -> None:
    assert widen({"not a name!": "x"}) == ["true"]
    assert widen({"long": "x" * 1000}) == ["true"]
    many = widen({f"a{number}": "x" for number in range(20)})[0]
    assert many.count("==") == NARROWING_MAX


def test_an_event_whose_new_advertisement_is_known_at_once_goes_on_in_the_same_turn() -> None:
    broker = Broker(BrokerSettings(name="b"), Random(1), OpenGate(), now=0.0, wall_us=10**15)
    broker.take_output()
    broker.overlay.map.put(LinkState(99, 1, "out of reach", (), ()))
    hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "c", 7, (), None, None)
    session = broker.sessions.open(hello, Principal("c"))
    event = Event.checked({"x": 1}, b"", publisher=7, sequence=1)
    gate = broker._gate
    assert gate.holds(session, Publish(Confirm.NONE, encode_block(event)), 0.0)
    (number,) = gate._filters
    gate._inferred.forget(number)
    gate.withdraw(number)  # the event needs another one
    broker.take_output()
    assert not gate.waits
    assert broker.counters.dropped[DropReason.UNMATCHED] == 1, "it has gone through the pipeline"
