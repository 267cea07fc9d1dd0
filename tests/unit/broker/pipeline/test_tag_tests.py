"""Tests of tags under hostile deposits: what events wait for, budgets, turns and memory. No pairing is computed."""

from __future__ import annotations

from typing import Final

import pytest
from tag_testing import MALFORMED, Matching, broker, client, tokens

from plait_broker.pipeline.sealed_matching import TEST_S
from plait_broker.pipeline.tag_tests import (
    AWAITED_STEPS,
    OPENING_AWAITED_STEPS,
    OPENING_STEPS,
    OPENING_TESTS,
    PART_STEPS,
    PARTS_RUNNING_MAX,
    STEPS_BURST,
    STEPS_PER_S,
    WEIGHTS,
)
from plait_core.sealed_opening import Fit

LINE: Final = ("client", 1)
OTHER_LINE: Final = ("client", 2)
HONEST, HOSTILE = client(10), client(11)
LARGEST: Final = 770
"""Steps of the largest deposit."""


# --- what an event waits for ------------------------------------------------------------------------------------------


def test_an_event_waits_for_its_tests_and_a_session_is_tested_once() -> None:
    matching = Matching()
    fits, other = matching.subscribe(HONEST, tokens(3, Fit.FITS)), matching.subscribe(HONEST, tokens(20, Fit.OTHER))
    first = matching.publish(LINE, b"a")
    assert matching.work(2) == []
    assert matching.work(2) == [first]
    assert [matching.fit(b"a", each) for each in (fits, other)] == [True, False]
    assert not matching.holds(LINE, b"a")
    assert not matching.probes
    assert matching.holds(LINE, b"b"), "another session"


def test_the_largest_deposit_keeps_the_events_of_others_for_a_bounded_share() -> None:
    alone, beside = Matching(), Matching()
    for matching in (alone, beside):
        mine = matching.subscribe(HONEST, tokens(30, Fit.FITS))
    theirs = beside.subscribe(HOSTILE, tokens(LARGEST))
    for matching, bound in ((alone, 30), (beside, 30 + AWAITED_STEPS + PART_STEPS)):
        first = matching.publish(LINE, b"a")
        free: list[int] = []
        while not free:
            free = matching.work()
        assert free == [first]
        assert matching.steps.total() <= bound
        assert matching.fit(b"a", mine)
    assert beside.fit(b"a", theirs), "untested, it may fit"
    beside.work_until_idle()
    assert not beside.fit(b"a", theirs), "it is tested behind the others"
    assert beside.now > (LARGEST - AWAITED_STEPS - STEPS_BURST) / STEPS_PER_S


def test_a_cheap_deposit_does_not_wait_behind_an_expensive_one_of_the_same_broker() -> None:
    matching = Matching()
    matching.subscribe(broker(1), tokens(LARGEST))
    cheap = matching.subscribe(broker(1), tokens(3))
    matching.publish(LINE, b"a")
    matching.work(3)
    assert not matching.fit(b"a", cheap)


def test_many_depositors_share_the_time_that_an_event_waits() -> None:
    matching = Matching()
    for number in range(100):
        matching.subscribe(client(number), tokens(LARGEST, name=str(number)))
    first = matching.publish(LINE, b"a")
    free: list[int] = []
    while not free:
        free = matching.work()
    assert free == [first]
    spent = sorted(matching.steps.values())
    assert sum(spent) <= OPENING_AWAITED_STEPS + PART_STEPS * (PARTS_RUNNING_MAX + 1)
    assert spent[-1] <= 2 * PART_STEPS, "each had its turn before any had a third"


def test_an_event_waits_for_many_cheap_tests() -> None:
    """Steps that a part does not take are left to others."""
    matching = Matching()
    mine = [matching.subscribe(client(number % 10), tokens(1, name=str(number))) for number in range(200)]
    first = matching.publish(LINE, b"a")
    free: list[int] = []
    while not free:
        free = matching.work()
    assert free == [first]
    assert not any(matching.fit(b"a", each) for each in mine)


def test_deposits_that_cost_nothing_to_test_delay_no_more_than_others() -> None:
    matching = Matching()
    for number in range(OPENING_TESTS):
        matching.subscribe(HOSTILE, tokens(0, name=str(number)))
    matching.publish(LINE, b"a")
    parts = 0
    while matching.tags.waits:
        matching.work()
        parts += 1
    assert parts <= AWAITED_STEPS + PARTS_RUNNING_MAX + 1


def test_a_deposit_that_changes_with_every_event_delays_no_more_than_one_that_stays() -> None:
    matching = Matching()
    waited = 0
    for number in range(200):
        mine = matching.subscribe(HOSTILE, tokens(PART_STEPS, name=str(number)))
        before = matching.steps.total()
        if matching.holds(LINE, b"a"):
            while matching.tags.waits:
                matching.work()
            waited += matching.steps.total() - before
        matching.deposits.remove(mine)
    assert waited <= AWAITED_STEPS + PART_STEPS


def test_events_of_a_line_keep_their_order_and_go_on_at_the_deadline_without_an_answer() -> None:
    matching = Matching()
    matching.subscribe(HONEST, tokens(3))
    events = [matching.publish(LINE, b"a")]
    matching.wait(TEST_S / 2)
    events += [matching.publish(LINE, opening) for opening in (b"b", b"a")]
    assert matching.wait(TEST_S / 2) == events[:1]
    assert matching.wait(TEST_S / 2) == events[1:]
    assert not matching.holds(LINE, b"a"), "no event waits for a test that is overdue"
    assert matching.counts["untested"] == 0
    assert matching.fit(b"a", 1)
    assert matching.counts["untested"] == 1


def test_a_test_that_another_line_waits_for_keeps_this_line_too() -> None:
    matching = Matching()
    matching.subscribe(HONEST, tokens(3))
    first, second = matching.publish(LINE, b"a"), matching.publish(OTHER_LINE, b"a")
    assert len(matching.probes) == 1
    assert matching.work() == [first, second]


def test_equal_deposits_are_tested_once() -> None:
    matching = Matching()
    for depositor in (HONEST, HOSTILE, broker(1)):
        matching.subscribe(depositor, tokens(3, name="same"))
    matching.publish(LINE, b"a")
    assert len(matching.probes) == 1


def test_a_malformed_opening_ends_all_its_tests() -> None:
    matching = Matching()
    for number in range(20):
        matching.subscribe(client(number), tokens(3, name=str(number)))
    first = matching.publish(LINE, MALFORMED)
    assert matching.work() == [first]
    assert not matching.fit(MALFORMED, 1)
    matching.work_until_idle()
    assert matching.counts["tests"] <= PARTS_RUNNING_MAX
    assert not matching.holds(LINE, MALFORMED)


# --- budgets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depositor", [HOSTILE, broker(1)], ids=["client", "broker"])
def test_a_depositor_has_a_budget_of_steps_on_each_opening(depositor: tuple[str, int]) -> None:
    matching, budget = Matching(), OPENING_STEPS * WEIGHTS[depositor[0]]
    mine = matching.subscribe(HONEST, tokens(5))
    theirs = [
        matching.subscribe(depositor, tokens(LARGEST, name=str(number))) for number in range(2 * budget // LARGEST)
    ]
    for opening in (b"a", b"b"):
        matching.steps.clear()
        matching.publish(LINE, opening)
        matching.work_until_idle()
        assert matching.steps.total() <= budget + 5
        assert matching.steps.total() > 0.9 * budget
        assert not matching.fit(opening, mine)
        assert any(matching.fit(opening, each) for each in theirs), "beyond its budget events pass untested"
    assert matching.counts["over_budget"] == 2
    assert matching.tags.exceeded == [depositor] * 2
    assert not matching.holds(LINE, b"a")
    assert not matching.probes, "what exceeds the budget is not tried again"


def test_a_depositor_has_a_budget_of_tests_on_each_opening() -> None:
    matching = Matching()
    for number in range(3 * OPENING_TESTS):
        matching.subscribe(HOSTILE, tokens(0, name=str(number)))
    matching.publish(LINE, b"a")
    matching.work_until_idle()
    assert matching.counts["tests"] == OPENING_TESTS
    assert matching.counts["over_budget"] == 1


def test_the_largest_deposit_fits_the_budgets() -> None:
    matching = Matching()
    mine = matching.subscribe(HONEST, tokens(LARGEST))
    for opening in (b"a", b"b", b"c"):
        matching.publish(LINE, opening)
    matching.work_until_idle()
    assert not any(matching.fit(opening, mine) for opening in (b"a", b"b", b"c"))
    assert not matching.counts["over_budget"]


def test_tests_that_no_event_waits_for_keep_a_pace() -> None:
    matching = Matching()
    matching.subscribe(HOSTILE, tokens(LARGEST))
    for number in range(100):
        matching.publish(LINE, b"opening %d" % number)
    while matching.tags.waits:
        matching.work()
    seconds, steps = 10.0, matching.steps.total()
    matching.work_until_idle(seconds)
    assert matching.steps.total() - steps <= STEPS_BURST + (seconds + 1) * STEPS_PER_S
    assert matching.steps.total() - steps > 0.9 * seconds * STEPS_PER_S


def test_a_hostile_publisher_leaves_the_pace_of_a_depositor_to_others() -> None:
    """It begins a session with each event. Tests of the same depositor for another publisher take turns with its."""
    matching = Matching()
    mine = matching.subscribe(HONEST, tokens(LARGEST))
    for number in range(100):
        matching.publish(LINE, b"opening %d" % number)
    matching.work_until_idle(20.0)
    matching.publish(OTHER_LINE, b"honest")
    matching.work_until_idle(2 * LARGEST / STEPS_PER_S + 1)
    assert not matching.fit(b"honest", mine)
    assert matching.fit(b"opening 99", mine)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_more_deposits_than_are_kept_do_not_evict_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.pipeline.sealed_openings.OUTCOMES_MAX", 8)
    matching = Matching()
    mine = [matching.subscribe(client(number % 4), tokens(1, name=str(number))) for number in range(20)]
    matching.publish(LINE, b"a")
    matching.work_until_idle()
    tested = matching.counts["tests"]
    known = [matching.fit(b"a", each) for each in mine]
    assert known.count(False) == tested == 8
    for _ in range(3):
        assert not matching.holds(LINE, b"a")
        assert not matching.probes, "a steady session is never tested again"
    assert [matching.fit(b"a", each) for each in mine] == known
    for each in mine[:8]:
        matching.deposits.remove(each)
    matching.publish(LINE, b"a")
    matching.work_until_idle()
    assert matching.counts["tests"] == 16, "outcomes that nobody uses have given way"


def test_a_client_that_connects_anew_finds_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection is another depositor with another budget."""
    monkeypatch.setattr("plait_broker.pipeline.sealed_openings.OUTCOMES_MAX", 8)
    matching = Matching()
    for number in range(20):
        mine = matching.subscribe(client(number), tokens(1, name=str(number)))
        matching.publish(LINE, b"a")
        matching.work_until_idle()
        matching.deposits.remove(mine)
    assert matching.counts["tests"] == 8


def test_a_publisher_with_many_openings_evicts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.pipeline.sealed_openings.OPENINGS_MAX", 8)
    matching = Matching()
    matching.subscribe(HONEST, tokens(1))
    for opening in (b"steady", b"steady too"):
        matching.publish(OTHER_LINE, opening)
    matching.work_until_idle()
    for number in range(100):
        matching.publish(LINE, b"opening %d" % number)
        matching.work_until_idle()
    tests = matching.counts["tests"]
    assert not matching.holds(OTHER_LINE, b"steady")
    assert not matching.holds(OTHER_LINE, b"steady too")
    assert matching.counts["tests"] == tests
    assert len(matching.tags._openings) == 8


def test_an_idle_opening_gives_way_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.pipeline.sealed_openings.OPENINGS_MAX", 8)
    matching = Matching()
    matching.subscribe(HONEST, tokens(1))
    matching.publish(OTHER_LINE, b"idle")
    matching.work_until_idle()
    matching.wait(121.0)
    for number in range(8):
        matching.publish(LINE, b"opening %d" % number)
        matching.work_until_idle()
    assert not matching.holds(LINE, b"opening 0")
    assert matching.holds(OTHER_LINE, b"idle")


def test_a_forgotten_opening_keeps_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.pipeline.sealed_openings.OPENINGS_MAX", 2)
    matching = Matching()
    matching.subscribe(HONEST, tokens(10))
    events = [matching.publish(LINE, b"opening %d" % number) for number in range(5)]
    assert matching.wait(0.0) == events[:3], "untested"
    assert matching.work_until_idle(1.0) == events[3:]


def test_waiting_tests_are_bounded_and_the_depositor_with_most_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.pipeline.tag_tests.WAITING_BYTES_MAX", 20_000)
    matching = Matching()
    theirs = [matching.subscribe(HOSTILE, tokens(3, name=str(number), size=500)) for number in range(30)]
    mine = [matching.subscribe(HONEST, tokens(3, name=f"mine {number}", size=500)) for number in range(3)]
    matching.publish(LINE, b"a")
    matching.work_until_idle()
    assert not any(matching.fit(b"a", each) for each in mine)
    tested = [matching.fit(b"a", each) for each in theirs].count(False)
    assert 5 < tested < 20
    matching.publish(LINE, b"a")
    matching.work_until_idle()
    assert [matching.fit(b"a", each) for each in theirs].count(False) > tested, "there is room again"


def test_a_deposit_that_nobody_uses_any_more_is_not_tested() -> None:
    matching = Matching()
    mine = [matching.subscribe(HOSTILE, tokens(LARGEST, name=str(number))) for number in range(5)]
    first = matching.publish(LINE, b"a")
    for each in mine:
        matching.deposits.remove(each)
    assert matching.work_until_idle(1.0) == [first]
    assert matching.steps.total() <= PARTS_RUNNING_MAX * PART_STEPS
