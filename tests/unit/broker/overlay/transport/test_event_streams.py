"""The streams of one broker: the bound of the unacked events, and when acks are sent and asked for."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.outputs import Lost
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_broker.overlay.transport.reliable_stream import ACK_S, ReceivedEvent
from plait_core.wire import Confirm, Forward, Publish
from plait_core.wire.event_block import encode_plain_block
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.overlay_frames import ACK_NOW, StreamAck, StreamSkip

ME, NEAR, OTHER = 1, 2, 3
BYTES_MAX = 1000
ITEMS_MAX = 40


def event(sequence: int, payload: bytes) -> Publish:
    block = encode_plain_block({"a": 1}, payload, 7, sequence, 1)
    assert block is not None
    return Publish(Confirm.NONE, block)


def test_an_event_that_exceeds_the_bound_alone_is_kept_until_the_next_one() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_bytes_max=BYTES_MAX))
    one.link_up(NEAR)
    ((_, first, _),) = one.overlay.publish(event(1, bytes(5 * BYTES_MAX)), [NEAR], 0, 0, 0.0)
    stream = one.overlay.event_streams.outgoing[NEAR]
    assert list(stream.kept) == [first]
    assert NEAR in one.overlay.event_streams.sending
    assert one.of(Lost) == []
    ((_, second, _),) = one.overlay.publish(event(2, b""), [NEAR], 0, 0, 0.0)
    assert list(stream.kept) == [second]
    assert [(lost.position, lost.reason) for lost in one.of(Lost)] == [(first, "overlay_full")]


def receive_event(one: OneOverlay, root: int, position: int, flags: int = 0) -> None:
    """Receive an event from a neighbour that is its root, and acknowledge it."""
    if position == 1:
        one.receive(root, envelop_message(StreamSkip(ME, root, 0)))
    one.receive(root, Forward(0, 0, flags, (root,), ((ME, position, 0),), event(position, b"").block))
    received = one.of(ReceivedEvent)[-1]
    assert (received.root, received.position) == (root, position)
    one.overlay.acknowledge(received, one.now)


def acks(one: OneOverlay) -> list[tuple[int, int]]:
    """Return the acks so far: to which root, and up to which position."""
    return [(ack.to, ack.up_to) for ack in one.messages(StreamAck)]


def test_an_ack_is_sent_at_the_end_of_the_turn_only_if_the_root_asks() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR)
    receive_event(one, NEAR, 1)
    assert acks(one) == []
    assert one.overlay.due_at <= one.now + ACK_S
    receive_event(one, NEAR, 2, ACK_NOW)
    assert acks(one) == [(NEAR, 2)]
    one.tick(one.now + ACK_S)
    assert acks(one) == [(NEAR, 2)], "it is not sent again"


def test_acks_that_are_due_at_nearly_the_same_time_are_sent_in_one_turn() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR, OTHER)
    one.tick(0.4)
    receive_event(one, NEAR, 1)
    one.tick(0.42)
    receive_event(one, OTHER, 1)
    one.tick(0.4 + ACK_S)
    assert acks(one) == [(NEAR, 1), (OTHER, 1)]


def test_what_has_arrived_is_acked_at_once_when_a_link_fails() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR, OTHER)
    receive_event(one, NEAR, 1)
    one.overlay.link_down(OTHER, one.now)
    assert acks(one) == [(NEAR, 1)]


def test_what_has_arrived_is_acked_before_the_broker_stops() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR)
    receive_event(one, NEAR, 1)
    one.overlay.stop(one.now)
    assert acks(one) == [(NEAR, 1)]


def test_each_quarter_of_the_window_asks_for_an_ack() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_items_max=ITEMS_MAX))
    one.link_up(NEAR)
    for sequence in range(1, ITEMS_MAX + 1):
        one.overlay.publish(event(sequence, b""), [NEAR], 0, 0, 0.0)
    copies = [copy for run in one.of(CopyRun) for copy in run.copies]
    asking = [sequence for sequence, (_, _, _, flags, _, _) in enumerate(copies, 1) if flags & ACK_NOW]
    assert asking == [12, 23, 34], "the event after each quarter"
    assert one.of(Lost) == []
