"""`plait why EVENT`: one outcome from the reports of all brokers."""

from __future__ import annotations

from typing import Any

import pytest

from plait.commands.observe.event_outcome import outcome_of

A, B, C = "0a", "0b", "0c"


def report(broker: str, id: str, **more: Any) -> dict[str, Any]:
    return {"broker": broker, "id": id, "seen": None, "drops": [], **more}


def published(*homes: str, parties: tuple[dict[str, Any], ...] = (), **more: Any) -> dict[str, Any]:
    seen = {"as": "published", "for": list(homes)}
    return report("a", A, seen=seen, event={"ago_s": 0.5}, parties=list(parties), **more)


def arrived(*parties: dict[str, Any], drops: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    seen = {"as": "arrived", "delay_ms": 2.25, "path": [A, B]}
    return report("c", C, seen=seen, event={"ago_s": 0.4}, parties=list(parties), drops=list(drops))


def party(state: str, number: int = 1, **more: Any) -> dict[str, Any]:
    return {"subscription": number, "filter": "price > 10", "state": state, **more}


def answer(*reports: dict[str, Any], silent: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"event": "9b2f0c6a1d3e4f57-12", "brokers": list(reports), "silent": list(silent)}


DROP = {"reason": "expired", "subscription": None, "for": C}


@pytest.mark.parametrize(
    ("reports", "verdict", "said"),
    [
        ([report("a", A), report("c", C)], "never_seen", ""),
        ([published()], "not_matched", ""),
        ([published(drops=[{"reason": "unmatched", "subscription": None, "for": None}])], "not_matched", ""),
        ([published(parties=(party("not_yet"),))], "not_matched", "a/1  price > 10: not delivered: the subscription"),
        ([published(C), report("c", C)], "on_its_way", "no report that it arrived at c"),
        ([published(C)], "on_its_way", "arrived at 0c"),
        ([published(C, drops=[DROP]), report("c", C)], "not_delivered", "dropped at a on its way to c: expired"),
        ([published(C), report("b", B, drops=[DROP]), report("c", C)], "not_delivered", "dropped at b on its way to c"),
        (
            [published(C), arrived(party("delivered", client="desk", delay_ms=2.5))],
            "delivered",
            "to desk after 2.50 ms",
        ),
        ([published(C), arrived(party("delivered", acknowledged=False))], "delivered", "delivered, not acknowledged"),
        ([published(C), arrived(party("waiting", reason="away"))], "waiting", "its client is away"),
        ([published(C), arrived(party("delivered"), party("stored", 2))], "waiting", "to 1 of 2 subscriptions"),
        (
            [published(C), arrived(party("delivered"), party("dropped", 2, reason="outbox_items"))],
            "not_delivered",
            "c/2  price > 10: dropped: outbox_items",
        ),
    ],
)
def test_the_reports_make_one_outcome(reports: list[dict[str, Any]], verdict: str, said: str) -> None:
    outcome = outcome_of(answer(*reports))
    assert outcome.verdict == verdict
    assert outcome.known == (verdict not in ("never_seen", "on_its_way"))
    assert said in "\n".join([outcome.text, *outcome.steps])
    assert outcome.as_json()["reports"].keys() == {each["broker"] for each in reports}


def test_the_steps_follow_the_path() -> None:
    outcome = outcome_of(answer(arrived(party("delivered")), published(C)))
    assert [step.split()[0] for step in outcome.steps] == ["published", "arrived", "c/1"]
    assert outcome.steps[1] == "arrived at c after 2.25 ms, by path a > 0b", "b did not answer"


def test_a_silent_broker_leaves_the_outcome_open() -> None:
    outcome = outcome_of(answer(published(), silent=("c",)))
    assert not outcome.known
    assert outcome.hint == "c did not answer"


def test_a_broker_that_answers_with_an_error_counts_as_silent() -> None:
    outcome = outcome_of(answer(published(), {"id": C, "error": "this broker answers no queries"}))
    assert outcome.silent == [C]
    assert not outcome.known
