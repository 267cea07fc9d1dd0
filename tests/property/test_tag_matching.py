"""Sealed events that wait for tests of their tags, under any deposits, sessions, answers and times."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tag_testing import Line, Matching, broker, client, tokens

from plait_broker.deposits import Depositor
from plait_broker.pipeline.sealed_matching import TEST_S
from plait_broker.pipeline.tag_tests import PART_STEPS, PARTS_RUNNING_MAX, WEIGHTS
from plait_core.sealed_opening import Fit

AWAITED_STEPS, OPENING_AWAITED_STEPS, OPENING_STEPS = 20, 45, 100
SMALL = {
    "tag_tests.AWAITED_STEPS": AWAITED_STEPS,
    "sealed_matching.OPENING_AWAITED_STEPS": OPENING_AWAITED_STEPS,
    "tag_tests.OPENING_STEPS": OPENING_STEPS,
    "tag_tests.OPENING_TESTS": 6,
    "tag_tests.STEPS_BURST": 40,
    "tag_tests.WAITING_BYTES_MAX": 8_000,
    "sealed_openings.OUTCOMES_MAX": 12,
}
"""Limits within reach of a few steps."""

DEPOSITORS = [client(1), client(2), client(3), broker(1)]
LINES: list[Line] = [("client", 1), ("client", 2), ("broker", 1)]
OPENINGS = [b"a", b"b", b"c", b"d"]

depositors = st.sampled_from(DEPOSITORS)
deposits = st.builds(
    tokens, st.sampled_from([0, 1, 3, 8, 9, 30, 150]), st.sampled_from(Fit), st.sampled_from(["", "x", "y", "z"])
)


class TagMatching(RuleBasedStateMachine):
    """One tag matcher, its clients, and a thread that answers in any order."""

    @initialize()
    def begin(self) -> None:
        self.small = ExitStack()
        for name, limit in SMALL.items():
            self.small.enter_context(patch(f"plait_broker.pipeline.{name}", limit))
        self.matching = Matching()
        self.held: dict[Line, list[tuple[int, float]]] = {line: [] for line in LINES}
        """Events that wait, with the time of their publication."""
        self.owners: dict[bytes, set[Depositor]] = {}

    # --- steps --------------------------------------------------------------------------------------------------------

    @rule(depositor=depositors, deposit=deposits)
    def subscribe(self, depositor: Depositor, deposit: bytes) -> None:
        self.matching.subscribe(depositor, deposit)
        self.owners.setdefault(deposit, set()).add(depositor)

    @precondition(lambda self: self.matching.deposits.by_number)
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        self.matching.deposits.remove(data.draw(st.sampled_from(sorted(self.matching.deposits.by_number))))

    @rule(line=st.sampled_from(LINES), opening=st.sampled_from(OPENINGS))
    def publish(self, line: Line, opening: bytes) -> None:
        if self.matching.holds(line, opening):
            self.held[line].append((self.matching.events, self.matching.now))
        else:
            assert not self.held[line], "what follows an event that waits must wait"

    @precondition(lambda self: self.matching.probes)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        matching = self.matching
        matching.probes.rotate(data.draw(st.integers(0, len(matching.probes) - 1)))
        self.release(matching.work())

    @rule(seconds=st.sampled_from([0.0, 0.01, 0.5, TEST_S, 10.0]))
    def wait(self, seconds: float) -> None:
        self.release(self.matching.wait(seconds))
        for line in LINES:
            assert all(self.matching.now < at + TEST_S for _, at in self.held[line]), "it is released by its deadline"

    @rule()
    def work(self) -> None:
        """Let the threads go on for a while."""
        self.release(self.matching.work_until_idle(1.0))

    def release(self, events: list[int]) -> None:
        for event in events:
            (line,) = (line for line in LINES if self.held[line] and self.held[line][0][0] == event)
            del self.held[line][0]

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def parts_are_small_and_few(self) -> None:
        assert len(self.matching.probes) <= PARTS_RUNNING_MAX + 1
        assert all(0 < probe.steps <= PART_STEPS for probe in self.matching.probes)

    @invariant()
    def an_event_that_waits_has_a_deadline_or_a_test_that_runs(self) -> None:
        due = self.matching.tags.next_deadline()
        first = min((held[0][1] for held in self.held.values() if held), default=None)
        if first is not None:
            assert due is not None
            assert due <= first + TEST_S

    @invariant()
    def budgets_are_kept(self) -> None:
        spent: Counter[tuple[bytes, Depositor]] = Counter()
        for (opening, deposit), steps in self.matching.steps.items():
            for owner in self.owners[deposit] if len(self.owners[deposit]) == 1 else ():
                spent[opening, owner] += steps
        assert all(steps <= OPENING_STEPS * WEIGHTS[kind] for (_, (kind, _)), steps in spent.items())
        for opening in OPENINGS:
            known = self.matching.tags._openings.get(bytes(self.matching.tags._name(opening)))
            if known is None:
                continue
            assert 0 <= known.awaited <= OPENING_AWAITED_STEPS
            for (kind, _), share in known.shares.items():
                assert 0 <= share.awaited <= AWAITED_STEPS * WEIGHTS[kind]
                assert 0 <= share.steps <= OPENING_STEPS * WEIGHTS[kind]

    @invariant()
    def outcomes_are_those_of_the_tests(self) -> None:
        for opening in OPENINGS:
            for number, deposit in self.matching.deposits.by_number.items():
                truth = Fit(deposit.tokens.split(b" ")[1].decode())
                assert self.matching.fit(opening, number) or truth is Fit.OTHER, "no event is withheld that may fit"

    def teardown(self) -> None:
        """In the end each event goes on, and a session whose tests ended is never tested again."""
        self.release(self.matching.work_until_idle(600.0))
        assert not any(self.held.values())
        assert not self.matching.tags.waits
        tests = self.matching.counts["tests"]
        for opening in OPENINGS:
            if opening in self.tested_now():
                assert not self.matching.holds(LINES[0], opening)
        assert self.matching.counts["tests"] == tests
        self.small.close()

    def tested_now(self) -> set[bytes]:
        """Return the openings on which all present deposits have an outcome."""
        found = set()
        for opening in OPENINGS:
            known = self.matching.tags._openings.get(bytes(self.matching.tags._name(opening)))
            if known is not None and all(each.digest in known.outcomes for each in self.matching.asking(None)):
                found.add(opening)
        return found


TestTagMatching = TagMatching.TestCase
TestTagMatching.settings = settings(max_examples=60, stateful_step_count=40)
