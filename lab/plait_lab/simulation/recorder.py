"""The recorded history of a run: what was published and with what outcome, who asked for what and when, what reached
the applications, what they were told they missed, and every fault. The oracle reads nothing else.

Outcomes are three: ok, failed and unknown. What never got an answer is unknown, and promises nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from plait_core.events import EventId
from plait_core.wire import Confirm

from .history import History, Kind
from .interests import Interest
from .timeline import Timeline

NEVER: Final = float("inf")


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Publication:
    """One event, from the publisher's side."""

    id: EventId
    client: str
    at: float
    attributes: Mapping[str, Any]
    digest: str
    confirm: Confirm
    priority: int
    lifetime_us: int
    outcome: Outcome = Outcome.UNKNOWN
    settled_at: float = NEVER
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Reception:
    """One event as it reached an application."""

    at: float
    id: EventId
    digest: str
    priority: int


@dataclass(frozen=True, slots=True)
class Miss:
    """What an application was told that it did not get."""

    at: float
    reason: str
    count: int
    """0 when nobody knows."""


@dataclass(slots=True)
class Wish:
    """A filter that an application asked for."""

    interest: Interest
    done_at: float = NEVER
    """When it was told that it is in force, and what it asked for before is not."""


@dataclass(slots=True)
class Tenure:
    """One subscription of one life of one client, from asking to its end."""

    client: str
    owner: str
    number: int
    interest: Interest
    durable: str
    asked_at: float
    installed_at: float = NEVER
    """When the application was told that it is installed: what is published from then on, it must get."""
    wishes: list[Wish] = field(default_factory=list)
    """Every filter it has asked for, in that order."""
    closing_at: float = NEVER
    """When the application asked for its end, or its process died."""
    closed_at: float = NEVER
    """When it was told that it has ended."""
    receptions: list[Reception] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    refused: bool = False
    """Whether the broker would not have it."""
    cut_off: bool = False
    """Whether it ended because a queue was full: at the broker perhaps, some time before its client saw so."""
    disturbed: bool = False
    """Whether a connection of its client ended while it was open."""

    @property
    def name(self) -> str:
        return f"{self.client}/{self.durable or self.number}"

    def may_want(self, publication: Publication) -> bool:
        """Whether a filter that may have been in force wants this."""
        return any(wish.interest.wants(publication.attributes) for wish in self._in_force(publication.at))

    def wants(self, publication: Publication) -> bool:
        """Whether every filter that may have been in force wants this."""
        return all(wish.interest.wants(publication.attributes) for wish in self._in_force(publication.at))

    def _in_force(self, at: float) -> list[Wish]:
        """What may decide on an event that is published then, however long it is on its way."""
        done = [number for number, wish in enumerate(self.wishes) if wish.done_at <= at]
        return self.wishes[done[-1] :] if done else self.wishes


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was done to the system."""

    at: float
    kind: str
    target: str
    live: bool
    """Whether it hit something that was alive."""


class Recorder:
    """Takes the history down."""

    def __init__(self, timeline: Timeline) -> None:
        self.publications: dict[EventId, Publication] = {}
        self.tenures: list[Tenure] = []
        self.faults: list[Fault] = []
        self.restarts: list[float] = []
        """When the broker started, each time but the first."""
        self.lines: list[tuple[Any, ...]] = []
        """The history for people."""
        self.history = History()
        self.broken: list[str] = []
        """What went wrong inside a node: exceptions and exceeded bounds."""
        self._timeline = timeline
        self._numbers: dict[str, int] = {}

    @property
    def now(self) -> float:
        return self._timeline.now

    def note(self, *what: Any) -> None:
        """Add a line for people."""
        self.lines.append((round(self._timeline.now, 6), *what))

    def _hash(self, kind: Kind, *what: int | str) -> None:
        """Add a line to what is hashed. A name becomes its place in the order in which names appeared."""
        numbers = [self._numbers.setdefault(one, len(self._numbers)) if isinstance(one, str) else one for one in what]
        self.history.add(kind, self._timeline.now, *numbers)

    # --- publishers ---------------------------------------------------------------------------------------------------

    def published(self, publication: Publication) -> None:
        assert publication.id not in self.publications, "an id is used once"
        self.publications[publication.id] = publication
        self.note("publish", publication.client, str(publication.id), publication.confirm.name, publication.attributes)
        confirm, lifetime_us = publication.confirm, publication.lifetime_us
        self._hash(Kind.PUBLISHED, publication.client, *publication.id, confirm, publication.priority, lifetime_us)

    def settled(self, id: EventId, outcome: Outcome, reason: str = "") -> None:
        """A publisher heard what became of its event."""
        publication = self.publications[id]
        if publication.settled_at != NEVER:
            if Outcome.OK in (outcome, publication.outcome):
                self.breach(publication.client, f"{id} was {publication.outcome}, and then {outcome} ({reason})")
            return
        publication.outcome, publication.settled_at, publication.reason = outcome, self.now, reason
        self.note("settled", publication.client, str(id), outcome.value, reason)
        self._hash(Kind.SETTLED, *id, outcome)

    # --- subscribers --------------------------------------------------------------------------------------------------

    def asked(self, client: str, owner: str, number: int, interest: Interest, durable: str = "") -> Tenure:
        """An application asks for a subscription."""
        tenure = Tenure(client, owner, number, interest, durable, self.now, wishes=[Wish(interest)])
        self.tenures.append(tenure)
        self.note("subscribe", tenure.name, interest.text)
        self._hash(Kind.SUBSCRIBED, tenure.name)
        return tenure

    def installed(self, tenure: Tenure) -> None:
        if tenure.installed_at == NEVER:
            tenure.installed_at = tenure.wishes[0].done_at = self.now
            self.note("installed", tenure.name)
            self._hash(Kind.INSTALLED, tenure.name)

    def changing(self, tenure: Tenure, interest: Interest) -> Wish:
        """An application asks for another filter."""
        wish = Wish(interest)
        tenure.wishes.append(wish)
        self.note("change", tenure.name, interest.text)
        return wish

    def changed(self, wish: Wish) -> None:
        """It was told that the other filter is in force."""
        wish.done_at = self.now
        self._hash(Kind.CHANGED)

    def closing(self, tenure: Tenure, why: str) -> None:
        if tenure.closing_at == NEVER:
            tenure.closing_at = self.now
            self.note("closing", tenure.name, why)
            self._hash(Kind.CLOSING, tenure.name)

    def closed(self, tenure: Tenure, why: str) -> None:
        self.closing(tenure, why)
        if tenure.closed_at == NEVER:
            tenure.closed_at = self.now
            self.note("closed", tenure.name, why)
            self._hash(Kind.ENDED, tenure.name)

    def received(self, tenure: Tenure, id: EventId, digest: str, priority: int) -> None:
        """An event reached the application."""
        tenure.receptions.append(Reception(self.now, id, digest, priority))
        self.note("receive", tenure.name, str(id))
        self._hash(Kind.RECEIVED, tenure.name, *id, priority)

    def missed(self, tenure: Tenure, reason: str, count: int) -> None:
        """The application was told that events did not come."""
        tenure.misses.append(Miss(self.now, reason, count))
        self.note("miss", tenure.name, reason, count)
        self._hash(Kind.MISSED, tenure.name, reason, count)

    def fault(self, kind: str, target: str, *, live: bool = True) -> None:
        self.faults.append(Fault(self.now, kind, target, live))
        self.note("FAULT", kind, target)
        self._hash(Kind.FAULT, kind, live)

    def restarted(self, target: str) -> None:
        """A broker started again."""
        self.restarts.append(self.now)
        self.note("restart", target)
        self._hash(Kind.STARTED, target)

    def breach(self, where: str, what: str) -> None:
        """An exception, or a bound that did not hold."""
        self.broken.append(f"{where}: {what}")
        self.note("BREACH", where, what)
        self._hash(Kind.BREACH)


def digest_of(attributes: Mapping[str, Any], payload: bytes) -> str:
    """What an event says, in short."""
    said = repr(sorted(attributes.items())).encode()
    return hashlib.blake2b(said + b"\0" + payload, digest_size=8).hexdigest()
