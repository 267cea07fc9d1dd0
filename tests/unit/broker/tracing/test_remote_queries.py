"""Queries between brokers: answered, sent again when a link loses them, and ended by a timeout."""

from __future__ import annotations

import json
from typing import Any

from plait_broker.tracing.remote_queries import ANSWERS_BURST, PENDING_MAX, RESEND_S, TIMEOUT_S, RemoteQueries
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX, Query, QueryResult

ME, NEAR, FAR = 1, 2, 3


class QueryLog:
    """One broker's queries, the frames that it sends, and the results."""

    def __init__(self, answer: Any = None) -> None:
        self.sent: list[Query | QueryResult] = []
        self.answers: list[dict[int, dict[str, Any]]] = []
        self.queries = RemoteQueries(
            ME, self.sent.append, lambda topic, question, now: answer or {topic: question}, 0.0
        )

    def ask(self, *brokers: int) -> None:
        self.queries.start(brokers, "why", {"event": "x"}, 0.0, self.answers.append)


def test_all_answers_end_the_waiting() -> None:
    log = QueryLog()
    log.ask(ME, NEAR, FAR)
    assert [frame.to for frame in log.sent] == [NEAR, FAR]
    for frame in log.sent:
        log.queries.receive(QueryResult(ME, frame.to, frame.number, json.dumps({"i am": frame.to})), 0.1)
    assert log.answers == [{ME: {"why": {"event": "x"}}, NEAR: {"i am": NEAR}, FAR: {"i am": FAR}}]
    assert log.queries.next_deadline() is None


def test_a_silent_broker_is_queried_once_more_and_then_left_out() -> None:
    log = QueryLog()
    log.ask(NEAR, FAR)
    log.queries.receive(QueryResult(ME, NEAR, log.sent[0].number, "{}"), 0.1)
    assert log.queries.next_deadline() == RESEND_S
    log.queries.tick(RESEND_S)
    assert [frame.to for frame in log.sent] == [NEAR, FAR, FAR]
    log.queries.tick(TIMEOUT_S - 0.01)
    assert not log.answers
    assert log.queries.next_deadline() == TIMEOUT_S
    log.queries.tick(TIMEOUT_S)
    assert log.answers == [{NEAR: {}}]
    log.queries.receive(QueryResult(ME, FAR, log.sent[0].number, "{}"), TIMEOUT_S + 1)
    assert len(log.answers) == 1, "too late"


def test_malformed_and_unrequested_results_are_ignored() -> None:
    log = QueryLog()
    log.ask(NEAR, FAR)
    number = log.sent[0].number
    log.queries.receive(QueryResult(ME, 99, number, "{}"), 0.1)
    log.queries.receive(QueryResult(ME, NEAR, number + 1, "{}"), 0.1)
    assert not log.answers, "these answer no query"
    log.queries.receive(QueryResult(ME, NEAR, number, "[" * 5000), 0.1)
    log.queries.receive(QueryResult(ME, NEAR, number, "{}"), 0.1)
    log.queries.receive(QueryResult(ME, FAR, number, '{"right": 1}'), 0.1)
    assert log.answers == [{FAR: {"right": 1}}]


def test_others_are_answered_within_bounds() -> None:
    log = QueryLog(answer={"text": "x" * FACTS_CHARACTERS_MAX})
    log.queries.receive(Query(ME, FAR, 5, "why", "no JSON"), 0.0)
    assert log.sent == []
    log.queries.receive(Query(ME, FAR, 5, "why", "{}"), 0.0)
    (finding,) = log.sent
    assert isinstance(finding, QueryResult)
    assert (finding.to, finding.source, finding.number) == (FAR, ME, 5)
    assert "error" in json.loads(finding.text), "too long for a frame"
    for number in range(round(ANSWERS_BURST) + 100):
        log.queries.receive(Query(ME, FAR, number, "why", "{}"), 0.0)
    assert len(log.sent) == round(ANSWERS_BURST), "beyond it, it is silent"
    log.queries.receive(Query(ME, FAR, 1, "why", "{}"), 1.0)
    assert len(log.sent) == round(ANSWERS_BURST) + 1


def test_not_more_is_asked_than_can_be_waited_for() -> None:
    log = QueryLog()
    for _ in range(PENDING_MAX):
        log.ask(FAR)
    assert not log.answers
    log.ask(FAR)
    assert log.answers == [{}]
    assert len(log.sent) == PENDING_MAX
