"""Repeat an event at another broker while the log of its home broker is still storing the first copy."""

from __future__ import annotations

import pytest

from plait_broker.drop_reasons import DropReason
from plait_core.wire import Confirm
from plait_lab.simulation.overlay.custody_oracle import CustodyOracle
from plait_lab.simulation.overlay.frame_client import FrameClient, FrameSubscription, PublishedEvent
from plait_lab.simulation.overlay.world import World, linked_world

SLOW_S = 0.2
"""Time added to each write of the home broker's disk: many times the delays of the links."""

FIRST, HOME, OTHER = 0, 1, 2
"""The broker where the event is published first, the subscriber's home broker, and a third one."""


class Repetition:
    """An event for a durable subscription. Its publisher's broker dies when the home broker has received the event."""

    def __init__(self) -> None:
        self.world: World = linked_world({(FIRST, HOME): 0.002, (OTHER, HOME): 0.002})
        self.custody = CustodyOracle(self.world)
        self._publisher: FrameClient = self.world.connected_client(FIRST)
        subscriber = self.world.connected_client(HOME)
        self._publisher.advertise("x >= 0")
        self.subscription: FrameSubscription = subscriber.subscribe("x >= 0", durable="d")
        self._clients = [self.world.connected_client(at, publisher=self._publisher.publisher) for at in (HOME, OTHER)]
        for client in self._clients:
            client.advertise("x >= 0")
        self.world.run(2.0)
        assert self.world.ready

    @property
    def stored(self) -> bool:
        """Whether the home broker's disk has the event."""
        disk = self.world.nodes[HOME].disk
        return disk is not None and disk.holds(self.world.events[0].id)

    def publish(self, confirm: Confirm) -> None:
        """Publish the event, and kill its broker while the home broker's disk writes."""
        home = self.world.broker(HOME)
        disk = self.world.nodes[HOME].disk
        assert disk is not None
        disk.terms.slow_s = SLOW_S
        self._publisher.publish({"x": 1}, confirm)
        assert self.world.run_until(lambda: home.counters.logged == 1, 1.0, step_s=0.001)
        assert not self.stored
        self.world.nodes[FIRST].kill()

    def repeat(self, at: int, confirm: Confirm) -> PublishedEvent:
        """Publish the event again at another broker."""
        (client,) = (client for client in self._clients if client.node.number == at)
        event = client.publish({"x": 1}, confirm, sequence=self._publisher.sequence)
        assert event is not None
        assert event.id == self.world.events[0].id
        return event


@pytest.mark.parametrize("confirm", [Confirm.BROKER, Confirm.SUBSCRIBERS])
@pytest.mark.parametrize("at", [HOME, OTHER])
def test_a_repeated_event_is_confirmed_once_its_first_copy_is_stored(at: int, confirm: Confirm) -> None:
    repetition = Repetition()
    repetition.publish(confirm)
    event = repetition.repeat(at, confirm)
    home = repetition.world.broker(HOME)
    assert repetition.world.run_until(lambda: event.confirmed, 5.0, step_s=0.001)
    assert repetition.stored, "kill -9 of the home broker loses nothing"
    assert not repetition.world.complaints
    assert home.counters.dropped[DropReason.DUPLICATE] == 1
    assert home.counters.logged == 1, "it is stored once"
    assert len(repetition.subscription.received) == 1


@pytest.mark.parametrize("at", [HOME, OTHER])
def test_a_repeated_event_is_refused_if_its_first_copy_cannot_be_stored(at: int) -> None:
    repetition = Repetition()
    disk = repetition.world.nodes[HOME].disk
    assert disk is not None
    disk.terms.failing = 1.0
    repetition.publish(Confirm.BROKER)
    event = repetition.repeat(at, Confirm.BROKER)
    assert repetition.world.run_until(lambda: bool(event.refused), 5.0, step_s=0.001)
    assert (event.refused, event.confirmed, repetition.stored) == ("durability", False, False)


@pytest.mark.parametrize("at", [HOME, OTHER])
def test_a_repeated_event_is_refused_if_its_first_copy_could_not_be_stored(at: int) -> None:
    repetition = Repetition()
    home = repetition.world.broker(HOME)
    disk = repetition.world.nodes[HOME].disk
    assert disk is not None
    disk.terms.failing = 1.0
    repetition.publish(Confirm.BROKER)
    assert repetition.world.run_until(lambda: home.counters.dropped[DropReason.DURABILITY] == 1, 5.0)
    event = repetition.repeat(at, Confirm.BROKER)
    assert repetition.world.run_until(lambda: event.confirmed or bool(event.refused), 5.0, step_s=0.001)
    assert (event.refused, event.confirmed) == ("durability", False)
