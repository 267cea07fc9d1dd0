"""Sealed events routed by their tags through brokers in a cycle, on virtual time.

No attribute is in the clear. Each event reaches, in order, the subscribers whose keys open it, however long the tag
tests take.
"""

from __future__ import annotations

from random import Random

import pytest
from sealed_world import HOUR_US, areas
from sealed_world import World as SealedWorld

from plait_broker import DropReason
from plait_broker.pipeline.sealed_matching import TEST_S
from plait_broker.pipeline.tag_tests import OPENING_TESTS, PARTS_RUNNING_MAX
from plait_core.filters import parse
from plait_core.limits import DEPOSIT_BYTES_MAX
from plait_core.sealed_opening import SEALED, SEALED_HEAD
from plait_core.wire import Confirm, Deliver
from plait_core.wire.frame_types.session_frames import Receipt
from plait_crypto import Draft, PayloadSealer, SessionSealer, deposit
from plait_lab.simulation.overlay.frame_client import FrameClient
from plait_lab.simulation.overlay.world import World, linked_world

SQUARE = {(0, 1): 0.002, (1, 2): 0.002, (2, 3): 0.002, (3, 0): 0.002}
LONDON, PARIS = {"area": 3, "location": "London"}, {"area": 99, "location": "Paris"}


class Sealing:
    """The publisher's part of a realm. It seals the test's events."""

    def __init__(self, seed: int = 1) -> None:
        self.world = SealedWorld.of(areas(), seed)
        self.mark = {SEALED: self.world.realm.short_name.hex()}
        self.parcels = PayloadSealer(SessionSealer(self.world.publisher()))

    def seal(self, attributes: dict[str, object]) -> bytes:
        """Seal an event with all attributes hidden and return its payload."""
        clear, payload = self.parcels.seal(
            Draft(attributes),  # type: ignore[arg-type]
            now_us=self.world.now_us,
            randomness=self.world.rng,
        )
        assert not clear
        return payload

    def anew(self) -> None:
        """The next event begins a session."""
        self.parcels = PayloadSealer(SessionSealer(self.world.publisher()))

    def deposit(self, filter: str) -> bytes:
        return deposit(self.world.groups, [self.world.keys(filter).routing(self.world.groups)])

    @property
    def filter(self) -> str:
        return f"{SEALED} == '{self.mark[SEALED]}'"


def payloads(client: FrameClient) -> list[bytes]:
    return [frame.payload for frame in client.heard(Deliver)]


@pytest.fixture
def sealing() -> Sealing:
    return Sealing()


def town(sealing: Sealing) -> tuple[World, FrameClient, dict[str, FrameClient]]:
    """Build a square of brokers: a publisher at the first, and readers with different keys at the others."""
    world = linked_world(SQUARE)
    publisher = world.connected_client(0)
    readers = {}
    for broker, filter in ((1, "location == 'London'"), (2, "area >= 64"), (3, "area < 16 and location == 'Paris'")):
        reader = readers[filter] = world.connected_client(broker)
        reader.subscribe(sealing.filter, routing=sealing.deposit(filter))
    publisher.advertise(sealing.filter)
    world.run(1.0)
    assert world.ready
    return world, publisher, readers


def test_what_is_all_hidden_goes_where_its_tags_say(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    sent = [(kind, sealing.seal(kind)) for kind in [LONDON, PARIS, LONDON, {"area": 20, "location": "Paris"}] * 5]
    for _, payload in sent:
        publisher.publish(sealing.mark, payload=payload, confirm=Confirm.BROKER)
    world.run(2.0)
    london, high, neither = readers.values()
    assert payloads(london) == [payload for kind, payload in sent if kind is LONDON]
    assert payloads(high) == [payload for kind, payload in sent if kind is PARIS]
    assert not payloads(neither)
    assert [world.broker(number).counters.arrived for number in range(4)] == [0, 10, 5, 0], "pruned at the publisher's"
    assert world.broker(0).counters.dropped[DropReason.UNMATCHED] == 5
    assert sum(len(receipt.sequences) for receipt in publisher.heard(Receipt)) == len(sent)


def test_steady_traffic_is_tested_once_for_each_session(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    for _ in range(50):
        publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(1.0)
    assert len(payloads(next(iter(readers.values())))) == 50
    assert [node.tag_tests for node in world.nodes] == [3, 1, 0, 0], "one for each deposit"
    sealing.anew()
    publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(1.0)
    assert [node.tag_tests for node in world.nodes] == [6, 2, 0, 0]


def test_a_publishers_order_holds_and_others_wait_for_nothing(sealing: Sealing) -> None:
    world, publisher, _ = town(sealing)
    world.nodes[0].tag_test_s = 0.5
    mine, other = world.connected_client(0), world.connected_client(0)
    mine.subscribe("true")
    world.run(0.5)
    order = []
    for number in range(6):
        payload = sealing.seal(PARIS) if number % 2 else b"plain %d" % number
        publisher.publish(sealing.mark if number % 2 else {"n": number}, payload=payload)
        order.append(payload)
    other.publish({"n": 99}, payload=b"another's")
    world.run(0.1)
    assert payloads(mine) == [order[0], b"another's"], "what is behind a test waits; nobody else does"
    world.run(2.0)
    assert [payload for payload in payloads(mine) if payload != b"another's"] == order


def test_a_test_that_does_not_end_costs_traffic_and_no_event(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    for node in world.nodes:
        node.tag_test_s = None
    publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(TEST_S / 2)
    assert not any(payloads(reader) for reader in readers.values())
    world.run(2 * TEST_S)
    assert [len(payloads(reader)) for reader in readers.values()] == [1, 1, 1], "readers decide by themselves"
    assert world.broker(0).counters.tags["untested"] == 3, "deposits"


def test_keys_of_other_epochs_leave_it_to_the_reader(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    sealing.world.now_us += 24 * HOUR_US
    sealing.anew()
    publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(1.0)
    assert [len(payloads(reader)) for reader in readers.values()] == [1, 1, 1]
    _, high, _ = readers.values()
    (subscription,) = high.subscriptions.values()
    subscription.terms["routing"] = sealing.deposit("area >= 64")
    high.change(subscription, subscription.filter)
    world.run(1.0)
    assert subscription.installed
    publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(1.0)
    assert [len(payloads(reader)) for reader in readers.values()] == [2, 1, 2], "who has deposited new keys is pruned"


def test_whoever_deposits_nothing_gets_what_the_clear_says(sealing: Sealing) -> None:
    """One broker's subscriptions with and without keys: a filter covers those with the same deposit alone."""
    world, publisher, _ = town(sealing)
    keyed, plain = world.connected_client(2), world.connected_client(2)
    keyed.subscribe(sealing.filter, routing=sealing.deposit("location == 'London'"))
    world.run(1.0)
    publisher.publish(sealing.mark, payload=sealing.seal(LONDON))
    world.run(1.0)
    assert len(payloads(keyed)) == 1, "another subscription there has other keys"
    subscription = plain.subscribe(sealing.filter)
    world.run(1.0)
    for kind in (PARIS, LONDON):
        publisher.publish(sealing.mark, payload=sealing.seal(kind))
    world.run(1.0)
    assert (len(payloads(keyed)), len(payloads(plain))) == (2, 2)
    plain.change(subscription, parse("n > 3"))
    world.run(1.0)
    publisher.publish(sealing.mark, payload=sealing.seal({"area": 20, "location": "Paris"}))
    world.run(1.0)
    assert (len(payloads(keyed)), len(payloads(plain))) == (2, 2), "what it covered is asked for again, with its keys"


def test_what_has_no_tags_is_counted_and_costs_a_bounded_time(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    good = sealing.seal(LONDON)
    rng = Random(1)
    hostile = [b"", b"nothing of the kind", SEALED_HEAD.pack(1, 5) + b"short", good[: len(good) // 3]]
    off_curve = bytearray(good)
    at = SEALED_HEAD.size + 42 + 1 + 2 + 80
    off_curve[at : at + 48] = b"\xc0" + bytes(47)
    hostile.append(bytes(off_curve))
    hostile += [SEALED_HEAD.pack(1, 500) + rng.randbytes(600) for _ in range(20)]
    for payload in hostile:
        publisher.publish(sealing.mark, payload=payload)
    publisher.publish(sealing.mark, payload=good)
    world.run(3.0)
    first = world.nodes[0]
    assert first.broker.counters.dropped[DropReason.BAD_TAGS] == len(hostile)
    assert [len(payloads(reader)) for reader in readers.values()] == [1, 0, 0]
    assert not first.broker.counters.tags["untested"]


def test_tests_of_one_publisher_leave_room_for_others(sealing: Sealing) -> None:
    """A publisher that begins a session with every event gets a few tests at a time; its other events wait."""
    world, publisher, readers = town(sealing)
    world.nodes[0].tag_test_s = 0.01
    rng = Random(2)
    template = sealing.seal(LONDON)
    at = SEALED_HEAD.size + 30
    for _ in range(200):  # each another opening
        publisher.publish(sealing.mark, payload=template[:at] + rng.randbytes(4) + template[at + 4 :])
    world.run(0.005)
    assert world.nodes[0].tag_tests == PARTS_RUNNING_MAX
    honest = world.connected_client(0)
    honest.publish(sealing.mark, payload=sealing.seal(PARIS))
    world.run(0.2)
    assert len(payloads(list(readers.values())[1])) == 1, "it has overtaken the crowd"
    world.run(10.0)
    assert not world.broker(0)._tags.waits


def test_a_deposit_beyond_its_bound_is_refused(sealing: Sealing) -> None:
    world = linked_world({})
    client = world.connected_client(0)
    with pytest.raises(ValueError, match="routing"):
        client.subscribe(sealing.filter, routing=bytes(DEPOSIT_BYTES_MAX + 1))


def test_a_client_beyond_its_budget_is_named_and_harms_only_itself(sealing: Sealing) -> None:
    world, publisher, readers = town(sealing)
    london = next(iter(readers.values()))
    hostile = world.connected_client(1)
    for number in range(OPENING_TESTS + 1):
        hostile.subscribe(sealing.filter, routing=b"no tokens, number %d" % number)
    world.run(1.0)
    for _ in range(3):
        sealing.anew()
        for kind in (LONDON, PARIS):
            publisher.publish(sealing.mark, payload=sealing.seal(kind))
    world.run(4.0)
    assert (len(payloads(london)), len(payloads(hostile))) == (3, 6)
    tags = world.broker(1).counters.tags
    assert tags["over_budget"] == 6, "on each opening"
    (remark,) = world.nodes[1].remarks
    assert "routing tokens of client" in remark
    assert "more tests than its budget" in remark
    assert not world.nodes[0].remarks, "a broker has the budget of several clients"
