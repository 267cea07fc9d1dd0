"""Reports to the broker about deliveries in the client, so that operators see losses that only the client knows.

A report goes out at most once in the interval that the broker's Welcome states, and only when figures have changed.
The first delivery after a quiet time sets the deadline, so an idle client has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING

from plait_core.limits import REPORTED_MAX, UNSEEN_LINES_MAX, UNSEEN_MAX
from plait_core.wire.frame_types.session_frames import ClientReport

from .delivery_account import Line

if TYPE_CHECKING:
    from .broker_connection import BrokerConnection
    from .subscription_state import SubscriptionState


class ClientReports:
    """Sends the reports of one session."""

    def __init__(self, connection: BrokerConnection, subscriptions: Mapping[int, SubscriptionState]) -> None:
        self.due_at = inf
        """When `tick` is to be called; inf while there is nothing to report."""
        self.idle = False
        """Whether the next delivery has to call `arm`."""
        self._connection = connection
        self._subscriptions = subscriptions
        self._interval_s = 0.0
        self._last = 0  # the subscription that was reported last, when there were too many for one report

    def opened(self, interval_s: float, now: float) -> None:
        """Begin to report to a broker. `interval_s` is 0 for one that takes no reports."""
        self._interval_s, self.idle, self.due_at = interval_s, False, inf
        if interval_s:
            for subscription in self._subscriptions.values():
                subscription.account.repeat()
            self.arm(now)

    def closed(self) -> None:
        """Stop reporting: there is no connection."""
        self._interval_s, self.idle, self.due_at = 0.0, False, inf

    def arm(self, now: float) -> bool:
        """Set the deadline of the next report. Return True: the deadline has changed."""
        self.idle, self.due_at = False, now + self._interval_s
        return True

    def tick(self, now: float, *, writable: bool) -> None:
        """Report if it is time. While nothing can be written, figures add up."""
        if now < self.due_at:
            return
        news = [subscription for subscription in self._subscriptions.values() if _has_news(subscription)]
        if news and writable:
            self._send_next(news)
        if news or any(subscription.queue for subscription in self._subscriptions.values()):
            self.arm(now)  # what waits may be handed out without another delivery
        else:
            self.idle, self.due_at = True, inf

    def report_last(self, *subscriptions: SubscriptionState) -> None:
        """Report subscriptions that end at the broker next."""
        news = [subscription for subscription in subscriptions if _has_news(subscription)]
        while self._interval_s and news:
            news = news[self._send(news) :]

    def report_all(self) -> None:
        """Report everything: the session ends next."""
        self.report_last(*self._subscriptions.values())

    def _send_next(self, news: list[SubscriptionState]) -> None:
        """Send one report. Subscriptions that do not fit follow in the next ones, in turns."""
        later = [subscription for subscription in news if subscription.id > self._last]
        ordered = later + news[: len(news) - len(later)]
        sent = self._send(ordered)
        self._last = ordered[sent - 1].id if sent < len(ordered) else 0

    def _send(self, news: list[SubscriptionState]) -> int:
        """Send a report of as many subscriptions as fit. Return their number."""
        subscriptions: list[int] = []
        handed_out: list[int] = []
        carried: list[int] = []
        lines: list[tuple[int, Line]] = []
        for subscription in news[:REPORTED_MAX]:
            if len(lines) + UNSEEN_LINES_MAX > UNSEEN_MAX:
                break
            out, changed = subscription.account.take_report(
                subscription.received, subscription.delivered, subscription.queue
            )
            subscriptions.append(subscription.id)
            handed_out.append(out)
            carried.append(subscription.account.carried)
            lines += [(subscription.id, line) for line in changed]
        report = ClientReport(
            tuple(subscriptions),
            tuple(handed_out),
            tuple(carried),
            tuple(number for number, _ in lines),
            tuple(line.reason for _, line in lines),
            tuple(line.publisher for _, line in lines),
            tuple(line.events for _, line in lines),
            tuple(line.last for _, line in lines),
        )
        self._connection.send(report)
        return len(subscriptions)


def _has_news(subscription: SubscriptionState) -> bool:
    return subscription.account.has_news(subscription.delivered, len(subscription.queue))
