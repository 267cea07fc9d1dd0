"""Queries between brokers: answered, retransmitted when a link loses them, and ended by a timeout."""

from __future__ import annotations

import json
from typing import Any

from plait_broker.tracing.remote_queries import ANSWERS_BURST, PENDING_MAX, RESEND_S, TIMEOUT_S, RemoteQueries
from plait_core.wire.frame_types.trace_frames import FACTS_CHARACTERS_MAX, Query, QueryResult

ME, NEAR, FAR = 1, 2, 3


class Desk:
    """One broker's queries, what they send, and what comes of them."""

    def __init__(self, answer: Any = None) -> None:
        self.sent: list[Query | QueryResult] = []
        self.answers: list[dict[int, dict[str, Any]]] = []
        self.queries = RemoteQueries(
            ME, self.sent.append, lambda topic, question, now: answer or {topic: question}, 0.0
        )

    def ask(self, *brokers: int) -> None:
        self.queries.ask(brokers, "why", {"event": "x"}, 0.0, self.answers.append)


def test_all_answers_end_the_waiting() -> None:
    desk = Desk()
    desk.ask(ME, NEAR, FAR)
    assert [frame.to for frame in desk.sent] == [NEAR, FAR]
    for frame in desk.sent:
        desk.queries.receive(QueryResult(ME, frame.to, frame.number, json.dumps({"i am": frame.to})), 0.1)
    assert desk.answers == [{ME: {"why": {"event": "x"}}, NEAR: {"i am": NEAR}, FAR: {"i am": FAR}}]
    assert desk.queries.next_deadline() is None


def test_who_is_silent_is_asked_once_more_and_then_left_out() -> None:
    desk = Desk()
    desk.ask(NEAR, FAR)
    desk.queries.receive(QueryResult(ME, NEAR, desk.sent[0].number, "{}"), 0.1)
    assert desk.queries.next_deadline() == RESEND_S
    desk.queries.tick(RESEND_S)
    assert [frame.to for frame in desk.sent] == [NEAR, FAR, FAR]
    desk.queries.tick(TIMEOUT_S - 0.01)
    assert not desk.answers
    assert desk.queries.next_deadline() == TIMEOUT_S
    desk.queries.tick(TIMEOUT_S)
    assert desk.answers == [{NEAR: {}}]
    desk.queries.receive(QueryResult(ME, FAR, desk.sent[0].number, "{}"), TIMEOUT_S + 1)
    assert len(desk.answers) == 1, "too late"


def test_what_is_no_answer_is_none() -> None:
    desk = Desk()
    desk.ask(NEAR, FAR)
    number = desk.sent[0].number
    desk.queries.receive(QueryResult(ME, 99, number, "{}"), 0.1)
    desk.queries.receive(QueryResult(ME, NEAR, number + 1, "{}"), 0.1)
    assert not desk.answers, "nobody asked these"
    desk.queries.receive(QueryResult(ME, NEAR, number, "[" * 5000), 0.1)
    desk.queries.receive(QueryResult(ME, NEAR, number, "{}"), 0.1)
    desk.queries.receive(QueryResult(ME, FAR, number, '{"right": 1}'), 0.1)
    assert desk.answers == [{FAR: {"right": 1}}]


def test_others_are_answered_within_bounds() -> None:
    desk = Desk(answer={"text": "x" * FACTS_CHARACTERS_MAX})
    desk.queries.receive(Query(ME, FAR, 5, "why", "no JSON"), 0.0)
    assert desk.sent == []
    desk.queries.receive(Query(ME, FAR, 5, "why", "{}"), 0.0)
    (finding,) = desk.sent
    assert isinstance(finding, QueryResult)
    assert (finding.to, finding.source, finding.number) == (FAR, ME, 5)
    assert "error" in json.loads(finding.text), "too long for a frame"
    for number in range(round(ANSWERS_BURST) + 100):
        desk.queries.receive(Query(ME, FAR, number, "why", "{}"), 0.0)
    assert len(desk.sent) == round(ANSWERS_BURST), "beyond it, it is silent"
    desk.queries.receive(Query(ME, FAR, 1, "why", "{}"), 1.0)
    assert len(desk.sent) == round(ANSWERS_BURST) + 1


def test_not_more_is_asked_than_can_be_waited_for() -> None:
    desk = Desk()
    for _ in range(PENDING_MAX):
        desk.ask(FAR)
    assert not desk.answers
    desk.ask(FAR)
    assert desk.answers == [{}]
    assert len(desk.sent) == PENDING_MAX
