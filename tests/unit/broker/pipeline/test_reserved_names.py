"""Names that begin with `$` are reserved. A `$` anywhere else in an event costs nothing."""

from __future__ import annotations

import pytest

from plait_broker.clients.sessions import Session
from plait_broker.drop_reasons import DropReason
from plait_broker.pipeline.admission import Admission
from plait_core.events import Event
from plait_core.values import REPLY, Attributes
from plait_core.wire import Confirm, Publish, encode_block, encode_frame
from plait_lab.simulation.overlay.frame_client import PublishedEvent
from plait_lab.simulation.overlay.world import World, linked_world

DOLLAR_ID = int.from_bytes(b"$$$$$$$$")


@pytest.fixture
def world() -> World:
    return linked_world({(0, 1): 0.001})


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sequence numbers of the events that were checked one by one, as they come."""
    numbers: list[int] = []
    check = Admission._check

    def counted(admission: Admission, session: Session, frame: Publish) -> None:
        numbers.append(frame.sequence)
        check(admission, session, frame)

    monkeypatch.setattr(Admission, "_check", counted)
    return numbers


def publish(world: World, name: str, event: Event) -> None:
    client = world.connected_client(0, name, publisher=DOLLAR_ID)
    block = bytearray(encode_block(event))
    block[:8] = DOLLAR_ID.to_bytes(8)
    block[8:16] = (1).to_bytes(8)
    frame = Publish(Confirm.NONE, bytes(block))
    # A refusal is answered, also of an event without confirmation.
    client.events[1] = PublishedEvent(frame.id, event.attributes, 0.0, client, 0, Confirm.NONE, event.payload)
    client.write_bytes(encode_frame(frame))
    world.run(0.1)


@pytest.mark.parametrize(
    "event",
    [
        Event({"x": 1}, b"a payload for 3 $"),
        Event({"currency": "US$", "x": "$x"}),
        Event({"x": 1}, headers={"Price": "$"}),
        Event({"x": ord("$")}, published_us=ord("$")),
    ],
    ids=["payload", "value", "header", "numbers"],
)
def test_a_dollar_outside_names_takes_the_plain_path(world: World, checked: list[int], event: Event) -> None:
    subscriber = world.connected_client(1)
    subscriber.subscribe("has(x)")
    world.run(0.1)
    publish(world, "publisher", event)
    assert subscriber.delivered == [event.attributes]
    assert not checked


@pytest.mark.parametrize("attributes", [{"$x": 1}, {"x": 1, "$x": 1}, {"x": "$", REPLY: 1, "$sys.hop": 2}])
def test_reserved_names_are_refused(world: World, checked: list[int], attributes: Attributes) -> None:
    publish(world, "publisher", Event(attributes))
    assert checked == [1]
    assert world.broker(0).counters.dropped[DropReason.NOT_ALLOWED] == 1
    assert world.broker(0).counters.admitted == 0


def test_the_reserved_names_of_clients_pass(world: World, checked: list[int]) -> None:
    publish(world, "publisher", Event({"x": 1, REPLY: 7}))
    assert checked == [1]
    assert world.broker(0).counters.admitted == 1
