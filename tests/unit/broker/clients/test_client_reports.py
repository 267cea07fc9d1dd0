"""Reports of clients at the broker: honest ones are shown, lies are cut, floods are ignored, nothing counts twice."""

from __future__ import annotations

from unittest import mock

import pytest

from plait_broker.clients.client_reports import BURST, LOSING_S, REPORTS_PER_S_MAX, ClientReports
from plait_broker.clients.delivery_figures import DeliveryFigures
from plait_broker.clients.sessions import Subscription
from plait_broker.status import describe_subscriptions
from plait_core.limits import UNSEEN_LINES_MAX, UNSEEN_MAX
from plait_core.wire import Close
from plait_core.wire.frame_types.session_frames import ClientReport, Unseen, Unsubscribe
from plait_lab.simulation.one_broker.raw_clients import RawClient
from plait_lab.simulation.one_broker.stage import Stage

DELIVERED = 100
TOO_MUCH = 2**64 - 1


def told(
    subscription: int, handed_out: int, *lines: tuple[str, int], publisher: int = 9, carried: int = 0
) -> ClientReport:
    """Return a report about one subscription."""
    size = len(lines)
    return ClientReport(
        (subscription,),
        (handed_out,),
        (carried,),
        (subscription,) * size,
        tuple(reason for reason, _ in lines),
        (publisher,) * size,
        tuple(count for _, count in lines),
        (7,) * size,
    )


class Story:
    """A broker that has delivered 100 events to a subscriber."""

    def __init__(self, delivered: int = DELIVERED) -> None:
        self.stage = Stage()
        self.client: RawClient = self.stage.raw("subscriber")
        publisher = self.stage.raw("publisher")
        self.client.subscribe(1)
        self.stage.run(0.1)
        for n in range(delivered):
            publisher.publish(n=n)
        self.stage.run(0.1)

    def report(self, *frames: ClientReport) -> Story:
        self.client.send(*frames)
        self.stage.run(0.1)
        return self

    @property
    def reports(self) -> ClientReports:
        return self.stage.broker.client_reports

    @property
    def figures(self) -> DeliveryFigures:
        figures = self.subscription.figures
        assert figures is not None, "the client has reported"
        return figures

    @property
    def subscription(self) -> Subscription:
        (session,) = [session for session in self.stage.broker.sessions.all() if session.subscriptions]
        return session.subscriptions[1]

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self.stage.broker.counters.client_dropped)

    @property
    def outcomes(self) -> dict[str, int]:
        return dict(self.stage.broker.counters.client_reports)

    @property
    def losing(self) -> int:
        return self.reports.losing(self.stage.node.now)


def test_an_honest_report_is_shown() -> None:
    story = Story().report(told(1, 54, ("queue_full", 14), ("waiting", 32)))
    (row,) = describe_subscriptions(story.stage.broker)
    assert (row["delivered"], row["handed_out"], row["client_waiting"]) == (DELIVERED, 54, 32)
    assert row["client_dropped"] == {"queue_full": 14}
    assert (story.dropped, story.outcomes) == ({"queue_full": 14}, {"taken": 1})
    assert (story.reports.waiting, story.losing, story.stage.broker.counters.handed_out) == (32, 1, 54)


def test_nothing_is_known_before_a_report() -> None:
    (row,) = describe_subscriptions(Story().stage.broker)
    assert (row["handed_out"], row["client_waiting"], row["client_dropped"]) == (None, None, {})


def test_a_report_that_comes_twice_counts_once() -> None:
    report = told(1, 54, ("queue_full", 14), ("waiting", 32))
    story = Story().report(report, report).report(report)
    assert (story.dropped, story.reports.waiting, story.outcomes) == ({"queue_full": 14}, 32, {"taken": 3})


def test_a_lost_report_changes_nothing() -> None:
    story = Story().report(told(1, 10, ("queue_full", 3)))
    story.report(told(1, 54, ("queue_full", 14)))  # others between them have not arrived
    assert (story.dropped, story.figures.handed_out) == ({"queue_full": 14}, 54)


@pytest.mark.parametrize(
    "lie",
    [
        told(1, TOO_MUCH),
        told(1, 0, ("queue_full", TOO_MUCH)),
        told(1, 0, ("waiting", TOO_MUCH)),
        told(1, TOO_MUCH, ("queue_full", TOO_MUCH), ("waiting", TOO_MUCH), ("closed", TOO_MUCH)),
        told(1, 60, ("queue_full", 60)),
        told(1, 60, ("waiting", 60)),
        told(1, 0, ("waiting", 60), ("queue_full", 60)),
    ],
)
def test_a_lie_is_cut_to_what_was_delivered(lie: ClientReport) -> None:
    story = Story().report(lie)
    figures = story.figures
    assert figures.handed_out + figures.waiting + figures.dropped.total() <= DELIVERED
    assert story.reports.waiting == figures.waiting >= 0
    assert sum(story.dropped.values()) == figures.dropped.total()
    assert story.outcomes == {"corrected": 1}
    assert story.client.closed_for is None, "a wrong figure is no reason to lose the connection"


def test_totals_that_fall_are_kept() -> None:
    story = Story().report(told(1, 0, ("queue_full", 14))).report(told(1, 0, ("queue_full", 3)))
    story.report(told(1, 0, ("queue_full", 14)))
    assert (story.dropped, story.outcomes) == ({"queue_full": 14}, {"taken": 2, "corrected": 1})


def test_what_a_client_carried_over_is_bounded_by_its_buffer() -> None:
    story = Story(delivered=3)
    story.report(told(1, 0, ("queue_full", 5), carried=5))
    assert (dict(story.figures.dropped), story.outcomes) == ({"queue_full": 5}, {"taken": 1})
    assert story.dropped == {"queue_full": 3}, "totals have no events that another session has counted"
    story.report(told(1, 0, ("queue_full", TOO_MUCH), carried=TOO_MUCH))
    assert dict(story.figures.dropped) == {"queue_full": 8}, "the first report counts"
    assert story.dropped == {"queue_full": 3}


def test_what_a_client_says_it_brought_is_bounded_by_the_broker() -> None:
    story = Story(delivered=0)
    story.client.subscribe(2, items_max=TOO_MUCH >> 33)
    story.stage.run(0.1)
    for again in range(3):
        story.report(told(2, 0, ("queue_full", TOO_MUCH), ("waiting", TOO_MUCH), carried=TOO_MUCH))
        assert story.reports.waiting <= story.stage.broker.settings.outbox_items_max, again
    assert story.dropped == {}
    assert story.stage.broker.counters.handed_out == 0


def test_a_flood_is_counted_and_ignored() -> None:
    story = Story()
    size = UNSEEN_MAX
    ones = (1,) * size
    large = ClientReport((1,), (0,), (0,), ones, ("waiting",) * size, tuple(range(size)), (0,) * size, ones)
    for _ in range(50):
        story.client.send(large)
    story.stage.run(0.5)
    assert story.outcomes["ignored"] >= 50 - BURST / size - 1
    assert story.client.closed_for is None
    assert story.client.connection is not None
    story.stage.run(10)
    assert story.report(told(1, 54)).figures.handed_out == 54, "the next one is taken again"


def test_lines_and_reasons_are_bounded() -> None:
    story = Story()
    story.report(*[told(1, 0, ("queue_full", 1), publisher=publisher) for publisher in range(1, 2 * UNSEEN_LINES_MAX)])
    assert len(story.figures.lines) == UNSEEN_LINES_MAX
    assert Story().report(told(1, 0, ("a reason of the future", 5))).dropped == {"other": 5}
    assert Story().report(told(1, 0, ("gone", 5))).dropped == {"other": 5}, "only the broker itself counts that"


def test_lines_of_one_report_are_bounded() -> None:
    story, size = Story(), 10 * UNSEEN_LINES_MAX
    waiting = ("waiting",) * size
    ones = (1,) * size
    story.report(ClientReport((1,), (0,), (0,), ones, waiting, tuple(range(1, size + 1)), ones, ones))
    assert len(story.figures.lines) == UNSEEN_LINES_MAX


@pytest.mark.parametrize(
    "frame",
    [
        ClientReport((1, 1), (5, 5), (0, 0)),
        ClientReport((1,), (5,), (0,), (1, 1), ("waiting", "waiting"), (9, 9), (3, 2), (7, 7)),
    ],
    ids=["subscription", "source"],
)
def test_a_report_has_each_subscription_and_source_once(frame: ClientReport) -> None:
    """Else a few kilobytes would cost the product of both numbers."""
    story = Story()
    with mock.patch.object(ClientReport, "problem", return_value=""):
        story.client.send(frame)
    story.stage.run(0.1)
    assert story.outcomes == {}
    assert story.stage.broker.counters.faults


def test_a_number_that_is_drained_again_leaves_nothing() -> None:
    story = Story(delivered=0)
    publisher = story.stage.raw("publisher")
    for _ in range(5):
        story.client.subscribe(3)
        story.stage.run(0.1)
        publisher.publish(n=1)
        story.report(told(3, 0, ("waiting", 1)))
        story.client.send(Unsubscribe(story.client.next_request(), 3, drain=True))
        story.stage.run(0.1)
    story.client.send(Close("bye"))
    story.stage.run(0.1)
    assert story.reports.waiting == 0


def test_another_subscription_is_not_touched() -> None:
    story = Story().report(told(2, 54, ("queue_full", 14)))
    assert (story.dropped, story.subscription.figures) == ({}, None)


def test_totals_outlive_their_subscription() -> None:
    story = Story().report(told(1, 54, ("queue_full", 14), ("waiting", 32)))
    story.client.send(Unsubscribe(story.client.next_request(), 1))
    story.stage.run(0.1)
    assert (story.dropped, story.reports.waiting, story.losing) == ({"queue_full": 14}, 0, 0)


@pytest.mark.parametrize("orderly", [True, False])
def test_what_waits_in_a_client_that_goes_is_gone(orderly: bool) -> None:
    story = Story().report(told(1, 54, ("queue_full", 14), ("waiting", 32)))
    if orderly:
        story.client.send(Close("bye"))
    else:
        assert story.client.connection is not None
        story.client.connection.abandon(story.client, notify=True)
    story.stage.run(story.stage.broker.settings.resume_s + 5)
    assert (story.dropped, story.reports.waiting) == ({"queue_full": 14, "gone": 32}, 0)


def test_a_loss_is_news_for_a_minute() -> None:
    story = Story().report(told(1, 0, ("queue_full", 14)))
    assert story.losing == 1
    assert story.reports.losing(story.stage.node.now + LOSING_S + 1) == 0


def test_many_clients_report_less_often() -> None:
    reports = Story().reports
    assert reports.interval_s(1) == 1.0
    assert reports.interval_s(10_000) == 10_000 / REPORTS_PER_S_MAX


def test_all_reasons_have_a_metric_before_they_occur() -> None:
    assert {Unseen.QUEUE_FULL, Unseen.CLOSED, Unseen.GONE, Unseen.OTHER} <= set(Unseen)
