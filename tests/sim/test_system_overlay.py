"""The system stream through several brokers, on virtual time: a subscriber at one receives the records of all."""

from __future__ import annotations

from collections import Counter

from plait_core.wire import Deliver
from plait_core.wire.frame_types.session_frames import Unsubscribe
from plait_lab.simulation.overlay.linked_brokers import LinkedBrokers

LINE = {(0, 1): 0.002, (1, 2): 0.002}
RING = {**LINE, (2, 3): 0.005, (3, 0): 0.001}


def test_who_listens_at_one_broker_hears_of_all() -> None:
    world = LinkedBrokers(LINE)
    world.run()
    watcher, publisher, reader = world.client(0), world.client(2), world.client(1)
    watcher.subscribe("$kind in ['publish', 'arrival', 'delivery']")
    reader.subscribe("n > 0")
    world.run(1.0)
    assert watcher.done(1)
    publisher.publish({"n": 5})
    world.run(1.0)
    said = watcher.delivered
    assert [(each["$kind"], each["$sequence"]) for each in said if each["$kind"] == "publish"] == [("publish", 1)]
    assert Counter(each["$broker"] for each in said) == {world.brokers[1].name: 2, world.brokers[2].name: 1}
    assert reader.delivered == [{"n": 5}]


def test_two_who_listen_to_everything_do_not_feed_each_other() -> None:
    world = LinkedBrokers(RING)
    world.run()
    watchers = [world.client(0), world.client(2)]
    for watcher in watchers:
        watcher.subscribe("has($kind)")
    world.run(3.0)
    before = [len(watcher.delivered) for watcher in watchers]
    world.run(10.0)
    grown = [len(watcher.delivered) - count for watcher, count in zip(watchers, before, strict=True)]
    per_second = 4 * (1 + 2)  # each broker samples its queues and its two links
    assert all(count <= 11 * per_second for count in grown), grown
    kinds = Counter(str(each["$kind"]) for each in watchers[0].delivered)
    assert not {"publish", "arrival", "forward", "delivery", "drop"} & set(kinds), kinds
    assert grown[0] >= 9 * per_second


def test_an_ordinary_filter_neither_covers_nor_is_covered_by_one_of_the_systems() -> None:
    world = LinkedBrokers(LINE)
    world.run()
    publisher, both = world.client(2), world.client(0)
    both.subscribe("true", 1)
    both.subscribe("$kind == 'publish'", 2)
    both.subscribe("has($kind)", 3)
    world.run(1.0)
    publisher.publish({"n": 1})
    world.run(1.0)
    by_subscription = Counter(
        (named.subscription, str(frame.attributes().get("$kind", "n")))
        for frame in both.heard(Deliver)
        for named in frame.deliveries
        if frame.attributes().get("$kind", "publish") == "publish"
    )
    assert by_subscription == {(1, "n"): 1, (2, "publish"): 1, (3, "publish"): 1}


def test_when_nobody_listens_any_more_nobody_records() -> None:
    world = LinkedBrokers(LINE)
    world.run()
    watcher = world.client(0)
    watcher.subscribe("$kind == 'drop'")
    world.run(1.0)
    assert all(face.broker.system.live for face in world.brokers)
    watcher.write(Unsubscribe(2, 1))
    world.run(1.0)
    assert not any(face.broker.system.live for face in world.brokers)
    assert all(face.broker.telemetry is None for face in world.brokers)
