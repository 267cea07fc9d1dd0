"""The recorded history of a run: publications with outcomes, subscriptions, receptions, reported losses and faults.

The oracle reads nothing else. An outcome is ok, failed or unknown. A request without an answer is unknown, and
guarantees nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from plait_core.events import EventId
from plait_core.wire import Confirm

from ..history import History, Kind
from ..timeline import Timeline
from .interests import Interest

NEVER: Final = float("inf")


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Publication:
    """An event at its publisher."""

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
    """An event received by an application."""

    at: float
    id: EventId
    digest: str
    priority: int


@dataclass(frozen=True, slots=True)
class Miss:
    """A loss that was reported to an application."""

    at: float
    reason: str
    count: int
    """The number of events, 0 if unknown."""


@dataclass(slots=True)
class RequestedFilter:
    """A filter that an application requested."""

    interest: Interest
    requested_at: float
    done_at: float = NEVER
    """Time at which it was confirmed to be in force instead of the one before."""
    refused_at: float = NEVER
    """Time at which the application learned that the broker has refused it."""


@dataclass(slots=True)
class ClientSubscription:
    """A subscription in one incarnation of a client, from its request to its end."""

    client: str
    owner: str
    number: int
    interest: Interest
    durable: str
    requested_at: float
    installed_at: float = NEVER
    """Time at which the application learned that it is installed: later events must be delivered."""
    requested: list[RequestedFilter] = field(default_factory=list)
    """Every requested filter, in order."""
    closing_at: float = NEVER
    """Time at which the application requested its end, or its process died."""
    closed_at: float = NEVER
    """Time at which the application learned of its end."""
    receptions: list[Reception] = field(default_factory=list)
    misses: list[Miss] = field(default_factory=list)
    refused: bool = False
    """Whether the broker refused it."""
    cut_off: bool = False
    """Whether a full queue ended it, at the broker possibly some time before the client learned of it."""
    disturbed: bool = False
    """Whether a connection of its client ended while it was open."""

    @property
    def name(self) -> str:
        return f"{self.client}/{self.durable or self.number}"

    def may_match(self, publication: Publication) -> bool:
        """Return whether a filter that may have been in force matches."""
        return any(request.interest.matches(publication.attributes) for request in self._in_force(publication.at))

    def matches(self, publication: Publication) -> bool:
        """Return whether every filter that may have been in force matches."""
        return all(request.interest.matches(publication.attributes) for request in self._in_force(publication.at))

    def _in_force(self, at: float) -> list[RequestedFilter]:
        """Return the filters that may decide on an event published at a time, for any transit delay."""
        done = [number for number, request in enumerate(self.requested) if request.done_at <= at]
        return self.requested[done[-1] :] if done else self.requested


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that was injected."""

    at: float
    kind: str
    target: str
    live: bool
    """Whether it affected a live node."""


class Recorder:
    """Records a history."""

    def __init__(self, timeline: Timeline) -> None:
        self.publications: dict[EventId, Publication] = {}
        self.subscriptions: list[ClientSubscription] = []
        self.faults: list[Fault] = []
        self.restarts: list[float] = []
        """Times at which the broker restarted."""
        self.lines: list[tuple[Any, ...]] = []
        """The history as text."""
        self.history = History()
        self.reported_drops = 0
        """Events that clients dropped from full buffers, by the count of all incarnations of the broker."""
        self.broken: list[str] = []
        """Exceptions and exceeded bounds in a node."""
        self._timeline = timeline
        self._numbers: dict[str, int] = {}

    @property
    def now(self) -> float:
        return self._timeline.now

    def note(self, *what: Any) -> None:
        """Add a line of text."""
        self.lines.append((round(self._timeline.now, 6), *what))

    def _hash(self, kind: Kind, *what: int | str) -> None:
        """Add a line to the hashed history. A name becomes its place in the order in which names appeared."""
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
        """Record the outcome of an event at its publisher."""
        publication = self.publications[id]
        if publication.settled_at != NEVER:
            if Outcome.OK in (outcome, publication.outcome):
                self.breach(publication.client, f"{id} was {publication.outcome}, and then {outcome} ({reason})")
            return
        publication.outcome, publication.settled_at, publication.reason = outcome, self.now, reason
        self.note("settled", publication.client, str(id), outcome.value, reason)
        self._hash(Kind.SETTLED, *id, outcome)

    # --- subscribers --------------------------------------------------------------------------------------------------

    def subscribe_requested(
        self, client: str, owner: str, number: int, interest: Interest, durable: str = ""
    ) -> ClientSubscription:
        """Record the request of a subscription."""
        subscription = ClientSubscription(
            client, owner, number, interest, durable, self.now, requested=[RequestedFilter(interest, self.now)]
        )
        self.subscriptions.append(subscription)
        self.note("subscribe", subscription.name, interest.text)
        self._hash(Kind.SUBSCRIBED, subscription.name)
        return subscription

    def installed(self, subscription: ClientSubscription) -> None:
        if subscription.installed_at == NEVER:
            subscription.installed_at = subscription.requested[0].done_at = self.now
            self.note("installed", subscription.name)
            self._hash(Kind.INSTALLED, subscription.name)

    def change_requested(self, subscription: ClientSubscription, interest: Interest) -> RequestedFilter:
        """Record the request of another filter."""
        request = RequestedFilter(interest, self.now)
        subscription.requested.append(request)
        self.note("change", subscription.name, interest.text)
        return request

    def changed(self, request: RequestedFilter) -> None:
        """Record that the other filter is in force."""
        request.done_at = self.now
        self._hash(Kind.CHANGED)

    def closing(self, subscription: ClientSubscription, why: str) -> None:
        if subscription.closing_at == NEVER:
            subscription.closing_at = self.now
            self.note("closing", subscription.name, why)
            self._hash(Kind.CLOSING, subscription.name)

    def closed(self, subscription: ClientSubscription, why: str) -> None:
        self.closing(subscription, why)
        if subscription.closed_at == NEVER:
            subscription.closed_at = self.now
            self.note("closed", subscription.name, why)
            self._hash(Kind.ENDED, subscription.name)

    def received(self, subscription: ClientSubscription, id: EventId, digest: str, priority: int) -> None:
        """Record the reception of an event."""
        subscription.receptions.append(Reception(self.now, id, digest, priority))
        self.note("receive", subscription.name, str(id))
        self._hash(Kind.RECEIVED, subscription.name, *id, priority)

    def missed(self, subscription: ClientSubscription, reason: str, count: int) -> None:
        """Record that an application learned of lost events."""
        subscription.misses.append(Miss(self.now, reason, count))
        self.note("miss", subscription.name, reason, count)
        self._hash(Kind.MISSED, subscription.name, reason, count)

    def fault(self, kind: str, target: str, *, live: bool = True) -> None:
        self.faults.append(Fault(self.now, kind, target, live))
        self.note("FAULT", kind, target)
        self._hash(Kind.FAULT, kind, live)

    def restarted(self, target: str) -> None:
        """Record the restart of a broker."""
        self.restarts.append(self.now)
        self.note("restart", target)
        self._hash(Kind.STARTED, target)

    def breach(self, where: str, what: str) -> None:
        """Record an exception or an exceeded bound."""
        self.broken.append(f"{where}: {what}")
        self.note("BREACH", where, what)
        self._hash(Kind.BREACH)


def digest_of(attributes: Mapping[str, Any], payload: bytes) -> str:
    """Return a digest of an event's content."""
    content = repr(sorted(attributes.items())).encode()
    return hashlib.blake2b(content + b"\0" + payload, digest_size=8).hexdigest()
