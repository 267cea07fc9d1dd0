"""Confirmations: the parties whose acknowledgement an event still awaits before its publisher gets a receipt.

The log is one party, each matching subscription another. An event and a repetition of it may await the same position of
the log. The publisher gets one answer: a receipt when all parties have
the event, or a refusal when all have answered and some failed, or when the timeout has passed.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import NamedTuple, TypeAlias

from plait_core.wire.frame_types.session_frames import Code

Party: TypeAlias = tuple[int, int]
"""A number and the position or token that it acknowledges. The number is a subscription's, LOG for the log, or the
negative id of another broker."""

LOG = -1


class Outcome(NamedTuple):
    """The result of one confirmed event."""

    publisher: int
    sequence: int
    matched: int
    code: str
    """Reason why it is not confirmed; empty when it is."""
    message: str = ""
    silent: tuple[Party, ...] = ()
    """Parties that had not answered at the timeout, ascending."""


class SilentBroker(NamedTuple):
    """Another broker that has not acknowledged an event in time."""

    name: str
    in_charge: bool
    """Whether it has the event, and only its subscribers' acknowledgements are missing."""
    reachable: bool
    """As far as this broker knows."""

    def __str__(self) -> str:
        return f"{self.name}{'' if self.reachable else ' (which is out of reach)'}"


class _Awaited:
    __slots__ = ("code", "deadline", "failed", "matched", "parties", "publisher", "sequence", "why")

    def __init__(self, publisher: int, sequence: int, matched: int, parties: set[Party], deadline: float) -> None:
        self.publisher = publisher
        self.sequence = sequence
        self.matched = matched
        self.parties = parties
        self.deadline = deadline
        self.failed = 0
        self.code = self.why = ""


class Confirmations:
    """Events that await acknowledgements, and outcomes that are ready."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._waiting: dict[tuple[int, int], _Awaited] = {}  # by (publisher, sequence), in order of deadline
        self._by_party: dict[Party, list[_Awaited]] = {}
        self._pending: Counter[int] = Counter()
        self.settled: list[Outcome] = []
        """Outcomes to take."""
        self.due_at = inf
        """Timeout of the first event that waits."""

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, publisher: int, sequence: int, matched: int, parties: set[Party], now: float) -> None:
        """Await the acknowledgements of these parties. Without parties the event is confirmed at once."""
        if not parties:
            self.settled.append(Outcome(publisher, sequence, matched, ""))
            return
        assert (publisher, sequence) not in self._waiting, "an event is admitted once"
        awaited = _Awaited(publisher, sequence, matched, parties, now + self.timeout_s)
        if not self._waiting:
            self.due_at = awaited.deadline
        self._waiting[publisher, sequence] = awaited
        self._pending[publisher] += 1
        for party in parties:
            self._by_party.setdefault(party, []).append(awaited)

    def pending(self, publisher: int) -> int:
        """Return how many events of a publisher wait."""
        return self._pending[publisher]

    def waits(self, publisher: int, sequence: int) -> bool:
        """Return whether an event still waits."""
        return (publisher, sequence) in self._waiting

    def acknowledge(self, party: Party, matched: int = 0) -> None:
        """Note that a party has the event; `matched` adds subscriptions that were not counted before. Parties that are
        not awaited are ignored."""
        for awaited in self._by_party.pop(party, ()):
            awaited.matched += matched
            self._settle(awaited, party)

    def fail(self, party: Party, code: str, why: str = "") -> None:
        """Note that a party will not get the event. The publisher's refusal has the first `why`."""
        for awaited in self._by_party.pop(party, ()):
            awaited.failed += 1
            awaited.code = awaited.code or code
            awaited.why = awaited.why or why
            self._settle(awaited, party)

    def fail_up_to(self, number: int, up_to: int, code: str, why: str) -> None:
        """Note that a durable subscription will get none of its events up to a position."""
        for party in [party for party in self._by_party if party[0] == number and party[1] <= up_to]:
            self.fail(party, code, why)

    def expire(self, now: float) -> list[Party]:
        """Time out events that have waited too long, and return the parties that did not answer."""
        silent: list[Party] = []
        while self.due_at <= now:
            awaited = next(iter(self._waiting.values()))
            unanswered = tuple(sorted(awaited.parties))
            for party in unanswered:
                self._by_party[party].remove(awaited)
                if not self._by_party[party]:
                    del self._by_party[party]
            silent.extend(unanswered)
            awaited.failed += len(unanswered)
            awaited.code = awaited.code or Code.TIMEOUT
            self._finish(awaited, unanswered)
        return silent

    def take(self) -> list[Outcome]:
        """Return the outcomes since the last call."""
        settled, self.settled = self.settled, []
        return settled

    def _settle(self, awaited: _Awaited, party: Party) -> None:
        awaited.parties.discard(party)
        if not awaited.parties:
            self._finish(awaited)

    def _finish(self, awaited: _Awaited, silent: tuple[Party, ...] = ()) -> None:
        del self._waiting[awaited.publisher, awaited.sequence]
        self.due_at = next(iter(self._waiting.values())).deadline if self._waiting else inf
        self._pending[awaited.publisher] -= 1
        if not self._pending[awaited.publisher]:
            del self._pending[awaited.publisher]
        message = awaited.why or (f"{awaited.failed} of those it was for did not get it" if awaited.failed else "")
        self.settled.append(
            Outcome(awaited.publisher, awaited.sequence, awaited.matched, awaited.code, message, silent)
        )
