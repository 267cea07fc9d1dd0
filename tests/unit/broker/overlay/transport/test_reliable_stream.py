"""Both ends of a stream, case by case. `tests/property/test_overlay.py` runs them over unreliable networks."""

from __future__ import annotations

import pytest

from plait_broker.overlay.transport import reliable_stream
from plait_broker.overlay.transport.reliable_stream import (
    AGAIN_EVENTS,
    AGAIN_S,
    DOUBT_S,
    EARLY_MAX,
    GAP_S,
    TAKEN_EVENTS,
    TAKEN_S,
    ReceivedEvent,
    ReceiveStream,
    SendStream,
    Unacked,
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


def heard(incoming: ReceiveStream, *positions: int, now: float = 0.0) -> list[int]:
    """Receive events at these positions and return the positions handed on."""
    return [ready.position for position in positions for ready in incoming.hear(arrival(position), now)]


def news(outgoing: SendStream, up_to: int, now: float = 1.0) -> list[int]:
    """Return the positions that an ack up to `up_to` acknowledges for the first time."""
    return [position for position, _ in outgoing.took(up_to, now)]


def sent(count: int, now: float = 0.0) -> SendStream:
    outgoing = SendStream(1)
    for position in range(1, count + 1):
        assert outgoing.add(Unacked(frame(position), 0, 0, now), now) == position
    return outgoing


# --- the receiver -----------------------------------------------------------------------------------------------------


def test_nothing_is_handed_on_before_its_beginning_is_known() -> None:
    incoming = ReceiveStream()
    assert heard(incoming, 12, 11) == []
    assert incoming.report(GAP_S) == (0, ()), "it asks, and cannot say what for"
    assert [ready.position for ready in incoming.skip(10, 0.0)] == [11, 12]


def test_what_comes_early_waits_for_what_is_missing() -> None:
    incoming = begun()
    assert heard(incoming, 2, 4) == []
    assert incoming.report(GAP_S / 2) is None, "a change of path only delays it"
    assert incoming.report(GAP_S) == (0, (1, 3))
    assert incoming.report(1.5 * GAP_S) is None, "it has been asked for"
    assert incoming.report(2 * GAP_S) == (0, (1, 3)), "and is asked for again"
    assert heard(incoming, 3, 1) == [1, 2, 3, 4]
    assert incoming.report(9.0) is None, "nothing is taken, nothing is missing"


def test_a_position_is_reported_only_when_all_up_to_it_are_taken() -> None:
    incoming = begun()
    heard(incoming, 1, 2, 3)
    incoming.take(3, 1.0)
    incoming.take(2, 1.0)
    assert incoming.up_to == 0
    assert incoming.next_deadline() is None
    incoming.take(1, 1.0)
    assert incoming.up_to == 3
    assert incoming.next_deadline() == 1.0 + TAKEN_S
    assert incoming.report(1.0) is None
    assert incoming.report(1.0 + TAKEN_S) == (3, ())
    assert incoming.next_deadline() is None


def test_many_are_reported_without_waiting() -> None:
    incoming = begun()
    for position in range(1, TAKEN_EVENTS + 1):
        assert incoming.report(0.0) is None
        heard(incoming, position)
        incoming.take(position, 0.0)
    assert incoming.report(0.0) == (TAKEN_EVENTS, ())


def test_a_repeat_is_answered_and_not_handed_on() -> None:
    incoming = begun()
    heard(incoming, 1)
    incoming.take(1, 0.0)
    assert incoming.report(1.0) == (1, ())
    assert heard(incoming, 1, now=2.0) == []
    assert incoming.repeats == 1
    assert incoming.report(2.0 + TAKEN_S) == (1, ()), "the sender did not hear it"


def test_what_will_not_come_is_passed_over() -> None:
    incoming = begun()
    assert heard(incoming, 1, 3, 5) == [1]
    assert [ready.position for ready in incoming.skip(4, 0.0)] == [3, 5]
    for position in (5, 3):
        incoming.take(position, 0.0)
    assert incoming.up_to == 0
    incoming.take(1, 0.0)
    assert incoming.up_to == 5
    assert heard(incoming, 2, 4) == [], "it is too late for them"


def test_a_skip_of_what_has_come_changes_nothing() -> None:
    incoming = begun()
    heard(incoming, 1, 2)
    assert incoming.skip(1, 0.0) == []
    assert heard(incoming, 3) == [3]


@pytest.mark.parametrize("up_to", [10**9, 2**64 - 2])
def test_a_skip_costs_nothing_however_far_it_goes(up_to: int) -> None:
    """Check large skips: positions begin at a time in microseconds, so a restarted stream begins far above."""
    incoming = begun()
    heard(incoming, 1)
    assert incoming.skip(up_to, 0.0) == []
    incoming.take(1, 0.0)
    assert incoming.up_to == up_to
    assert heard(incoming, up_to + 1) == [up_to + 1]


def test_what_comes_early_is_bounded_and_what_fills_the_hole_has_room() -> None:
    incoming = begun()
    heard(incoming, *range(2, EARLY_MAX + 50))
    ready = heard(incoming, 1)
    assert ready == list(range(1, EARLY_MAX + 2)), "what was beyond the bound will be sent again"
    assert heard(incoming, EARLY_MAX + 2) == [EARLY_MAX + 2]


def test_what_comes_early_is_bounded_in_bytes_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reliable_stream, "EARLY_BYTES_MAX", 10 * len(frame().block))
    incoming = begun()
    for _ in range(3):  # handed-on events free the buffer
        first = incoming.up_to + 1
        heard(incoming, *range(first + 1, first + 50))
        assert heard(incoming, first) == list(range(first, first + 11))
        for position in range(first, first + 11):
            incoming.take(position, 0.0)


def test_no_report_misses_more_than_a_frame_has_room_for() -> None:
    incoming = begun()
    heard(incoming, *range(2, 3 * MISSING_MAX, 2))
    report = incoming.report(GAP_S)
    assert report is not None
    assert report[1] == tuple(range(1, 2 * MISSING_MAX, 2))


def test_when_the_sender_is_no_more_what_came_early_is_handed_on() -> None:
    incoming = begun()
    heard(incoming, 5, 3)
    assert [left.position for left in incoming.rest()] == [3, 5]
    assert incoming.next_deadline() is None


def test_a_stream_that_was_forgotten_may_still_be_taken_from() -> None:
    incoming = ReceiveStream()
    incoming.take(3, 0.0)
    assert incoming.up_to == 0


# --- the sender -------------------------------------------------------------------------------------------------------


def test_what_is_taken_is_news_once_and_is_kept_no_more() -> None:
    outgoing = sent(3)
    bytes_each = len(frame().block)
    assert outgoing.kept_bytes == 3 * bytes_each
    assert news(outgoing, 2) == [1, 2]
    assert news(outgoing, 2) == []
    assert news(outgoing, 1) == [], "reports may overtake each other"
    assert outgoing.kept_bytes == bytes_each
    assert list(outgoing.kept) == [3]


def test_what_was_never_sent_cannot_be_taken() -> None:
    outgoing = sent(2)
    assert news(outgoing, 3) == []
    assert list(outgoing.kept) == [1, 2]


def test_silence_sends_the_oldest_again_less_and_less_often() -> None:
    outgoing = sent(2 * AGAIN_EVENTS)
    oldest = list(range(1, AGAIN_EVENTS + 1))
    assert outgoing.due(AGAIN_S + 0.9, 1.0) == [], "the path's own delay is granted"
    assert outgoing.due(AGAIN_S, 0.0) == oldest
    assert outgoing.due(2.5 * AGAIN_S, 0.0) == []
    assert outgoing.due(3 * AGAIN_S, 0.0) == oldest
    assert news(outgoing, 1, 10.0) == [1]
    assert outgoing.due(10.0 + AGAIN_S, 0.0) == list(range(2, AGAIN_EVENTS + 2)), "progress: it hurries again"


def test_what_was_under_way_when_a_link_went_is_sent_again_soon_and_once() -> None:
    outgoing = sent(2 * AGAIN_EVENTS)
    outgoing.hurry(0.1)
    outgoing.add(Unacked(frame(0), 0, 0, 0.1), 0.1)
    doubtful = list(range(1, 2 * AGAIN_EVENTS + 1))
    assert outgoing.due(0.1 + 0.9 * DOUBT_S, 0.0) == []
    assert outgoing.due(0.1 + DOUBT_S, 1.0) == [], "the path's own delay is granted"
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == doubtful, "all of it, and nothing sent since"
    assert outgoing.due(0.1 + 3 * DOUBT_S, 0.0) == []


def test_a_report_of_what_came_before_does_not_calm_it() -> None:
    outgoing = sent(5)
    outgoing.hurry(0.1)
    assert news(outgoing, 2, 0.11) == [1, 2]
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == [3, 4, 5]


def test_a_report_of_all_that_was_under_way_calms_it() -> None:
    outgoing = sent(5)
    outgoing.hurry(0.1)
    outgoing.add(Unacked(frame(0), 0, 0, 0.1), 0.1)
    assert news(outgoing, 5, 0.11) == [1, 2, 3, 4, 5]
    assert outgoing.due(0.1 + DOUBT_S, 0.0) == []
    assert outgoing.due(0.11 + AGAIN_S, 0.0) == [6]


def test_nothing_kept_is_nothing_due() -> None:
    outgoing = sent(1)
    outgoing.took(1, 0.0)
    assert outgoing.due(1e9, 0.0) == []


def test_the_floor_is_below_the_oldest_that_may_still_come() -> None:
    outgoing = SendStream(100)
    assert outgoing.floor == 99
    for _ in range(3):
        outgoing.add(Unacked(frame(), 0, 0, 0.0), 0.0)
    assert outgoing.floor == 99
    outgoing.give_up(101)
    assert outgoing.floor == 99
    assert outgoing.give_up(100).flags == 0
    assert outgoing.floor == 101
    outgoing.took(102, 0.0)
    assert outgoing.floor == 102


def test_a_kept_event_ages_and_expires() -> None:
    kept = Unacked(frame(lifetime_us=3_000_000), 0, 1_000_000, 10.0)
    assert kept.delay_now_us(11.5) == 2_500_000
    assert not kept.expired(12.0)
    assert kept.expired(12.1)
    assert not Unacked(frame(), 0, 0, 0.0).expired(1e9), "what has no lifetime lives"
