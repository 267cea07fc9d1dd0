"""The streams of one broker: the bound of the unacked events, and when acks are sent and asked for."""

from __future__ import annotations

from copies import copies_in
from copies import publish as published
from one_overlay import OneOverlay

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.outputs import Acked, Lost
from plait_broker.overlay.transport.event_copy import CopyRun
from plait_broker.overlay.transport.event_streams import ALONG_BYTES
from plait_broker.overlay.transport.reliable_stream import (
    ACK_S,
    WINDOW_MAX_BYTES,
    WINDOW_MIN_BYTES,
    WINDOW_START_BYTES,
    ReceivedEvent,
)
from plait_core.wire import Confirm, Forward, Publish
from plait_core.wire.event_block import encode_plain_block
from plait_core.wire.frame_types.envelope_frames import SourceRouted, envelop_message
from plait_core.wire.frame_types.overlay_frames import ACK_NOW, LinkState, StreamAck, StreamSkip

ME, NEAR, OTHER, FAR = 1, 2, 3, 4
BYTES_MAX = 1000
ITEMS_MAX = 40


def event(sequence: int, payload: bytes) -> Publish:
    block = encode_plain_block({"a": 1}, payload, 7, sequence, 1)
    assert block is not None
    return Publish(Confirm.NONE, block)


def test_an_event_that_exceeds_the_bound_alone_is_sent_and_the_newest_waits() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_bytes_max=BYTES_MAX))
    one.link_up(NEAR)
    ((_, first, _),) = one.overlay.publish(event(1, bytes(5 * BYTES_MAX)), [NEAR], 0, 0, 0.0)
    stream = one.overlay.event_streams.outgoing[NEAR]
    assert list(stream.kept) == [first]
    assert NEAR in one.overlay.event_streams.sending
    assert one.of(Lost) == []
    for sequence in (2, 3):
        ((_, number, _),) = one.overlay.publish(event(sequence, b""), [NEAR], 0, 0, 0.0)
        assert number == 1 - sequence - first
    assert list(stream.kept) == [first]
    assert [held[0].sequence for held in stream.waiting] == [3]
    assert [(lost.position, lost.reason) for lost in one.of(Lost)] == [(-1 - first, "overlay_full")]


def full_stream(*, lifetime_us: int = 0) -> tuple[OneOverlay, list[int]]:
    """Publish two events that fill the window of a stream and two that wait. Return the positions that were told."""
    one = OneOverlay(ME)
    one.link_up(NEAR)
    told = []
    for sequence in range(1, 5):
        payload = bytes(WINDOW_START_BYTES // 2)
        frame = published(sequence, payload=payload, lifetime_us=lifetime_us if sequence == 3 else 0)
        told += [position for _, position, _ in one.overlay.publish(frame, [NEAR], 0, 0, 0.0)]
    return one, told


def sent_to(one: OneOverlay) -> list[tuple[int, int]]:
    """Return the positions and sequence numbers of all copies that were sent."""
    return [(copy.destinations[0][1], copy.frame.sequence) for copy in copies_in(one.of(CopyRun))]


def test_events_wait_for_the_window_and_get_their_positions_when_they_are_sent() -> None:
    one, told = full_stream()
    first = told[0]
    assert told == [first, first + 1, -first - 1, -first - 2]
    assert sent_to(one) == [(first, 1), (first + 1, 2)]
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, first)))
    assert sent_to(one)[2:] == [(first + 2, 3)]
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, first + 2)))
    assert sent_to(one)[3:] == [(first + 3, 4)]
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, first + 3)))
    acked = [party or (NEAR, position) for ack in one.of(Acked) for position, (*_, party) in ack.events]
    assert acked == [(NEAR, position) for position in told], "they keep the names that were told"
    assert NEAR not in one.overlay.event_streams.sending


def test_a_larger_window_lets_waiting_events_go() -> None:
    one, told = full_stream()
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, told[0] - 1, (), 2 * WINDOW_START_BYTES)))
    assert [sequence for _, sequence in sent_to(one)] == [1, 2, 3, 4]


def test_a_window_has_bounds_whatever_is_granted() -> None:
    one, told = full_stream()
    stream = one.overlay.event_streams.outgoing[NEAR]
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, told[0] - 1, (), 1)))
    assert stream.window == WINDOW_MIN_BYTES
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, told[0] - 1, (), 2**63)))
    assert stream.window == WINDOW_MAX_BYTES


def test_an_event_whose_lifetime_ends_while_it_waits_leaves_no_hole() -> None:
    one, told = full_stream(lifetime_us=1_000_000)
    one.tick(2.0)
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, told[1])))
    assert sent_to(one)[-1] == (told[1] + 1, 4)
    assert [(lost.position, lost.reason) for lost in one.of(Lost)] == [(told[2], "expired")]


def test_a_stream_whose_window_has_expired_goes_on() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR)
    payload = bytes(WINDOW_START_BYTES // 2)
    for sequence in range(1, 6):
        lifetime_us = 1_000_000 if sequence < 3 else 0
        one.overlay.publish(published(sequence, payload=payload, lifetime_us=lifetime_us), [NEAR], 0, 0, 0.0)
    stream = one.overlay.event_streams.outgoing[NEAR]
    assert [held[0].sequence for held in stream.waiting] == [3, 4, 5]
    one.overlay.link_down(NEAR, 0.5)
    one.tick(2.0)
    one.tick(2.5)
    assert [kept[0].sequence for kept in stream.kept.values()] == [3, 4], "they do not wait for acks that never come"
    assert NEAR in one.overlay.event_streams.sending


def test_a_stream_is_full_until_acks_have_emptied_it_although_nothing_waits_any_more() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_items_max=8))
    one.link_up(NEAR)
    streams = one.overlay.event_streams
    for sequence in range(1, 9):
        one.overlay.publish(published(sequence, payload=bytes(WINDOW_START_BYTES // 4)), [NEAR], 0, 0, 0.0)
    assert NEAR in streams.full
    stream = streams.outgoing[NEAR]
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, stream.acked + 1, (), WINDOW_MAX_BYTES)))
    assert not stream.waiting
    assert NEAR in streams.full
    one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, stream.next - 1)))
    assert NEAR not in streams.full


def test_reports_of_missing_events_do_not_fill_a_lane_with_their_copies() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR)
    ((_, first, _),) = one.overlay.publish(published(1), [NEAR], 0, 0, 0.0)
    one.tick(0.01)
    one.overlay.publish(published(2), [NEAR], 0, 0, one.now)
    stream = one.overlay.event_streams.outgoing[NEAR]
    stream.ack_s = 2.0  # acks were late, as those of a stream whose events queue on their way
    one.clear()
    for _ in range(10):
        one.now += 0.1
        one.receive(NEAR, envelop_message(StreamAck(ME, NEAR, first - 1, (first,))))
    assert sent_to(one) == [(first, 1)]


def test_few_events_are_retransmitted_over_a_source_route_at_once() -> None:
    one = OneOverlay(ME)
    one.link_up(NEAR, OTHER)
    for neighbour in (NEAR, OTHER):
        one.learn(LinkState(neighbour, 2, f"b{neighbour}", (ME, FAR), (1000, 1000)), neighbour)
    one.learn(LinkState(FAR, 1, "far", (NEAR, OTHER), (1000, 1000)), NEAR)
    for sequence in range(40):
        one.overlay.publish(published(sequence + 1, payload=bytes(ALONG_BYTES // 4)), [FAR], 0, 0, 0.0)
    one.tick(1.0)
    one.clear()
    one.tick(3.0)
    assert len(sent_to(one)) == 40, "they are retransmitted"
    along = [frame for _, frame in one.sent if isinstance(frame, SourceRouted) and len(frame.frame) > ALONG_BYTES // 4]
    assert len(along) == 4


def test_a_destination_that_acks_nothing_holds_nobody() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_items_max=8))
    one.link_up(NEAR)
    for sequence in range(1, 9):
        one.overlay.publish(published(sequence, payload=bytes(WINDOW_START_BYTES // 4)), [NEAR], 0, 0, 0.0)
    assert NEAR in one.overlay.event_streams.full
    one.tick(13.0)
    assert NEAR not in one.overlay.event_streams.full


def test_events_that_wait_are_given_up_with_their_destination() -> None:
    one, told = full_stream()
    one.overlay.event_streams.gone(NEAR, 1.0)
    one.tick(1.0)
    assert [lost.position for lost in one.of(Lost)] == told


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
