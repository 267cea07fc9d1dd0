"""The system stream through several brokers, on virtual time: a subscriber at one receives the records of all."""

from __future__ import annotations

from collections import Counter

from plait_core.wire import Deliver
from plait_lab.simulation.overlay.world import linked_world

LINE = {(0, 1): 0.002, (1, 2): 0.002}
RING = {**LINE, (2, 3): 0.005, (3, 0): 0.001}


def test_who_listens_at_one_broker_hears_of_all() -> None:
    world = linked_world(LINE)
    watcher, publisher, reader = world.connected_client(0), world.connected_client(2), world.connected_client(1)
    watcher.subscribe("$kind in ['publish', 'arrival', 'delivery']")
    reader.subscribe("n > 0")
    world.run(1.0)
    assert watcher.ready
    publisher.publish({"n": 5})
    world.run(1.0)
    said = watcher.delivered
    assert [(each["$kind"], each["$sequence"]) for each in said if each["$kind"] == "publish"] == [("publish", 1)]
    assert Counter(each["$broker"] for each in said) == {world.nodes[1].name: 2, world.nodes[2].name: 1}
    assert reader.delivered == [{"n": 5}]


def test_two_who_listen_to_everything_do_not_feed_each_other() -> None:
    world = linked_world(RING)
    watchers = [world.connected_client(0), world.connected_client(2)]
    for watcher in watchers:
        watcher.subscribe("has($kind)")
    world.run(3.0)
    before = [len(watcher.delivered) for watcher in watchers]
    world.run(10.0)
    grown = [len(watcher.delivered) - count for watcher, count in zip(watchers, before, strict=True)]
    per_second = 4 * (1 + 2 + 2)  # each broker samples its queues, its two links and their lanes
    assert all(count <= 11 * per_second for count in grown), grown
    kinds = Counter(str(each["$kind"]) for each in watchers[0].delivered)
    assert not {"publish", "arrival", "forward", "delivery", "drop"} & set(kinds), kinds
    assert grown[0] >= 9 * per_second


def test_an_ordinary_filter_neither_covers_nor_is_covered_by_one_of_the_systems() -> None:
    world = linked_world(LINE)
    publisher, both = world.connected_client(2), world.connected_client(0)
    numbers = [both.subscribe(filter).number for filter in ("true", "$kind == 'publish'", "has($kind)")]
    world.run(1.0)
    publisher.publish({"n": 1})
    world.run(1.0)
    by_subscription = Counter(
        (subscription, str(frame.attributes().get("$kind", "n")))
        for frame in both.heard(Deliver)
        for subscription, _, _ in frame.deliveries
        if frame.attributes().get("$kind", "publish") == "publish"
    )
    assert by_subscription == dict.fromkeys(zip(numbers, ("n", "publish", "publish"), strict=True), 1)


def test_when_nobody_listens_any_more_nobody_records() -> None:
    world = linked_world(LINE)
    watcher = world.connected_client(0)
    subscription = watcher.subscribe("$kind == 'drop'")
    world.run(1.0)
    brokers = [world.broker(number) for number in range(3)]
    assert all(broker.system.live for broker in brokers)
    watcher.unsubscribe(subscription)
    world.run(1.0)
    assert not any(broker.system.live for broker in brokers)
    assert all(broker.telemetry is None for broker in brokers)
