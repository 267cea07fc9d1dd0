"""An event with undecodable attributes, published while earlier events wait, affects only its own publisher."""

from __future__ import annotations

import pytest
from two_brokers import TwoBrokers

from plait_broker.drop_reasons import DropReason
from plait_core import Event
from plait_core.wire import Confirm, Publish, encode_publish
from plait_core.wire.event_block import encode_plain_block
from plait_lab.simulation.overlay.frame_client import FrameClient
from plait_lab.simulation.overlay.world import linked_world


def publish_unreadable(client: FrameClient, name: str) -> None:
    client.sequence += 1
    event = Event.checked({name: "x"}, b"", publisher=client.publisher, sequence=client.sequence)
    data = bytearray(encode_publish(event, Confirm.NONE))
    data[data.index(name.encode()) - 1] = 0xC1  # no MessagePack value begins with it
    client.write_bytes(bytes(data))


@pytest.mark.parametrize("first", [{"symbol": "x"}, {"n": 1}])
def test_it_does_not_wait_for_an_advertisement(first: dict[str, object]) -> None:
    world = linked_world({(0, 1): 0.01})
    publisher, other, subscriber = (
        world.connected_client(0),
        world.connected_client(0, "other"),
        world.connected_client(1),
    )
    subscriber.subscribe("has(symbol) or has(n)")
    world.run(0.1)
    publisher.publish(first)
    publish_unreadable(publisher, "kind")
    other.publish({"symbol": "y"})
    world.run(1.0)
    assert world.broker(0).counters.faults["body"] == 1
    assert not world.broker(0)._gate.waits
    assert subscriber.delivered == [first, {"symbol": "y"}]


def test_unreadable_events_that_a_broker_itself_has_published_leave_nothing_behind() -> None:
    brokers = TwoBrokers()
    here, there = brokers.brokers
    for sequence in (1, 2, 3):
        block = encode_plain_block({"kind": "x"}, b"", there.id, sequence, 1)
        assert block is not None
        unreadable = Publish(Confirm.NONE, block.replace(b"\xa4kind\xa1x", b"\xa4kind\xc1x"))
        there.overlay.publish(unreadable, [here.id], 0, 0, brokers.now)
    brokers.run(1.0)
    assert here.counters.dropped[DropReason.INVALID] == 3
    assert not here.overlay.event_streams.incoming[there.id]._taken
    assert not there.overlay.event_streams.outgoing[here.id].kept, "they are acked"
