"""What one broker asks others so that people may know: a question to each, their answers, and no waiting for ever.

The overlay carries Inquiry and Finding like any errand, and may lose them with a link; so a question is asked twice,
and whoever has not answered by then is left out. Answers come from other brokers: they are shown, and decide nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from plait_core.rate_limit import TokenBucket
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX, Query, QueryResult

Json: TypeAlias = dict[str, Any]

WAIT_S: Final = 2.0
"""For answers: more than any path takes that people would call working."""

AGAIN_S: Final = 0.7
"""After which those who have not answered are asked once more."""

ASKED_MAX: Final = 64
"""Questions that wait for answers; more are answered by silence at once."""

ANSWERS_PER_S: Final = 200.0
ANSWERS_BURST: Final = 200.0
"""How often others are answered: each answer may look through all that is remembered, a millisecond."""


@dataclass(slots=True)
class PendingQuery:
    """One question that waits."""

    topic: str
    text: str
    waiting: dict[int, None]
    """Brokers that have not answered."""
    answers: dict[int, Json]
    done: Callable[[dict[int, Json]], None]
    again_at: float | None
    until: float


class RemoteQueries:
    """One broker's questions to others, and its answers to theirs."""

    def __init__(
        self,
        me: int,
        tell: Callable[[Query | QueryResult], None],
        answer: Callable[[str, Json, float], Json],
        now: float,
    ) -> None:
        """`tell` sends a frame to another broker; `answer` answers a question on a topic, ours or another's."""
        self._me = me
        self._tell = tell
        self._answer = answer
        self._pace = TokenBucket(ANSWERS_PER_S, ANSWERS_BURST, now)
        self.pending: dict[int, PendingQuery] = {}
        """By number, the queries that await answers."""
        self._numbers = 0

    def ask(
        self, brokers: Iterable[int], topic: str, question: Json, now: float, done: Callable[[dict[int, Json]], None]
    ) -> None:
        """Ask these brokers, of which this one may be one; `done` gets the answers of those who gave one."""
        answers: dict[int, Json] = {}
        waiting = dict.fromkeys(brokers)
        if self._me in waiting:
            del waiting[self._me]
            answers[self._me] = self._answer(topic, question, now)
        text = json.dumps(question)
        assert len(text) <= FACTS_CHARACTERS_MAX, "the HTTP side takes no such paths"
        if not waiting or len(self.pending) >= ASKED_MAX:
            done(answers)
            return
        self._numbers += 1
        self.pending[self._numbers] = PendingQuery(topic, text, waiting, answers, done, now + AGAIN_S, now + WAIT_S)
        self._send(self._numbers)

    def hear(self, frame: Query | QueryResult, now: float) -> None:
        """Another broker asks, or answers."""
        if isinstance(frame, Query):
            self._hear_inquiry(frame, now)
            return
        asked = self.pending.get(frame.number)
        if asked is None or frame.source not in asked.waiting:
            return
        del asked.waiting[frame.source]
        facts = _object(frame.text)
        if facts is not None:
            asked.answers[frame.source] = facts
        if not asked.waiting:
            self._finish(frame.number)

    def tick(self, now: float) -> None:
        """Ask again, or wait no more."""
        for number, asked in list(self.pending.items()):
            if now >= asked.until:
                self._finish(number)
            elif asked.again_at is not None and now >= asked.again_at:
                asked.again_at = None
                self._send(number)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        if not self.pending:
            return None
        times = [asked.until if asked.again_at is None else asked.again_at for asked in self.pending.values()]
        return min(times, default=None)

    def _send(self, number: int) -> None:
        asked = self.pending[number]
        for broker in list(asked.waiting):
            self._tell(Query(broker, self._me, number, asked.topic, asked.text))

    def _finish(self, number: int) -> None:
        asked = self.pending.pop(number)
        asked.done(asked.answers)

    def _hear_inquiry(self, inquiry: Query, now: float) -> None:
        question = _object(inquiry.text)
        if question is None or not self._pace.take(now):
            return
        text = json.dumps(self._answer(inquiry.topic, question, now))
        if len(text) > FACTS_CHARACTERS_MAX:
            text = json.dumps({"error": f"an answer of {len(text)} characters"})
        self._tell(QueryResult(inquiry.source, self._me, inquiry.number, text))


def _object(text: str) -> Json | None:
    """The JSON object that another broker wrote; None when it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
