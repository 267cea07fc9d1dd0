"""Events of other brokers that are dropped here: acked, counted, and reported to a publisher that waits for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from copies import publish

from plait_broker import BrokerSettings
from plait_broker.drop_reasons import DropReason
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.envelope_frames import EndToEnd, read_message
from plait_core.wire.frame_types.overlay_frames import DeliveryOutcome
from plait_core.wire.frame_types.session_frames import Refusal
from plait_lab.simulation.overlay.network import LinkConnection
from plait_lab.simulation.overlay.wire_tap import decode
from plait_lab.simulation.overlay.world import LINKED, linked_world

DELAY_S = 0.000_001


class Destination:
    """A broker that gets events from another one."""

    def __init__(self) -> None:
        self.world = linked_world({(0, 1): DELAY_S})
        self.root, self.here = self.world.broker(0), self.world.broker(1)
        self._outcomes: list[DeliveryOutcome] = []
        self.world.wire.see_writes(self._see_write)
        self.world.client(1).subscribe("y >= 0")  # so that the attributes of events are decoded
        self.world.run(1.0)
        assert len(self.here.interest) == 1

    def send(self, frame: EventFrame, *, confirm: bool, delay_us: int = 0) -> list[DeliveryOutcome]:
        """Send an event from the root. Return the outcomes that come back."""
        self._outcomes.clear()
        level = Confirm.SUBSCRIBERS if confirm else Confirm.NONE
        self.root.tick(self.world.now)
        self.root._remote_confirmations.publish(frame, [self.here.id], delay_us, self.world.now, level)
        self.world.nodes[0].act()
        self.world.run(0.3)
        return list(self._outcomes)

    def _see_write(self, connection: LinkConnection, side: int, data: bytes) -> None:
        if connection.ends[side] is self.world.nodes[1]:
            messages = [read_message(frame, 0) for frame in decode(data) if isinstance(frame, EndToEnd)]
            self._outcomes += [message for message in messages if isinstance(message, DeliveryOutcome)]

    @property
    def unacked(self) -> int:
        """How many events the root keeps for this broker."""
        return len(self.root.overlay.event_streams.outgoing[self.here.id].kept)

    def dropped(self, reason: DropReason) -> int:
        return self.here.counters.dropped[reason]


@pytest.fixture
def destination() -> Destination:
    return Destination()


def unreadable() -> Publish:
    """Return an event whose attributes no broker can decode."""
    block = bytearray(publish(7).block)
    block[block.index(b"x") - 1] = 0xC1  # no MessagePack value begins with it
    return Publish(Confirm.NONE, bytes(block))


def test_a_repeated_event_is_acked_and_its_publisher_gets_an_outcome(destination: Destination) -> None:
    (first,) = destination.send(publish(), confirm=True)
    assert (first.code, first.matched, destination.dropped(DropReason.DUPLICATE)) == ("", 0, 0)
    (second,) = destination.send(publish(), confirm=True)
    assert second.code == "", "it has arrived before"
    assert second.position == first.position + 1
    assert destination.dropped(DropReason.DUPLICATE) == 1
    assert destination.unacked == 0


def test_an_expired_event_is_acked_and_refused(destination: Destination) -> None:
    (outcome,) = destination.send(publish(lifetime_us=1_000_000), confirm=True, delay_us=999_990)
    assert outcome.code == ""
    (outcome,) = destination.send(publish(2, lifetime_us=1_000_000), confirm=True, delay_us=1_000_001)
    assert outcome.code == "expired"
    assert destination.dropped(DropReason.EXPIRED) == 1
    assert destination.unacked == 0


def test_an_unreadable_event_is_acked_and_refused(destination: Destination) -> None:
    (outcome,) = destination.send(unreadable(), confirm=True)
    assert outcome.code == "invalid"
    assert destination.dropped(DropReason.INVALID) == 1
    assert destination.unacked == 0


@pytest.mark.parametrize("frame", [publish(3, lifetime_us=1), unreadable()], ids=["expired", "unreadable"])
def test_a_dropped_event_without_confirmation_causes_no_outcome(destination: Destination, frame: Publish) -> None:
    assert destination.send(frame, confirm=False, delay_us=5) == []
    assert sum(destination.here.counters.dropped.values()) == 1
    assert destination.unacked == 0


def test_a_publisher_learns_at_once_that_its_event_is_given_up() -> None:
    """Check it for events that waited for their advertisement: the loss and the refusal are of one turn."""
    settings = BrokerSettings(overlay_stream_items_max=1)
    world = linked_world({(0, 1): 0.05}, terms=replace(LINKED, settings=settings))
    subscriber, publisher = world.connected_client(1), world.connected_client(0)
    subscriber.subscribe("x >= 0")
    world.run(3.0)
    here = world.broker(0)
    for x in (1, 2, 3):  # the first is on its way, and one may wait
        publisher.publish({"x": x}, Confirm.BROKER)
    while not here.counters.dropped[DropReason.OVERLAY_FULL]:
        assert world.now < 30.0
        world.run(0.001)
    assert not here.confirmations.settled, "no outcome waits for the next input"
    world.run(0.005)
    assert [(refusal.sequence, refusal.code) for refusal in publisher.heard(Refusal)] == [(2, "unavailable")]
