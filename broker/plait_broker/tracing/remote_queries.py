"""Queries from one broker to others on behalf of people: one query to each broker, their results, and a timeout.

The overlay carries Query and QueryResult as end-to-end control messages and may lose them with a link. A query is
therefore sent twice, and a broker that has not answered by the deadline is left out. Results of other brokers are
untrusted: they are shown, and decide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from plait_core.rate_limit import TokenBucket
from plait_core.values import Json
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX, Query, QueryResult

TIMEOUT_S: Final = 2.0
"""Timeout of a query: longer than any path that people would call working."""

RESEND_S: Final = 0.7
"""Time after which a query is sent again to brokers that have not answered."""

PENDING_MAX: Final = 64
"""Queries that await results; further ones end at once with local results only."""

ANSWERS_PER_S: Final = 200.0
ANSWERS_BURST: Final = 200.0
"""Rate of queries that this broker answers: each may search the whole history, a millisecond."""


@dataclass(slots=True)
class PendingQuery:
    """A query that awaits results."""

    topic: str
    text: str
    waiting: dict[int, None]
    """Brokers that have not answered."""
    answers: dict[int, Json]
    done: Callable[[dict[int, Json]], None]
    resend_at: float | None
    deadline: float


class RemoteQueries:
    """One broker's queries to others, and its answers to theirs."""

    def __init__(
        self,
        own_id: int,
        send: Callable[[Query | QueryResult], None],
        answer: Callable[[str, Json, float], Json],
        now: float,
    ) -> None:
        """`send` sends a frame to another broker; `answer` answers a query on a topic, of this broker or of another."""
        self._own_id = own_id
        self._send = send
        self._answer = answer
        self._rate_limit = TokenBucket(ANSWERS_PER_S, ANSWERS_BURST, now)
        self.pending: dict[int, PendingQuery] = {}
        """By number, the queries that await answers."""
        self._numbers = 0

    def start(
        self, brokers: Iterable[int], topic: str, arguments: Json, now: float, done: Callable[[dict[int, Json]], None]
    ) -> None:
        """Query these brokers, which may include this one; `done` receives the results of those that answered."""
        answers: dict[int, Json] = {}
        waiting = dict.fromkeys(brokers)
        if self._own_id in waiting:
            del waiting[self._own_id]
            answers[self._own_id] = self._answer(topic, arguments, now)
        text = json.dumps(arguments)
        assert len(text) <= FACTS_CHARACTERS_MAX, "the HTTP server limits the length of a path"
        if not waiting or len(self.pending) >= PENDING_MAX:
            done(answers)
            return
        self._numbers += 1
        self.pending[self._numbers] = PendingQuery(topic, text, waiting, answers, done, now + RESEND_S, now + TIMEOUT_S)
        self._send_query(self._numbers)

    def receive(self, frame: Query | QueryResult, now: float) -> None:
        """Handle a query or a result of another broker."""
        if isinstance(frame, Query):
            self._answer_query(frame, now)
            return
        query = self.pending.get(frame.number)
        if query is None or frame.source not in query.waiting:
            return
        del query.waiting[frame.source]
        facts = _object(frame.text)
        if facts is not None:
            query.answers[frame.source] = facts
        if not query.waiting:
            self._finish(frame.number)

    def tick(self, now: float) -> None:
        """Send queries again, and end those that timed out."""
        for number, query in list(self.pending.items()):
            if now >= query.deadline:
                self._finish(number)
            elif query.resend_at is not None and now >= query.resend_at:
                query.resend_at = None
                self._send_query(number)

    def next_deadline(self) -> float | None:
        """Return when `tick` is due."""
        if not self.pending:
            return None
        times = [query.deadline if query.resend_at is None else query.resend_at for query in self.pending.values()]
        return min(times, default=None)

    def _send_query(self, number: int) -> None:
        query = self.pending[number]
        for broker in list(query.waiting):
            self._send(Query(broker, self._own_id, number, query.topic, query.text))

    def _finish(self, number: int) -> None:
        query = self.pending.pop(number)
        query.done(query.answers)

    def _answer_query(self, query: Query, now: float) -> None:
        arguments = _object(query.text)
        if arguments is None or not self._rate_limit.take(now):
            return
        text = json.dumps(self._answer(query.topic, arguments, now))
        if len(text) > FACTS_CHARACTERS_MAX:
            text = json.dumps({"error": f"an answer of {len(text)} characters"})
        self._send(QueryResult(query.source, self._own_id, query.number, text))


def _object(text: str) -> Json | None:
    """Return the JSON object that another broker wrote, or None if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
