"""The order of work at a key server, budgets of lines, and what the audit log counts."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from plait_crypto.keyserver import Admission, Caller, Record, Tallies, Turns
from plait_crypto.keyserver.limits import CALLERS_KEPT, REQUESTS_BURST, STRANGER_REQUESTS_BURST, TALLIES_MAX
from plait_crypto.keyserver.records import OTHERS


def served(turns: Turns[list[int]]) -> list[str]:
    """Run all jobs; each needs a number of slices. Return the callers in the order of their slices."""
    order = []
    while (found := turns.take()) is not None:
        caller, job = found
        order.append(caller)
        job[0] -= 1
        if not job[0]:
            turns.finish(caller)
    return order


def test_a_large_job_delays_others_by_one_slice() -> None:
    turns: Turns[list[int]] = Turns(10, 10)
    for caller, slices in (("large", 5), ("one", 1), ("two", 2)):
        assert turns.add(caller, [slices])
    assert served(turns) == ["large", "one", "two", "large", "two", "large", "large", "large"]


def test_a_caller_with_many_jobs_delays_only_itself() -> None:
    turns: Turns[list[int]] = Turns(10, 10)
    for _ in range(5):
        turns.add("many", [2])
    turns.add("one", [1])
    assert served(turns).index("one") == 1


def test_waiting_jobs_are_bounded_in_all_and_per_caller() -> None:
    turns: Turns[int] = Turns(5, 2)
    assert [turns.add("one", each) for each in range(3)] == [True, True, False]
    assert [turns.add("two", each) for each in range(3)] == [True, True, False]
    assert [turns.add(name, 0) for name in ("three", "four")] == [True, False]
    turns.finish("one")
    assert turns.add("four", 0)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 5)), max_size=20))
def test_every_job_is_finished_and_callers_alternate(jobs: list[tuple[str, int]]) -> None:
    turns: Turns[list[int]] = Turns(20, 20)
    for caller, slices in jobs:
        turns.add(caller, [slices])
    order = served(turns)
    assert len(turns) == 0
    for caller in "abcd":
        assert order.count(caller) == sum(slices for each, slices in jobs if each == caller)
        places = [place for place, each in enumerate(order) if each == caller]
        gaps = [after - before for before, after in pairwise(places)]
        assert all(gap <= 4 for gap in gaps), "nobody has two turns while another waits"


def test_holders_and_addresses_have_budgets_of_their_own() -> None:
    admission = Admission()
    holder, stranger = Caller("10.0.0.1", "alice"), Caller("10.0.0.1")
    assert [admission.admit(holder, 0) for _ in range(REQUESTS_BURST)] == [None] * REQUESTS_BURST
    assert [admission.admit(stranger, 0) for _ in range(STRANGER_REQUESTS_BURST)] == [None] * STRANGER_REQUESTS_BURST
    for caller in (holder, stranger):
        refused = admission.admit(caller, 0)
        assert refused is not None
        assert (refused.code, refused.retry_s > 0, refused.retryable) == ("too_often", True, True)
        assert admission.admit(caller, round(refused.retry_s * 1_000_000)) is None


def test_a_flood_costs_a_line_for_each_caller() -> None:
    tallies, rng = Tallies(), Random(1)
    for number in range(1000):
        caller = Caller(f"10.0.0.{rng.randrange(3)}")
        tallies.add(Record(number, caller, "nothing", "too_often", counted=True))
    lines = tallies.take(2000)
    assert len(lines) == 3
    assert sum(line["count"] for line in lines) == 1000
    assert {line["until_us"] for line in lines} == {2000}
    assert tallies.take(3000) == []


def test_tallies_are_bounded() -> None:
    tallies = Tallies()
    for number in range(TALLIES_MAX + 500):
        tallies.add(Record(0, Caller(f"address {number}"), "nothing", "too_often", counted=True))
    assert len(tallies) == TALLIES_MAX + 1
    (others,) = [line for line in tallies.take(1) if line["address"] == OTHERS]
    assert others["count"] == 500


def test_budgets_are_bounded() -> None:
    admission = Admission()
    for number in range(CALLERS_KEPT + 10):
        admission.admit(Caller(f"address {number}"), 0)
    assert len(admission._strangers._buckets) == CALLERS_KEPT
