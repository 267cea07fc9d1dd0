"""Counting of backlogs whose events were logged before: after a start of the broker, or when a cursor was moved.

The log is read in small steps with pauses, so that counting a long log does not delay events. One pass counts all
subscriptions that wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from ...outputs import Fetch, LogRecord, Output
from ...pipeline.subscription_index import SubscriptionIndex
from ..sessions import DurableSubscription
from .durable_subscriptions import RETRY_S, DurableSubscriptions, entry_of

STEP_RECORDS: Final = 256
"""Records of one step: a few milliseconds of matching."""

PAUSE_S: Final = 0.02
"""Time between two steps: counting takes a small share of the processor, and a million records take two minutes."""


class BacklogCount:
    """Counts the backlogs of a broker in the background."""

    def __init__(self, durables: DurableSubscriptions, index: SubscriptionIndex) -> None:
        self._durables = durables
        self._index = index
        self._counted: dict[DurableSubscription, None] = {}
        """The subscriptions of the present pass."""
        self._next_position = 0
        self._last_position = 0
        self._ticket = 0
        self._step_at = inf

    @property
    def due_at(self) -> float:
        """When `take` is to be called; -inf: at once."""
        if self._counted:
            return self._step_at
        return -inf if self._durables.uncounted else inf

    def take(self, now: float) -> list[Output]:
        """Return the next read of the log, if it is due."""
        if not self._counted:
            self._begin()
        if not self._counted or now < self._step_at:
            return []
        self._step_at = inf
        self._ticket = self._durables.new_ticket()
        return [Fetch(self._ticket, self._next_position, STEP_RECORDS)]

    def fetched(self, ticket: int, records: Sequence[LogRecord], error: str | None, now: float) -> bool:
        """Take the answer to a Fetch; return whether it was one of these."""
        if ticket != self._ticket:
            return False
        if error is not None:
            self._step_at = now + RETRY_S
            self._counted = {each: None for each in self._counted if self._durables.has(each)}
            return True
        records = [record for record in records if record.position <= self._last_position]
        for record in records:
            self._count(record)
        self._next_position = records[-1].position + 1 if len(records) == STEP_RECORDS else self._last_position + 1
        self._step_at = now + PAUSE_S
        for durable in self._counted:
            durable.backlog.uncounted = range(self._next_position, durable.backlog.uncounted.stop)
        if self._next_position > self._last_position:
            self._counted.clear()
        return True

    def _begin(self) -> None:
        """Begin a pass for the subscriptions that wait for one."""
        self._counted, self._durables.uncounted = self._durables.uncounted, {}
        self._last_position = self._durables.stored
        self._next_position = min((each.acknowledged for each in self._counted), default=0) + 1
        for durable in self._counted:
            durable.backlog.clear(range(self._next_position, self._last_position + 1))
        self._step_at = -inf

    def _count(self, record: LogRecord) -> None:
        """Count a record for the subscriptions that it waits for."""
        entry, position = entry_of(record), record.position
        present = self._index.match(entry.frame)[1]
        before = [each for each in self._counted if each.earlier and position <= each.earlier[-1].up_to]
        matched = [each for each in present if each in self._counted and each not in before]
        matched += [each for each in before if each.filter_at(position).matches(entry.frame.attributes())]
        for durable in matched:
            settled = position <= durable.acknowledged or position in durable.beyond
            if position in durable.backlog.uncounted and not settled and record.logged_us >= durable.since_us:
                durable.backlog.add(position, len(record.block), record.logged_us)
