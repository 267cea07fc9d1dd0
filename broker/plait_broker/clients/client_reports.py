"""Reports of clients about their deliveries: what applications were handed, what clients dropped, what waits there.

A client can only report about deliveries that were written for it, and about a bounded number that it brought from its
last session. Figures beyond that are cut, and the report is counted as `corrected`. Totals of the broker and telemetry
have no events of an earlier session, which were counted there. Reports beyond the rate limit are counted as `ignored`:
the next one has the same totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait_core.limits import REPORTED_MAX, UNSEEN_LINES_MAX, UNSEEN_MAX
from plait_core.rate_limit import TokenBucket
from plait_core.wire.frame_types.session_frames import ClientReport, Unseen

from .delivery_figures import DeliveryFigures, Source

if TYPE_CHECKING:
    from ..context import BrokerContext
    from .sessions import Session, Subscription

REPORT_S: Final = 1.0
"""Least time between two reports of a client: operators see a loss after a second."""

REPORTS_PER_S_MAX: Final = 100
"""Reports a second of all clients together, which a client's interval is chosen for. They cost some tenths of a percent
of a core."""

_WHOLE_REPORT: Final = 1 + REPORTED_MAX + UNSEEN_MAX
RATE_PER_S, BURST = 1.0 * _WHOLE_REPORT, 4.0 * _WHOLE_REPORT
"""Entries and lines that one client may report. A client that closes many subscriptions reports each once more."""

LOSING_S: Final = 60.0
"""Time after a reported loss in which a subscription counts as one that loses events: a few scrapes."""

DRAINED_MAX: Final = 64
"""The last drained subscriptions of one client. Its last report follows the answer within a round trip."""

OUTCOMES: Final = ("taken", "corrected", "ignored")
"""Outcomes of a report."""

_REASONS: Final = {reason.value: reason for reason in Unseen if reason is not Unseen.GONE}


class ClientReports:
    """Takes the reports of all sessions."""

    def __init__(self, context: BrokerContext) -> None:
        self._counters = context.counters
        self._observer = context.observer
        self._settings = context.settings
        self._losing: dict[int, float] = {}  # time of the last reported loss, by subscription
        self.waiting = 0
        """Events in the buffers of all clients."""

    def interval_s(self, sessions: int) -> float:
        """Return the interval for the reports of a new client, one of so many."""
        return max(REPORT_S, sessions / REPORTS_PER_S_MAX)

    def losing(self, now: float) -> int:
        """Return the number of open subscriptions whose clients have reported a loss lately."""
        for number, at in list(self._losing.items()):
            if now - at <= LOSING_S:
                break  # those behind it lost something later
            del self._losing[number]
        return len(self._losing)

    def receive(self, session: Session, frame: ClientReport, now: float) -> None:
        """Take a report."""
        if session.report_rate is None:
            session.report_rate = TokenBucket(RATE_PER_S, BURST, now)
        if not session.report_rate.take(now, 1 + len(frame.subscriptions) + len(frame.unseen_by)):
            self._counters.client_reports["ignored"] += 1
            return
        lines: dict[int, list[tuple[str, int, int, int]]] = {}
        for number, reason, publisher, count, last in zip(
            frame.unseen_by, frame.reasons, frame.publishers, frame.counts, frame.last, strict=True
        ):
            lines.setdefault(number, []).append((reason, publisher, count, last))
        correct = True
        for number, handed_out, carried in zip(frame.subscriptions, frame.handed_out, frame.carried, strict=True):
            subscription = session.subscriptions.get(number) or session.drained.get(number)
            if subscription is not None:  # else it has ended meanwhile
                correct &= self._update(subscription, handed_out, carried, lines.get(number, []), now)
        self._counters.client_reports["taken" if correct else "corrected"] += 1

    def end_session(self, session: Session, now: float) -> None:
        """Count what waits in the client of a session that ends as gone. Logged events stay in the log."""
        for subscription in session.subscriptions.values():
            figures = subscription.figures
            if figures is not None and figures.waiting and subscription.durable is None:
                self._counters.client_dropped[Unseen.GONE] += figures.waiting
                self._observer.unseen(subscription, Unseen.GONE, (0, 0), figures.waiting, now)
                self.waiting -= figures.waiting
                figures.waiting = 0
                figures.lines = {}

    def drain(self, subscription: Subscription, now: float) -> None:
        """Keep a drained subscription for a while: its client has yet to report about the last deliveries."""
        drained = subscription.session.drained
        before = drained.pop(subscription.id, None)  # its client has used the number again
        if before is not None:
            self.end(before, now)
        drained[subscription.id] = subscription
        if len(drained) > DRAINED_MAX:
            self.end(drained.pop(next(iter(drained))), now)

    def end(self, subscription: Subscription, now: float) -> None:
        """Forget a subscription. The application gets what waits for it, unless its session ends."""
        figures, subscription.figures = subscription.figures, None
        self._losing.pop(subscription.number, None)
        if figures is None:
            return
        for (reason, publisher), (count, last) in figures.lines.items():
            if reason is Unseen.WAITING:
                self._observer.unseen(subscription, reason, (publisher, last), -count, now)
        self.waiting -= figures.waiting

    # --- inside -------------------------------------------------------------------------------------------------------

    def _update(
        self,
        subscription: Subscription,
        handed_out: int,
        carried: int,
        lines: list[tuple[str, int, int, int]],
        now: float,
    ) -> bool:
        """Take the figures of one subscription. Return whether they were possible."""
        figures = subscription.figures
        if figures is None:
            carried_max = min(subscription.terms.items_max, self._settings.current.outbox_items_max)
            figures = subscription.figures = DeliveryFigures(min(carried, carried_max))
        room = subscription.delivered + figures.carried - figures.dropped.total()
        correct = carried == figures.carried
        sources = len(figures.lines)
        waiting: list[tuple[Source, int, int]] = []
        for text, publisher, count, last in lines:
            source = (_REASONS.get(text, Unseen.OTHER), publisher)
            known = source in figures.lines
            if not known and sources >= UNSEEN_LINES_MAX:
                correct = False
                continue
            sources += not known
            if source[0] is Unseen.WAITING:
                waiting.append((source, count, last))
            else:
                more = count - figures.lines.get(source, (0, 0))[0]
                dropped = min(max(0, more), room)
                correct &= dropped == more
                room -= dropped
                self._drop(subscription, figures, source, dropped, last, now)
        room = self._set_waiting(subscription, figures, waiting, room, now)
        correct &= handed_out <= room and all(
            figures.lines.get(source, (0, 0))[0] == count for source, count, _ in waiting
        )
        self._hand_out(subscription, figures, min(handed_out, room), now)
        return correct

    def _drop(
        self, subscription: Subscription, figures: DeliveryFigures, source: Source, count: int, last: int, now: float
    ) -> None:
        if not count:
            return
        figures.lines[source] = (figures.lines.get(source, (0, 0))[0] + count, last)
        figures.dropped[source[0]] += count
        counted = min(count, max(0, subscription.delivered - figures.counted))
        if counted:
            figures.counted += counted
            self._counters.client_dropped[source[0]] += counted
            self._losing.pop(subscription.number, None)
            self._losing[subscription.number] = now  # at the end: the order is that of the last loss
            self._observer.unseen(subscription, source[0], (source[1], last), counted, now)

    def _set_waiting(
        self,
        subscription: Subscription,
        figures: DeliveryFigures,
        lines: list[tuple[Source, int, int]],
        room: int,
        now: float,
    ) -> int:
        """Set the waiting events of some publishers. Return how many events the application may have got at most."""
        room -= figures.waiting
        known = figures.lines
        falls_first = sorted(lines, key=lambda line: line[1] - known.get(line[0], (0, 0))[0])
        for source, count, last in falls_first:
            before, last_before = known.pop(source, (0, 0))
            count = min(count, max(0, room + before))
            room -= count - before
            figures.waiting += count - before
            self.waiting += count - before
            if count:
                known[source] = (count, last)
            if count != before:
                seen = (source[1], last or last_before)
                self._observer.unseen(subscription, source[0], seen, count - before, now)
        return max(0, room)

    def _hand_out(self, subscription: Subscription, figures: DeliveryFigures, handed_out: int, now: float) -> None:
        more = max(0, handed_out - figures.most_handed_out)  # it falls when an application declines an event
        figures.handed_out = handed_out
        counted = min(more, max(0, subscription.delivered - figures.most_handed_out))
        figures.most_handed_out += more
        self._counters.handed_out += counted
        self._observer.client_reported(subscription, counted, figures.waiting, now)
