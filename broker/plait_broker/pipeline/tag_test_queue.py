"""Tests of tags that wait for their next part: of each depositor in turn, of a depositor's of each line in turn.

So a publisher that begins a session with every event, or a client with many deposits, takes time from itself. The
openings of a line come in order, as its events do. Tests on one opening take turns, so that a cheap one ends before an
expensive one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import Final, TypeAlias

from ..deposits import Depositor
from .sealed_openings import Line, Opening, PendingTest

TEST_BYTES: Final = 512
"""Memory of a waiting test besides its opening and its tokens."""

_Openings: TypeAlias = OrderedDict[Opening, deque[PendingTest]]


class TagTestQueue:
    """Waiting tests. When it is full, the depositor that fills most of it gives way."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._turns: OrderedDict[Depositor, OrderedDict[Line, _Openings]] = OrderedDict()
        self._bytes: Counter[Depositor] = Counter()
        self._total = 0

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def next(self) -> Depositor:
        """The depositor whose turn it is."""
        return next(iter(self._turns))

    def skip(self) -> None:
        """Let the depositor whose turn it is wait for its next turn."""
        self._turns.move_to_end(self.next)

    def add(self, test: PendingTest, *, again: bool = False) -> bool:
        """Add a test behind the others of its depositor on its opening. Return False, and end it, if there is no room.
        `again`: a part of it has just run, so its opening is still the first of its line."""
        depositor, size = test.deposit.depositor, _size(test)
        while self._total + size > self._bytes_max:
            largest = max(self._bytes, key=self._bytes.__getitem__)
            if self._bytes[largest] <= self._bytes[depositor] + size:
                test.opening.end(test)
                return False
            self._give_way(largest)
        lines = self._turns.get(depositor)
        if lines is None:
            lines = self._turns[depositor] = OrderedDict()
        openings = lines.setdefault(test.line, OrderedDict())
        openings.setdefault(test.opening, deque()).append(test)
        if again:
            openings.move_to_end(test.opening, last=False)
        self._total += size
        self._bytes[depositor] += size
        return True

    def take(self) -> PendingTest:
        """Remove and return the test whose turn it is."""
        depositor, lines = self._turns.popitem(last=False)
        line, openings = lines.popitem(last=False)
        tests = next(iter(openings.values()))
        test = tests.popleft()
        if not tests:
            del openings[test.opening]
        if openings:
            lines[line] = openings
        if lines:
            self._turns[depositor] = lines
        self._discount(depositor, test)
        return test

    def _give_way(self, depositor: Depositor) -> None:
        """End the last test of a depositor."""
        lines = self._turns[depositor]
        line, openings = next(reversed(lines.items()))
        test = next(reversed(openings.values())).pop()
        if not openings[test.opening]:
            del openings[test.opening]
        if not openings:
            del lines[line]
        if not lines:
            del self._turns[depositor]
        self._discount(depositor, test)
        test.opening.end(test)

    def _discount(self, depositor: Depositor, test: PendingTest) -> None:
        size = _size(test)
        self._total -= size
        self._bytes[depositor] -= size
        if not self._bytes[depositor]:
            del self._bytes[depositor]


def _size(test: PendingTest) -> int:
    return TEST_BYTES + len(test.encoded) + 2 * len(test.deposit.tokens)
