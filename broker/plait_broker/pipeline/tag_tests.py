"""Which tests of tags run next, and how much of them. No arithmetic: the server carries out the Probes.

Everyone who may subscribe can deposit tokens whose test takes a second, for every new session of every publisher. So a
test is taken in parts of a few steps, each depositor has budgets, and an event waits only for the first steps:

    awaited steps    of one depositor, and of all, on one opening: events wait for them. They run first.
    steps per second of one depositor, for the tests that no event waits for. One of them runs at a time.
    steps, tests     of one depositor on one opening. Beyond, its further deposits are not tested on this opening.

A deposit without an outcome counts as one that may fit. That costs its subscriber traffic and loses nothing, since
readers check tags by themselves. It gives an attacker no more than a subscription without a deposit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from plait_core.rate_limit import TokenBuckets

from ..deposits import BROKER, CLIENT, Deposit, Depositor, Deposits
from ..outputs import Probe, Probed
from .sealed_openings import Line, Opening, PendingTest, Share
from .tag_test_queue import TagTestQueue

PART_STEPS: Final = 8
"""Steps of one part. A step is a pairing, one or two milliseconds: this bounds the time that a test must wait for
another one's part."""

PARTS_RUNNING_MAX: Final = 4
"""Parts of awaited tests that run at once: as many as a broker has threads on a machine with five processors or more.
On a smaller one some wait in the queue of the threads, for a few parts at most."""

AWAITED_STEPS: Final = 64
"""Steps of one client's tests on one opening that events wait for. A filter with a range of 16-bit numbers and three
other attributes takes as many."""

OPENING_AWAITED_STEPS: Final = 256
"""Steps of all tests on one opening that events wait for: a quarter of a second of one thread, however many clients
there are."""

OPENING_STEPS: Final = 4096
"""Steps of one client's tests on one opening. The largest deposit takes 770."""

OPENING_TESTS: Final = 256
"""Tests of one client on one opening: that many different deposits match one event."""

STEPS_PER_S: Final = 256.0
STEPS_BURST: Final = 1024.0
"""Steps of one client's tests that no event waits for: a third of a thread, after the largest deposit at once."""

PACE_S: Final = 0.005
"""Least time after which they go on, if all depositors have to wait: rounding must not make a timer fire too early."""

BEHIND_S: Final = 0.25
"""Tests that no event waits for go on when no other runs. On a busy broker, one part of them goes on in this time."""

WEIGHTS: Final[Mapping[str, int]] = {CLIENT: 1, BROKER: 4}
"""Budgets of a broker, in those of a client: it has the deposits of all its clients."""

WAITING_BYTES_MAX: Final = 32 << 20
"""Memory of the tests that wait for their next part, twice: of those that events wait for, and of the others."""

DEPOSITORS_MAX: Final = 16_384
"""Depositors whose pace is remembered: more than a broker has clients and other brokers."""


class TagTests:
    """The tests that are not done, and the budgets of depositors."""

    def __init__(self, counts: Counter[str], deposits: Sequence[Deposits]) -> None:
        """`deposits`: those in use. A test for no other deposit goes on."""
        self._counts = counts
        self._deposits = deposits
        self._awaited = TagTestQueue(WAITING_BYTES_MAX)
        self._behind = TagTestQueue(WAITING_BYTES_MAX)
        """Tests that no event waits for."""
        self._pace: TokenBuckets[Depositor] = TokenBuckets(STEPS_PER_S, STEPS_BURST, DEPOSITORS_MAX)
        self._resume_at = 0.0
        """When a test behind may go on."""
        self._running: dict[int, tuple[PendingTest, int, bool]] = {}
        """By ticket, the test, the steps that its part may take, and whether it is awaited."""
        self._behind_runs = False
        self._behind_at = 0.0
        """When a test behind went on last."""
        self._tickets = 0
        self.probes: list[Probe] = []
        """Those to carry out, which `take` returns."""
        self.exceeded: list[Depositor] = []
        """Depositors whose tests have exceeded their budget on an opening, until the caller removes them."""

    def enter(self, opening: Opening, encoded: bytes, deposit: Deposit, line: Line, by: float) -> PendingTest | None:
        """Begin a test that events wait for until `by`, or None if a bound forbids it."""
        share = opening.shares.get(deposit.depositor)
        if (share is not None and share.exceeded) or not opening.has_room(deposit.depositor, self._deposits):
            return None
        if share is None:
            weight = WEIGHTS[deposit.depositor[0]]
            share = Share(AWAITED_STEPS * weight, OPENING_STEPS * weight, OPENING_TESTS * weight)
            opening.shares[deposit.depositor] = share
        if not share.tests:
            self._exceed(share, deposit.depositor)
            return None
        test = opening.pending[deposit.digest] = PendingTest(opening, encoded, deposit, line, share, by)
        test.demoted = not (share.awaited and opening.awaited)
        if not (self._behind if test.demoted else self._awaited).add(test):
            return None
        share.tests -= 1
        return test

    def start(self, now: float) -> None:
        """Start the next parts."""
        while self._awaited and len(self._running) - self._behind_runs < PARTS_RUNNING_MAX:
            test = self._awaited.take()
            if self._goes_on(test):
                self._start_awaited(test, now)
        if self._behind and not self._behind_runs and now >= self._resume_at and not self._events_come_first(now):
            self._start_behind(now)

    def probed(self, ticket: int, answer: Probed | None, now: float) -> None:
        """Take the answer to a Probe. None: the opening is malformed."""
        test, steps, awaited = self._running.pop(ticket)
        test.granted = False
        self._behind_runs = self._behind_runs and awaited
        opening, share = test.opening, test.share
        if answer is None:
            self._counts["tests"] += 1
            opening.malformed = True
            opening.end_all()
        else:
            assert 0 <= answer.steps <= steps, "a part keeps to its steps"
            unused = steps - max(1, answer.steps)  # a part that takes none costs a turn
            share.steps += unused
            if awaited:
                share.awaited += unused
                opening.awaited += unused
            self._go_on(test, answer, now)
        self.start(now)

    def take(self) -> list[Probe]:
        """Return the Probes to carry out."""
        taken = self.probes.copy()
        self.probes.clear()
        return taken

    @property
    def resume_at(self) -> float | None:
        """When a test that no event waits for goes on. None: there is none, or it goes on after a test that runs."""
        idle = not self._awaited and not self._running
        return self._resume_at if idle and self._behind else None

    # --- inside -------------------------------------------------------------------------------------------------------

    def _events_come_first(self, now: float) -> bool:
        """Return whether tests that no event waits for must wait for those that events wait for."""
        return bool(self._awaited or self._running) and now < self._behind_at + BEHIND_S

    def _goes_on(self, test: PendingTest) -> bool:
        """Return whether a test may go on; end it if it may not."""
        if test.done:
            return False
        if not test.share.steps and not test.share.exceeded:
            self._exceed(test.share, test.deposit.depositor)
        if test.share.steps and any(side.in_use(test.deposit.digest) for side in self._deposits):
            return True
        test.opening.end(test)
        return False

    def _start_awaited(self, test: PendingTest, now: float) -> None:
        """Start a part that events wait for. If they need not, the test goes on behind the others."""
        share, opening = test.share, test.opening
        steps = min(PART_STEPS, share.steps, share.awaited, opening.awaited)
        if not steps or now >= test.by:
            self._demote(test)
            return
        share.awaited -= steps
        opening.awaited -= steps
        test.granted = True
        self._run(test, steps, awaited=True)

    def _start_behind(self, now: float) -> None:
        """Start a part that no event waits for, of the next depositor whose pace allows it."""
        waits_s, skipped = 0.0, 0
        while skipped < len(self._behind):
            depositor = self._behind.next
            cost = PART_STEPS / WEIGHTS[depositor[0]]
            wait_s = self._pace.wait(depositor, now, cost)
            if wait_s > 0:
                waits_s = min(waits_s, wait_s) if skipped else wait_s
                skipped += 1
                self._behind.skip()
                continue
            test = self._behind.take()
            if self._goes_on(test):
                self._pace.take(depositor, now, cost)
                self._behind_runs, self._behind_at = True, now
                self._run(test, min(PART_STEPS, test.share.steps), awaited=False)
                return
        self._resume_at = now + max(waits_s, PACE_S)

    def _run(self, test: PendingTest, steps: int, *, awaited: bool) -> None:
        test.share.steps -= steps
        self._tickets += 1
        self._running[self._tickets] = (test, steps, awaited)
        self.probes.append(Probe(self._tickets, test.encoded, test.deposit.tokens, steps, test.rest))

    def _go_on(self, test: PendingTest, answer: Probed, now: float) -> None:
        """End a test that has an outcome; let another one wait for its next part."""
        if answer.fit is not None:
            self._counts["tests"] += 1
            test.opening.end(test, answer.fit)
        elif not test.done:
            test.rest = answer.rest
            if test.demoted:
                self._behind.add(test, again=True)
            elif test.awaited(now):
                self._awaited.add(test, again=True)
            else:
                self._demote(test)

    def _demote(self, test: PendingTest) -> None:
        """Let a test go on although no event waits for it."""
        test.demoted = True
        self._behind.add(test)

    def _exceed(self, share: Share, depositor: Depositor) -> None:
        """Note that a depositor's tests exceed its budget on one opening."""
        share.exceeded = True
        self._counts["over_budget"] += 1
        self.exceeded.append(depositor)
