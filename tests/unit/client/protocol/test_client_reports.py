"""The client's reports about its deliveries: when it sends them, and that their totals are those of the application."""

from __future__ import annotations

import math

import pytest

from plait.options.settings import Buffer
from plait.protocol.delivery_account import SCANNED_MAX, SOURCES_MAX
from plait.protocol.subscription_state import SubscriptionState
from plait_core.limits import REPORTED_MAX
from plait_core.wire.frame_types.session_frames import ClientReport, Done, Subscribe, Unsubscribe

from .test_session import Story

PERIOD_S = 1.0
QUIET_S = 3600.0
SMALL = Buffer(items=4)


def reporting() -> Story:
    """Return a session with a broker that takes a report a second, after the first period."""
    return Story(heartbeat_s=QUIET_S).open(heartbeat_s=QUIET_S, report_s=PERIOD_S).wait(PERIOD_S)


def reports(story: Story) -> list[ClientReport]:
    """Return the reports since the last call."""
    found = story.received(ClientReport)
    story.said.clear()
    return found


def lines(report: ClientReport) -> set[tuple[int, str, int, int, int]]:
    """Return subscription, reason, publisher, count and last sequence number of each line."""
    return set(zip(report.unseen_by, report.reasons, report.publishers, report.counts, report.last, strict=True))


def take(subscription: SubscriptionState, count: int) -> None:
    for _ in range(count):
        subscription.take()


def test_a_report_states_what_became_of_every_delivery() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 11):
        story.deliver(sequence)
        if sequence <= 3:
            take(quotes, 1)
    (report,) = reports(story.wait(PERIOD_S))
    assert (report.subscriptions, report.handed_out, report.carried) == ((quotes.id,), (3,), (0,))
    assert lines(report) == {(quotes.id, "queue_full", 9, 3, 6), (quotes.id, "waiting", 9, 4, 10)}


def test_an_idle_client_has_no_deadline_and_sends_nothing() -> None:
    story = reporting()
    quotes = story.subscribe()
    story.deliver(1)
    take(quotes, 1)
    assert len(reports(story.wait(3 * PERIOD_S))) == 1, "one, then nothing is new"
    assert story.session.desired.reports.due_at == math.inf
    assert not reports(story.wait(60))
    story.deliver(2)
    assert story.session.next_deadline() <= story.now + PERIOD_S


def test_events_that_are_read_late_are_reported_without_another_delivery() -> None:
    story = reporting()
    quotes = story.subscribe()
    story.deliver(1)
    assert [lines(report) for report in reports(story.wait(5 * PERIOD_S))] == [{(quotes.id, "waiting", 9, 1, 1)}]
    take(quotes, 1)
    (report,) = reports(story.wait(2 * PERIOD_S))
    assert report.handed_out == (1,)
    assert lines(report) == {(quotes.id, "waiting", 9, 0, 0)}


def test_reports_keep_their_interval_whatever_arrives() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 501):
        story.deliver(sequence).wait(PERIOD_S / 50)
    assert 9 <= len(reports(story)) <= 10, "ten seconds"
    assert quotes.dropped == 496


def test_a_broker_that_takes_no_reports_gets_none() -> None:
    story = Story().open()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 20):
        story.deliver(sequence).wait(1)
    story.session.desired.unsubscribe(quotes, story.now)
    story.turn()
    assert not reports(story)


def test_everything_is_reported_again_after_a_connection_broke() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 11):
        story.deliver(sequence)
    (before,) = reports(story.wait(PERIOD_S))
    story.again(resumed=True, delivered=10, report_s=PERIOD_S)
    (again,) = reports(story.wait(PERIOD_S))
    assert (again.handed_out, lines(again)) == (before.handed_out, lines(before)), "totals: nothing counts twice"
    assert quotes.dropped == 6


def test_totals_begin_anew_with_a_new_session_of_the_broker() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 11):
        story.deliver(sequence)
    story.wait(PERIOD_S)
    story.again(session=6, report_s=PERIOD_S)
    story.send(Done(story.received(Subscribe)[-1].request))
    story.said.clear()
    for sequence in range(11, 13):
        story.deliver(sequence)
    take(quotes, 1)
    (report,) = reports(story.wait(PERIOD_S))
    assert (report.handed_out, report.carried) == ((1,), (4,)), "four had waited before"
    assert lines(report) == {(quotes.id, "queue_full", 9, 2, 8), (quotes.id, "waiting", 9, 3, 12)}


def test_the_end_of_a_subscription_is_reported_before_it() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=SMALL)
    for sequence in range(1, 6):
        story.deliver(sequence)
    quotes.discard_queue()
    story.session.desired.unsubscribe(quotes, story.now)
    written = [frame for frame in story.turn() if isinstance(frame, ClientReport | Unsubscribe)]
    assert [type(frame) for frame in written] == [ClientReport, Unsubscribe]
    assert isinstance(written[0], ClientReport)
    assert lines(written[0]) == {(quotes.id, "queue_full", 9, 1, 1), (quotes.id, "closed", 9, 4, 5)}


def test_a_declined_event_was_not_handed_out() -> None:
    story = reporting()
    quotes = story.subscribe()
    story.deliver(1)
    arrival = quotes.take()
    assert reports(story.wait(PERIOD_S))[0].handed_out == (1,)
    quotes.requeue(arrival)
    story.turn()
    story.deliver(2)
    (report,) = reports(story.wait(PERIOD_S))
    assert report.handed_out == (0,)
    assert lines(report) == {(quotes.id, "waiting", 9, 2, 2)}


def test_an_event_that_does_not_convert_is_dropped_with_its_reason() -> None:
    story = reporting()
    quotes = story.subscribe()
    story.deliver(1)
    quotes.record_unusable(quotes.take()[0])
    (report,) = reports(story.wait(PERIOD_S))
    assert report.handed_out == (0,)
    assert lines(report) == {(quotes.id, "not_convertible", 9, 1, 1)}


def test_many_subscriptions_are_reported_in_turns() -> None:
    story = reporting()
    count = REPORTED_MAX + 100
    subscriptions = [story.subscribe() for _ in range(count)]
    for subscription in subscriptions:
        story.deliver(1, to=subscription.id)
        take(subscription, 1)
    found = reports(story.wait(3 * PERIOD_S))
    assert [len(report.subscriptions) for report in found] == [REPORTED_MAX, 100]
    assert {number for report in found for number in report.subscriptions} == {each.id for each in subscriptions}


def test_publishers_beyond_the_bound_share_a_line() -> None:
    story = reporting()
    quotes = story.subscribe(buffer=Buffer(items=1))
    for publisher in range(1, 3 * SOURCES_MAX):
        story.deliver(1, publisher=publisher)
    (report,) = reports(story.wait(PERIOD_S))
    dropped = {publisher: count for _, reason, publisher, count, _ in lines(report) if reason == "queue_full"}
    assert len(dropped) == SOURCES_MAX + 1
    assert dropped[0] == 2 * SOURCES_MAX - 2
    assert sum(dropped.values()) == quotes.dropped


@pytest.mark.parametrize("waiting", [SCANNED_MAX - 1, 3 * SCANNED_MAX + 7])
def test_waiting_events_add_up_however_many_there_are(waiting: int) -> None:
    story = reporting()
    story.subscribe()
    for sequence in range(1, waiting + 1):
        story.deliver(sequence, publisher=sequence % 3 + 1)
    (report,) = reports(story.wait(PERIOD_S))
    assert sum(report.counts) == waiting
    assert set(report.publishers) == {1, 2, 3}


def test_figures_add_up_while_nothing_can_be_written() -> None:
    story = reporting()
    quotes = story.subscribe()
    story.session.writable = False
    story.deliver(1)
    assert not reports(story.wait(3 * PERIOD_S))
    take(quotes, 1)
    story.session.writable = True
    (report,) = reports(story.wait(2 * PERIOD_S))
    assert report.handed_out == (1,)
