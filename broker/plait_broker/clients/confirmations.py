"""Confirmations: which parties an event still waits for before its publisher hears that it arrived.

The log is one party, each matching subscription another. The publisher hears once: a receipt when all have it, a
refusal when all have answered and some could not, or when time is up.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, TypeAlias

from plait_core.wire.frame_types.session_frames import Code

Party: TypeAlias = tuple[int, int]
"""A subscription's number (LOG for the log, of another broker its id, negative) and the position or token that it
answers by."""

LOG = -1


class Outcome(NamedTuple):
    """What a publisher is to hear of one event."""

    publisher: int
    sequence: int
    matched: int
    code: str
    """Why it is not confirmed; empty when it is."""
    message: str = ""
    silent: tuple[Party, ...] = ()
    """Who had not answered when time was up, ascending."""


class SilentBroker(NamedTuple):
    """Another broker that an event is for, and that has not answered for it."""

    name: str
    in_charge: bool
    """Whether it has the event, and what is missing are its subscribers' answers."""
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
    """Events that wait, and outcomes that are ready."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._waiting: dict[tuple[int, int], _Awaited] = {}  # by (publisher, sequence), in order of deadline
        self._by_party: dict[Party, _Awaited] = {}
        self._pending: Counter[int] = Counter()
        self.settled: list[Outcome] = []
        """Outcomes to take."""

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, publisher: int, sequence: int, matched: int, parties: set[Party], now: float) -> None:
        """An event wants confirmation by all of these parties; by none, it is confirmed."""
        if not parties:
            self.settled.append(Outcome(publisher, sequence, matched, ""))
            return
        assert (publisher, sequence) not in self._waiting, "an event is admitted once"
        awaited = _Awaited(publisher, sequence, matched, parties, now + self.timeout_s)
        self._waiting[publisher, sequence] = awaited
        self._pending[publisher] += 1
        for party in parties:
            self._by_party[party] = awaited

    def pending(self, publisher: int) -> int:
        """How many events of a publisher wait."""
        return self._pending[publisher]

    def waits(self, publisher: int, sequence: int) -> bool:
        """Whether an event's outcome is still open."""
        return (publisher, sequence) in self._waiting

    def acknowledge(self, party: Party, matched: int = 0) -> None:
        """A party has the event, and so have as many subscriptions that were not counted before. Parties that nobody
        waits for are ignored."""
        awaited = self._by_party.pop(party, None)
        if awaited is not None:
            awaited.matched += matched
            self._settle(awaited, party)

    def fail(self, party: Party, code: str, why: str = "") -> None:
        """A party will not have the event; `why` is a sentence for its publisher, who hears the first."""
        awaited = self._by_party.pop(party, None)
        if awaited is not None:
            awaited.failed += 1
            awaited.code = awaited.code or code
            awaited.why = awaited.why or why
            self._settle(awaited, party)

    def next_deadline(self) -> float | None:
        """When the first waiting event's time is up."""
        return next(iter(self._waiting.values())).deadline if self._waiting else None

    def expire(self, now: float) -> list[Party]:
        """Give up on events that waited too long; the parties that did not answer."""
        silent: list[Party] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            awaited = next(iter(self._waiting.values()))
            unanswered = tuple(sorted(awaited.parties))
            for party in unanswered:
                del self._by_party[party]
            silent.extend(unanswered)
            awaited.failed += len(unanswered)
            awaited.code = awaited.code or Code.TIMEOUT
            self._finish(awaited, unanswered)
        return silent

    def take(self) -> list[Outcome]:
        """Outcomes since the last call."""
        settled, self.settled = self.settled, []
        return settled

    def _settle(self, awaited: _Awaited, party: Party) -> None:
        awaited.parties.discard(party)
        if not awaited.parties:
            self._finish(awaited)

    def _finish(self, awaited: _Awaited, silent: tuple[Party, ...] = ()) -> None:
        del self._waiting[awaited.publisher, awaited.sequence]
        self._pending[awaited.publisher] -= 1
        if not self._pending[awaited.publisher]:
            del self._pending[awaited.publisher]
        message = awaited.why or (f"{awaited.failed} of those it was for did not get it" if awaited.failed else "")
        self.settled.append(
            Outcome(awaited.publisher, awaited.sequence, awaited.matched, awaited.code, message, silent)
        )
