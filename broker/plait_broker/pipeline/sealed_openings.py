"""What is known of the openings of sealing sessions: the outcome of each deposit, and the tests that are not done.

A steady session must not be tested again because of what other publishers send. So an outcome is kept as long as its
opening and its deposit are in use: beyond the bounds new deposits are not tested, and the line with the most openings
loses the one that was not used for the longest time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from plait_core.sealed_opening import Fit

from ..deposits import Deposit, Depositor, Deposits

OPENINGS_MAX: Final = 4096
"""Openings whose outcomes are kept: one for each publisher and vector of credentials in use."""

OPENING_IDLE_S: Final = 120.0
"""An opening that no event has named for this time gives way first: a session lasts a minute."""

OUTCOMES_MAX: Final = 1024
"""Outcomes and tests of one opening, and its depositors. Further deposits are not tested, so their subscriptions get
its events untested. An outcome takes some 60 bytes and a depositor 150."""

Line: TypeAlias = tuple[str, int]
"""Source whose events keep their order: a client's session, or another broker."""


@dataclass(slots=True)
class Share:
    """What one depositor has left on one opening."""

    awaited: int
    """Steps that events wait for."""
    steps: int
    tests: int
    exceeded: bool = False
    """Whether its further deposits are not tested."""


@dataclass(slots=True, eq=False)
class PendingTest:
    """The test of one deposit on one opening, until it has an outcome."""

    opening: Opening
    encoded: bytes
    deposit: Deposit
    line: Line
    share: Share
    by: float
    """Until when events wait for it."""
    granted: bool = False
    """Whether a part of it that events wait for is under way."""
    demoted: bool = False
    """Whether no event waits for it any more, although it is not done."""
    done: bool = False
    """Whether it has an outcome, or will get none."""
    rest: object = None
    """What the worker needs to go on."""

    def awaited(self, now: float) -> bool:
        """Return whether events wait for it."""
        if self.done or self.demoted or now >= self.by:
            return False
        return self.granted or (self.share.awaited > 0 and self.opening.awaited > 0)


@dataclass(slots=True, eq=False)
class Opening:
    """What is known of one opening."""

    line: Line
    """The source that its first event came from."""
    awaited: int
    """Steps of tests, of all depositors together, that events still wait for."""
    used_at: float
    malformed: bool = False
    outcomes: dict[bytes, Fit] = field(default_factory=dict)
    """By a deposit's digest."""
    pending: dict[bytes, PendingTest] = field(default_factory=dict)
    shares: dict[Depositor, Share] = field(default_factory=dict)
    swept: int = -1
    """Removals of deposits when the outcomes were last searched for unused ones."""

    def end(self, test: PendingTest, fit: Fit | None = None) -> None:
        """End a test, with its outcome if it has one."""
        test.done, test.rest = True, None
        if self.pending.get(test.deposit.digest) is test:
            del self.pending[test.deposit.digest]
            if fit is not None:
                self.outcomes[test.deposit.digest] = fit

    def end_all(self) -> None:
        """End all tests without an outcome."""
        for test in list(self.pending.values()):
            self.end(test)

    def has_room(self, depositor: Depositor, deposits: Sequence[Deposits]) -> bool:
        """Return whether another deposit may be tested. Outcomes of deposits that nobody uses give way. A depositor's
        share does not, or it could spend its budget twice."""
        if depositor not in self.shares and len(self.shares) >= OUTCOMES_MAX:
            return False
        if len(self.outcomes) + len(self.pending) < OUTCOMES_MAX:
            return True
        removed = sum(side.removed for side in deposits)
        if self.swept != removed:  # else there is nothing new to find
            self.swept = removed
            unused = [each for each in self.outcomes if not any(side.in_use(each) for side in deposits)]
            for digest in unused:
                del self.outcomes[digest]
        return len(self.outcomes) + len(self.pending) < OUTCOMES_MAX


class Openings:
    """All openings, by name."""

    def __init__(self, awaited: int) -> None:
        """`awaited`: steps that events wait for, for a new opening."""
        self._awaited = awaited
        self._by_name: OrderedDict[bytes, Opening] = OrderedDict()
        """Least recently used first."""
        self._of_line: Counter[Line] = Counter()

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: bytes) -> Opening | None:
        """Return what is known of an opening."""
        return self._by_name.get(name)

    def use(self, name: bytes, line: Line, now: float) -> Opening:
        """Return an opening that an event has named, a new one if it is not known."""
        opening = self._by_name.get(name)
        if opening is None:
            if len(self._by_name) >= OPENINGS_MAX:
                self._forget_one(now)
            opening = self._by_name[name] = Opening(line, self._awaited, now)
            self._of_line[line] += 1
        else:
            self._by_name.move_to_end(name)
            opening.used_at = now
        return opening

    def _forget_one(self, now: float) -> None:
        """Forget the least recently used opening: of all if that is idle, else of the line that has the most."""
        name, opening = next(iter(self._by_name.items()))
        if now < opening.used_at + OPENING_IDLE_S:
            line = max(self._of_line, key=self._of_line.__getitem__)
            name, opening = next(found for found in self._by_name.items() if found[1].line == line)
        opening.end_all()
        del self._by_name[name]
        self._of_line[opening.line] -= 1
        if not self._of_line[opening.line]:
            del self._of_line[opening.line]
