"""The benchmark of live peers: trials that measure nothing, and trials that lose events."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext

import pytest

from plait_lab.benchmarks import peers_bench
from plait_lab.benchmarks.groups import Session
from plait_lab.benchmarks.measurement.baselines import WrongAnswer
from plait_lab.benchmarks.measurement.peers import group, pairs
from plait_lab.benchmarks.measurement.peers.pairs import PairResult, Tally
from plait_lab.failures import NothingMeasured, TrialFailed

SESSION = Session(1, True, lambda step: None)


def result_of(count: int, lost: int = 0) -> PairResult:
    return PairResult(count, lost, 1000.0, 50.0, 90.0, 3.0)


def nothing(*_: object) -> PairResult:
    raise NothingMeasured("nothing was measured: 0 of 9 events arrived")


@pytest.fixture(autouse=True)
def plait_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(group, "measured_group", lambda *_: group.GroupOutcome(1.0, 0, 0, 0.1, 0.2, 100, 0))


def reached() -> dict[str, float | None]:
    return {figure.measure: figure.reached for figure in peers_bench.peers_figures(SESSION)}


def run_pair(monkeypatch: pytest.MonkeyPatch, result: PairResult) -> PairResult:
    """Run a pair whose subscriber reports this."""
    answer = {name: getattr(result, name) for name in PairResult.__slots__}
    lines = iter(["at 127.0.0.1:1", "open", json.dumps(answer)])

    def child(*_: str) -> AbstractContextManager[None]:
        return nullcontext()

    monkeypatch.setattr(pairs, "_child", child)
    monkeypatch.setattr(pairs, "_line", lambda child: next(lines))
    monkeypatch.setattr(pairs, "_go", lambda child: None)
    return pairs.measured_pair("plait", 9)


def test_the_group_continues_after_trials_that_measured_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_bench, "measured_pair", lambda key, count, rate=0.0: result_of(9) if rate else nothing())
    figures = reached()
    assert figures["two peers, events of 128 bytes, the best of three"] is None
    assert figures["two peers at 1,000/s, delay p50"] == 50
    assert figures["6 peer processes, from cold to subscribed"] == 1
    assert figures["failed trial: plait.peer, two peers (nothing was measured: 0 of 9 events arrived)"] == 1


def test_encrypted_links_are_compared_with_plain_ones_of_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        ("plait", False): PairResult(9, 0, 900.0, 50.0, 90.0, 3.0),
        ("plain", False): PairResult(9, 0, 1000.0, 45.0, 90.0, 3.0),
        ("plait", True): PairResult(9, 0, 1000.0, 57.0, 90.0, 3.0),
        ("plain", True): PairResult(9, 0, 1000.0, 45.0, 90.0, 3.0),
    }
    monkeypatch.setattr(peers_bench, "measured_pair", lambda key, count, rate=0.0: results[key, bool(rate)])
    figures = reached()
    assert figures["encrypted links: share of the plain links' events a second"] == 90
    assert figures["encrypted links at 1,000/s: p50 above that of plain links"] == 12


def test_twenty_peers_without_a_result_are_shown_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_bench, "measured_pair", lambda *_: result_of(9))
    monkeypatch.setattr(group, "measured_group", nothing)
    figures = reached()
    assert sum(value is None for value in figures.values()) == 7
    assert figures["two peers at 1,000/s, delay p50"] == 50


def test_events_that_peers_lose_are_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> PairResult:
        raise TrialFailed("3 of 9 events were lost")

    monkeypatch.setattr(peers_bench, "measured_pair", lost)
    with pytest.raises(WrongAnswer, match=r"plait\.peer: 3 of 9 events were lost"):
        reached()


def test_a_pair_that_passed_no_event_gives_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NothingMeasured, match="0 of 9 events arrived"):
        run_pair(monkeypatch, Tally(9).result())


def test_a_pair_must_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_pair(monkeypatch, result_of(9)).count == 9
    with pytest.raises(TrialFailed, match="2 of 9 events were lost"):
        run_pair(monkeypatch, result_of(7, lost=2))
