"""A publisher without a confirmation repeats an event at another broker, which knows it. No other client may do so."""

from __future__ import annotations

import pytest

from plait_core import Event
from plait_core.wire import Confirm, encode_publish
from plait_core.wire.frame_types.session_frames import Receipt
from plait_lab.simulation.overlay.linked_brokers import CLIENT_DELAY_S, FrameClient, LinkedBrokers

FAR_S = 0.2
"""Delay of the link to the far broker. The sending broker dies before the copy arrives there."""


@pytest.fixture
def triangle() -> LinkedBrokers:
    world = LinkedBrokers({(0, 1): 0.001, (0, 2): FAR_S, (1, 2): 1.5 * FAR_S})
    world.run()
    return world


def moved(client: FrameClient, to: int) -> FrameClient:
    """Connect the same publisher to another broker, and repeat its advertisement there."""
    there = FrameClient(client.world, client.world.brokers[to], "client", client.publisher)
    client.world.run(10 * CLIENT_DELAY_S)
    there.advertise("n >= 0")
    while not there.done(101):
        client.world.run(0.01)
    return there


def repeat(client: FrameClient, sequence: int, attributes: dict[str, int]) -> None:
    event = Event.checked(attributes, b"", publisher=client.publisher, sequence=sequence)
    client.world.carry(client.wire, client, encode_publish(event, Confirm.BROKER))


def test_who_had_not_got_it_gets_it_before_it_is_confirmed(triangle: LinkedBrokers) -> None:
    near, far = triangle.client(1, "near"), triangle.client(2, "far")
    publisher = triangle.client(0)
    publisher.advertise("n >= 0")
    for subscriber in (near, far):
        subscriber.subscribe("n >= 0")
    triangle.run(4 * FAR_S)
    sequence = publisher.publish({"n": 1}, Confirm.BROKER)
    triangle.run(FAR_S / 4)
    assert near.delivered == [{"n": 1}]
    for wire in (triangle.wire(0, 1), triangle.wire(0, 2), publisher.wire):
        triangle.hang_up(wire)  # its broker is gone, with the copy for the far one
    triangle.run(20 * FAR_S)
    assert far.delivered == []
    again = moved(publisher, 1)
    repeat(again, sequence, {"n": 1})
    while not again.heard(Receipt):
        triangle.run(0.01)
    assert far.delivered, "it is confirmed once all have it"
    triangle.run(4 * FAR_S)
    assert far.delivered == near.delivered == [{"n": 1}], "and nobody has it twice"
