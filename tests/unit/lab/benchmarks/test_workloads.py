"""The benchmark's workloads have the documented properties, and the same seed draws the same ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from plait_core.filters import parse
from plait_core.values import Attributes
from plait_lab.benchmarks.measurement.baselines import BruteForce, Codes, DenseScan, WrongAnswer, check_index
from plait_lab.benchmarks.measurement.workloads import ABSENT, WORKLOADS, Workload, w1, w2, w3, w3eq

SEED = 20_240_601


def drawn(name: str, count: int, seed: int = SEED) -> Workload:
    return WORKLOADS[name](count, np.random.default_rng(seed))


def ids_an_event(workload: Workload, events: int) -> float:
    truth = BruteForce(workload)
    return sum(len(truth.match(event)) for event in workload.events(events)) / events


@pytest.mark.parametrize("name", WORKLOADS)
def test_filters_scan_and_brute_force_agree(name: str) -> None:
    workload = drawn(name, 300)
    scan, truth = DenseScan(workload), BruteForce(workload)
    subscriptions = list(workload.subscriptions())
    for event in workload.events(60):
        by_filter = {id for id, filter in subscriptions if filter.matches(event)}
        assert set(scan.match(event)) == by_filter
        assert set(truth.match(event)) == by_filter


@pytest.mark.parametrize("name", WORKLOADS)
def test_filters_go_through_their_text(name: str) -> None:
    for filter in drawn(name, 50).filters():
        assert parse(filter.text) == filter


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_draws_the_same_again(name: str) -> None:
    one, same, other = drawn(name, 40), drawn(name, 40), drawn(name, 40, SEED + 1)
    assert list(one.subscriptions()) == list(same.subscriptions())
    assert list(one.events(40)) == list(same.events(40))
    assert list(one.successor(3).subscriptions()) == list(same.successor(3).subscriptions())
    assert list(one.subscriptions()) != list(other.subscriptions())
    assert [d.name for d in one.dimensions] != [d.name for d in other.dimensions]


@pytest.mark.parametrize("name", WORKLOADS)
def test_events_are_never_repeated(name: str) -> None:
    workload = drawn(name, 1)
    seen = Counter(tuple(event.items()) for stream in (0, 1) for event in workload.events(1500, stream))
    assert max(seen.values()) == 1
    assert list(workload.events(30)) == list(workload.events(1500))[:30]


@pytest.mark.parametrize("name", WORKLOADS)
def test_ids_are_spread_over_the_id_space_in_no_order(name: str) -> None:
    workload = drawn(name, 2000)
    ids = workload.ids.tolist()
    assert len(set(ids) | set(workload.successor(1).ids.tolist())) == 4000
    assert 0 <= min(ids) < 2**54
    assert 2**63 - 2**54 < max(ids) < 2**63
    assert abs(np.corrcoef(np.arange(2000), ids)[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("name", "expected"), [("W1", 10_000 * 0.1**5), ("W1b", 10_000 * 0.25**5), ("W1c", 10_000 * 0.5**10)]
)
def test_ranges_match_with_the_probability_of_their_width(name: str, expected: float) -> None:
    assert ids_an_event(drawn(name, 10_000), 400) == pytest.approx(expected, rel=0.2, abs=0.05)


def test_w1_has_twenty_attributes_in_every_event_and_five_in_a_filter() -> None:
    workload = w1(2000, np.random.default_rng(SEED))
    assert all(len(event) == 20 and all(0 <= v < 1_000_000 for v in event.values()) for event in workload.events(50))
    assert {len(filter.attributes()) for filter in workload.filters()} == {5}
    assert {int(width) for width in (workload.rows.high - workload.rows.low).flat} == {99_999}
    asked = np.bincount(workload.rows.dims.ravel(), minlength=20) / 2000
    assert asked == pytest.approx(np.full(20, 0.25), abs=0.05)


def test_w2_is_sparse_and_a_fifth_equalities() -> None:
    workload = w2(4000, np.random.default_rng(SEED))
    assert {len(event) for event in workload.events(50)} == {30}
    assert {len(filter.attributes()) for filter in workload.filters()} == {5}
    text = " and ".join(filter.text for filter in workload.filters())
    atoms = 4000 * 5
    assert text.count("==") / atoms == pytest.approx(0.20 + 0.80 / 3 / 100, abs=0.015)
    between = 0.80 / 3
    assert text.count("<=") / atoms == pytest.approx(2 * between, abs=0.02)
    assert text.count(">=") / atoms == pytest.approx(2 * between, abs=0.02)


def test_w3_is_a_market_of_zipf_popularity() -> None:
    workload = w3(10_000, np.random.default_rng(SEED))
    texts = [filter.text for filter in workload.filters()]
    assert sum("symbol ==" in text for text in texts) / 10_000 == pytest.approx(0.90, abs=0.01)
    assert all("price >=" in text and "price <=" in text for text in texts)
    symbols = Counter(event["symbol"] for event in workload.events(10_000))
    (_, first), (_, second) = symbols.most_common(2)
    assert first / 10_000 == pytest.approx(1 / 9.0945, rel=0.1)
    assert first / second == pytest.approx(2, rel=0.2)
    assert ids_an_event(workload, 400) == pytest.approx(17, rel=0.25)


def test_w3eq_has_no_ranges() -> None:
    workload = w3eq(10_000, np.random.default_rng(SEED))
    texts = [filter.text for filter in workload.filters()]
    assert not any("<" in text or ">" in text for text in texts)
    assert all("==" in text for text in texts)
    assert ids_an_event(workload, 200) == pytest.approx(125, rel=0.25)


def test_codes_undo_values_and_absence_has_its_own() -> None:
    for name in WORKLOADS:
        workload = drawn(name, 1)
        codes = Codes(workload.dimensions)
        for point, event in zip(workload.points(100), workload.events(100), strict=True):
            assert codes.of(event).tolist() == point.tolist()
    assert codes.of({}).tolist() == [ABSENT] * 7


def test_the_scan_works_in_blocks() -> None:
    workload = w3(40_000, np.random.default_rng(SEED))
    scan, truth = DenseScan(workload), BruteForce(workload)
    for event in workload.events(5):
        assert scan.match(event) == truth.match(event)
    assert ids_an_event(workload, 5) > 0


class Answering:
    """An index that returns altered results of brute force."""

    def __init__(self, truth: BruteForce, extra: int | None = None, repeat: bool = False) -> None:
        self.truth, self.extra, self.repeat = truth, extra, repeat

    def match(self, attributes: Attributes) -> list[int]:
        found = self.truth.match(attributes)
        return found + ([self.extra] if self.extra is not None else []) + (found[:1] if self.repeat else [])


def test_check_refuses_every_wrong_answer() -> None:
    workload = w3eq(1000, np.random.default_rng(SEED))
    truth, events = BruteForce(workload), list(workload.events(20))
    assert check_index(Answering(truth), truth, None, events) == 20
    with pytest.raises(WrongAnswer, match="5"):
        check_index(Answering(truth, extra=5), truth, None, events)
    with pytest.raises(WrongAnswer, match="twice"):
        check_index(Answering(truth, repeat=True), truth, None, events)
    with pytest.raises(WrongAnswer):
        check_index(Answering(truth), truth, set(workload.ids[:10].tolist()), events)
    both = BruteForce(workload, workload.successor(1))
    assert check_index(Answering(truth), both, set(workload.ids.tolist()), events) == 20
