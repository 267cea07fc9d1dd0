"""Both ends of a stream, case by case. `tests/property/test_overlay.py` runs them over unreliable networks."""

from __future__ import annotations

import pytest

from plait_broker.overlay.transport import reliable_stream
from plait_broker.overlay.transport.reliable_stream import (
    ACK_EVENTS,
    ACK_S,
    AGAIN_EVENTS,
    AGAIN_S,
    ASKED_ACK_S,
    DOUBT_S,
    EARLY_MAX,
    GAP_S,
    SOON_ACK_S,
    TOGETHER_S,
    ReceivedEvent,
    ReceiveStream,
    SendStream,
    age_us,
    is_expired,
)
from plait_core.events import Event
from plait_core.limits import MISSING_MAX
from plait_core.wire import Confirm, Publish, encode_block


def frame(sequence: int = 1, lifetime_us: int = 0) -> Publish:
    event = Event({}, b"", publisher=1, sequence=sequence, lifetime_us=lifetime_us)
    return Publish(Confirm.NONE, encode_block(event))


def arrival(position: int, now: float = 0.0) -> ReceivedEvent:
    return ReceivedEvent(1, position, frame(position), 0, 0, (1,), now)


def begun(at: int = 0) -> ReceiveStream:
    """Return a stream whose beginning is known: positions up to `at` are skipped."""
    incoming = ReceiveStream()
    assert incoming.skip(at, 0.0) == []
    return incoming


def received(incoming: ReceiveStream, *positions: int, now: float = 0.0) -> list[int]:
    """Receive events at these positions and return the positions handed on."""
    return [ready.position for position in positions for ready in incoming.receive(arrival(position), now)]


def acked(outgoing: SendStream, up_to: int, now: float = 1.0) -> list[int]:
    """Return the positions that an ack up to `up_to` acknowledges for the first time."""
    return [position for position, _ in outgoing.receive_ack(up_to, now)]


def sent(count: int, now: float = 0.0) -> SendStream:
    outgoing = SendStream(1)
    for position in range(1, count + 1):
        assert outgoing.add((frame(position), 0, 0, now, None), now) == position
    return outgoing


# --- the receiver -----------------------------------------------------------------------------------------------------


def test_no_event_is_delivered_before_the_first_position_is_known() -> None:
    incoming = ReceiveStream()
    assert received(incoming, 12, 11) == []
    assert incoming.report(GAP_S) == (0, ()), "it reports, and cannot name the missing positions"
    assert [ready.position for ready in incoming.skip(10, 0.0)] == [11, 12]


def test_an_early_event_waits_for_the_missing_ones() -> None:
    incoming = begun()
    assert received(incoming, 2, 4) == []
    assert incoming.report(GAP_S / 2) is None, "a change of path only reorders events"
    assert incoming.report(GAP_S) == (0, (1, 3))
    assert incoming.report(1.5 * GAP_S) is None, "the hole has been reported"
    assert incoming.report(2 * GAP_S) == (0, (1, 3)), "and is reported again"
    assert received(incoming, 3, 1) == [1, 2, 3, 4]
    assert incoming.report(9.0) is None, "no event is acknowledged, and none is missing"


def test_a_position_is_acked_only_when_all_up_to_it_are_acknowledged() -> None:
    incoming = begun()
    received(incoming, 1, 2, 3)
    incoming.acknowledge(3, 1.0)
    incoming.acknowledge(2, 1.0)
    assert incoming.up_to == 0
    assert incoming.next_deadline() is None
    incoming.acknowledge(1, 1.0)
    assert incoming.up_to == 3
    assert incoming.next_deadline() == 1.0 + ACK_S
    assert incoming.report(1.0) is None
    assert incoming.report(1.0 + ACK_S) == (3, ())
    assert incoming.next_deadline() is None


def test_many_events_are_acked_at_once() -> None:
    incoming = begun()
    for position in range(1, ACK_EVENTS + 1):
        assert incoming.report(0.0) is None
        received(incoming, position)
        incoming.acknowledge(position, 0.0)
    assert incoming.report(0.0) == (ACK_EVENTS, ())


def test_an_ack_that_the_sender_asks_for_is_sent_at_once_but_not_for_each_event() -> None:
    incoming = begun()
    received(incoming, 1, 2, 3, 4)
    incoming.acknowledge(1, 1.0)
    assert incoming.report(1.0) is None, "nobody waits for it"
    incoming.acknowledge(2, 1.0, asked=True)
    assert incoming.report(1.0) == (2, ())
    incoming.acknowledge(3, 1.001, asked=True)
    assert incoming.report(1.001) is None
    assert incoming.next_deadline() == 1.0 + ASKED_ACK_S
    assert incoming.report(1.0 + ASKED_ACK_S) == (3, ())
    incoming.acknowledge(4, 1.1)
    assert incoming.next_deadline() == 1.1 + ACK_S


def test_an_ack_that_the_sender_asks_for_waits_for_the_events_before_it() -> None:
    incoming = begun()
    received(incoming, 1, 2)
    incoming.acknowledge(2, 1.0, asked=True)
    assert incoming.next_deadline() is None
    incoming.acknowledge(1, 2.0)
    assert incoming.report(2.0) == (2, ())


def test_an_ack_that_is_nearly_due_goes_together_with_others_unless_one_has_just_gone() -> None:
    incoming = begun()
    received(incoming, 1, 2)
    incoming.acknowledge(1, 0.0)
    assert incoming.report(0.9 * (ACK_S - TOGETHER_S)) is None
    assert incoming.report(ACK_S - TOGETHER_S) == (1, ())
    incoming.acknowledge(2, ACK_S, asked=True)
    incoming.ack_at = ACK_S + 0.001
    assert incoming.report(ACK_S) is None


def test_a_pending_ack_and_those_that_follow_are_sent_soon_after_a_link_failed() -> None:
    incoming = begun()
    received(incoming, 1, 2, 3)
    incoming.acknowledge(1, 1.0)
    incoming.ack_soon(1.01, 1.05)
    assert incoming.report(1.01) == (1, ())
    incoming.acknowledge(2, 1.04)
    assert incoming.next_deadline() == 1.04 + SOON_ACK_S
    assert incoming.report(1.06) == (2, ())
    incoming.acknowledge(3, 1.06)
    assert incoming.next_deadline() == 1.06 + ACK_S


def test_a_repeated_event_is_acked_and_not_delivered() -> None:
    incoming = begun()
    received(incoming, 1)
    incoming.acknowledge(1, 0.0)
    assert incoming.report(1.0) == (1, ())
    assert received(incoming, 1, now=2.0) == []
    assert incoming.repeats == 1
    assert incoming.report(2.0 + SOON_ACK_S) == (1, ()), "the first ack may be lost"


def test_skipped_positions_are_not_waited_for() -> None:
    incoming = begun()
    assert received(incoming, 1, 3, 5) == [1]
    assert [ready.position for ready in incoming.skip(4, 0.0)] == [3, 5]
    for position in (5, 3):
        incoming.acknowledge(position, 0.0)
    assert incoming.up_to == 0
    incoming.acknowledge(1, 0.0)
    assert incoming.up_to == 5
    assert received(incoming, 2, 4) == [], "skipped events are dropped"


def test_a_skip_of_received_positions_changes_nothing() -> None:
    incoming = begun()
    received(incoming, 1, 2)
    assert incoming.skip(1, 0.0) == []
    assert received(incoming, 3) == [3]


@pytest.mark.parametrize("up_to", [10**9, 2**64 - 2])
def test_a_skip_costs_nothing_however_far_it_goes(up_to: int) -> None:
    """Check large skips: positions begin at a time in microseconds, so a restarted stream begins far above."""
    incoming = begun()
    received(incoming, 1)
    assert incoming.skip(up_to, 0.0) == []
    incoming.acknowledge(1, 0.0)
    assert incoming.up_to == up_to
    assert received(incoming, up_to + 1) == [up_to + 1]


def test_early_events_are_bounded_and_the_one_that_fills_the_hole_has_room() -> None:
    incoming = begun()
    received(incoming, *range(2, EARLY_MAX + 50))
    ready = received(incoming, 1)
    assert ready == list(range(1, EARLY_MAX + 2)), "those beyond the bound are retransmitted later"
    assert received(incoming, EARLY_MAX + 2) == [EARLY_MAX + 2]


def test_early_events_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reliable_stream, "EARLY_BYTES_MAX", 10 * len(frame().block))
    incoming = begun()
    for _ in range(3):  # handed-on events free the buffer
        first = incoming.up_to + 1
        received(incoming, *range(first + 1, first + 50))
        assert received(incoming, first) == list(range(first, first + 11))
        for position in range(first, first + 11):
            incoming.acknowledge(position, 0.0)


def test_an_ack_names_no_more_missing_positions_than_a_frame_has_room_for() -> None:
    incoming = begun()
    received(incoming, *range(2, 3 * MISSING_MAX, 2))
    report = incoming.report(GAP_S)
    assert report is not None
    assert report[1] == tuple(range(1, 2 * MISSING_MAX, 2))


def test_early_events_are_delivered_when_the_sender_is_gone() -> None:
    incoming = begun()
    received(incoming, 5, 3)
    assert [left.position for left in incoming.rest()] == [3, 5]
    assert incoming.next_deadline() is None


def test_an_event_of_a_forgotten_stream_may_still_be_acknowledged() -> None:
    incoming = ReceiveStream()
    incoming.acknowledge(3, 0.0)
    assert incoming.up_to == 0


def test_a_position_that_is_not_open_is_not_acknowledged() -> None:
    incoming = begun()
    incoming.acknowledge(1, 0.0)  # its event has come by a stream that was forgotten
    assert received(incoming, 1, 2, 3) == [1, 2, 3]
    assert incoming.up_to == 0
    for position in (3, 1, 1, 4, 2, 2):
        incoming.acknowledge(position, 0.0)
    assert incoming.up_to == 3
    assert not incoming._taken, "nothing is kept of those"


# --- the sender -------------------------------------------------------------------------------------------------------


def test_an_acked_event_is_reported_once_and_removed() -> None:
    outgoing = sent(3)
    bytes_each = len(frame().block)
    assert outgoing.kept_bytes == 3 * bytes_each
    assert acked(outgoing, 2) == [1, 2]
    assert acked(outgoing, 2) == []
    assert acked(outgoing, 1) == [], "acks may overtake each other"
    assert outgoing.kept_bytes == bytes_each
    assert list(outgoing.kept) == [3]


def test_an_ack_of_a_position_that_was_never_sent_is_ignored() -> None:
    outgoing = sent(2)
    assert acked(outgoing, 3) == []
    assert list(outgoing.kept) == [1, 2]


def test_the_oldest_events_are_retransmitted_with_backoff() -> None:
    outgoing = sent(2 * AGAIN_EVENTS)
    oldest = list(range(1, AGAIN_EVENTS + 1))
    assert outgoing.due(AGAIN_S + 0.9, 1.0) == [], "the delay of the path is added"
    assert outgoing.due(AGAIN_S, 0.0) == oldest
    assert outgoing.due(2.5 * AGAIN_S, 0.0) == []
    assert outgoing.due(3 * AGAIN_S, 0.0) == oldest
    assert acked(outgoing, 1, 10.0) == [1]
    assert outgoing.due(10.0 + AGAIN_S, 0.0) == list(range(2, AGAIN_EVENTS + 2)), "an ack resets the timeout"


def test_a_missing_event_is_retransmitted_once_while_its_retransmission_may_wait_in_queues() -> None:
    outgoing = sent(9)
    assert outgoing.missing((2, 4, 4, 99), 1.0, 0.5) == [2, 4], "what is unacked, and each once"
    assert outgoing.missing((2, 4, 6), 1.1, 0.5) == [6]
    assert outgoing.missing((2, 4, 6), 1.5, 0.5) == [2, 4], "it was lost as well"
    assert outgoing.missing((4, 6), 1.6, 0.0) == [4, 6], "nothing queues any more"
    outgoing.retransmit_soon(1.7)
    assert outgoing.missing((4, 6), 1.7, 0.5) == [4, 6], "the retransmissions may have been on the link that failed"


def test_events_in_flight_at_a_link_failure_are_retransmitted_soon_and_once() -> None:
    outgoing = sent(2 * AGAIN_EVENTS)
    outgoing.retransmit_soon(0.1)
    outgoing.add((frame(0), 0, 0, 0.1, None), 0.1)
    doubtful = list(range(1, 2 * AGAIN_EVENTS + 1))
    assert outgoing.due(0.1 + 0.9 * DOUBT_S, 0.0) == []
    assert outgoing.due(0.1 + DOUBT_S, 1.0) == [], "the delay of the path is added"
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == doubtful, "all of them, and none that was sent since"
    assert outgoing.due(0.1 + 3 * DOUBT_S, 0.0) == []


def test_an_ack_of_some_events_in_flight_does_not_stop_the_retransmission_of_the_others() -> None:
    outgoing = sent(5)
    outgoing.retransmit_soon(0.1)
    assert acked(outgoing, 2, 0.11) == [1, 2]
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == [3, 4, 5]


def test_an_ack_of_all_events_in_flight_stops_their_retransmission() -> None:
    outgoing = sent(5)
    outgoing.retransmit_soon(0.1)
    outgoing.add((frame(0), 0, 0, 0.1, None), 0.1)
    assert acked(outgoing, 5, 0.11) == [1, 2, 3, 4, 5]
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == []
    assert outgoing.due(0.11 + AGAIN_S, 0.0) == [6]


def test_only_what_can_hardly_have_arrived_is_retransmitted_at_once_while_acks_come() -> None:
    outgoing = SendStream(1)
    for position, at in enumerate((0.0, 0.05, 0.1, 0.105), 1):
        outgoing.add((frame(position), 0, 0, at, None), at)
    outgoing.retransmit_soon(0.11)
    since = outgoing.suspect_since(0.11, 0.0)
    assert since == 0.11 - SOON_ACK_S
    assert outgoing.doubtful(0.11, since) == [3, 4]
    assert outgoing.due(0.11 + DOUBT_S, 0.0) == [1, 2], "the others, if no ack comes, and each once"
    assert outgoing.due(0.11 + 2 * DOUBT_S, 0.0) == []


def test_everything_is_retransmitted_at_once_when_no_ack_has_come_for_long() -> None:
    outgoing = sent(3)
    outgoing.retransmit_soon(3.0)
    assert outgoing.doubtful(3.0, outgoing.suspect_since(3.0, 0.0)) == [1, 2, 3]
    assert outgoing.due(3.0 + DOUBT_S, 0.0) == []


def test_an_ack_is_asked_for_at_each_quarter_of_the_window() -> None:
    outgoing = SendStream(1, 16, 1 << 20)
    asking = []
    for position in range(1, 17):
        outgoing.add((frame(position), 0, 0, 0.0, None), 0.0)
        if position >= outgoing.ask_at:
            asking.append(position)
            outgoing.ask_later()
    assert asking == [5, 10, 15]
    outgoing.receive_ack(15, 0.0)
    assert outgoing.ask_at == 21
    size = len(frame().block)
    small = SendStream(1, 1000, 4 * size)
    assert small.ask_at_bytes == size


def test_an_empty_stream_retransmits_nothing() -> None:
    outgoing = sent(1)
    outgoing.receive_ack(1, 0.0)
    assert outgoing.due(1e9, 0.0) == []


def test_the_floor_is_below_the_oldest_unacked_event() -> None:
    outgoing = SendStream(100)
    assert outgoing.floor == 99
    for _ in range(3):
        outgoing.add((frame(), 0, 0, 0.0, None), 0.0)
    assert outgoing.floor == 99
    outgoing.give_up(101)
    assert outgoing.floor == 99
    assert outgoing.give_up(100)[3] == 0.0
    assert outgoing.floor == 101
    outgoing.receive_ack(102, 0.0)
    assert outgoing.floor == 102


def test_a_kept_event_ages_and_expires() -> None:
    kept = (frame(lifetime_us=3_000_000), 0, 1_000_000, 10.0, None)
    assert age_us(kept, 11.5) == 2_500_000
    assert not is_expired(kept, 12.0)
    assert is_expired(kept, 12.1)
    assert not is_expired((frame(), 0, 0, 0.0, None), 1e9), "an event without a lifetime does not expire"


def test_a_route_that_becomes_known_during_retransmissions_is_tried_next() -> None:
    outgoing = sent(1)
    first, second, reverse = (1, 2, 9), (1, 3, 9), (1, 4, 9)
    tried = []
    for outgoing.tries, routes in enumerate(([first, second], *[[reverse, first, second]] * 4), start=2):
        outgoing.choose_route(routes)
        tried.append(outgoing.tried)
    assert tried == [first, reverse, second, first, reverse], "and then the one that was tried longest ago"
    outgoing.choose_route([])
    assert outgoing.tried == ()


def test_after_an_ack_routes_are_tried_from_the_first_on() -> None:
    outgoing = sent(2)
    routes = [(1, 2, 9), (1, 3, 9)]
    outgoing.choose_route(routes)
    assert acked(outgoing, 2) == [1, 2]
    outgoing.choose_route(routes)
    assert outgoing.tried == routes[0]
