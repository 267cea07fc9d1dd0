"""Record of the demo: the published events, the filter's verdict on each, and the events each listener received."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from ...protocol.notices import Gap, Late, Notice

if TYPE_CHECKING:
    from plait_core import Attributes, Value

    from ... import Event, Subscription
    from .listeners import Listener

Phase: TypeAlias = Literal["calm", "slow", "crash", "after"]
Key: TypeAlias = "tuple[Value, Value]"
"""Identifies a quote: its exchange and number, both attributes of it. Known before it is published."""


def key_of(attributes: Attributes | Event) -> Key:
    return attributes["exchange"], attributes["quote"]


@dataclass(slots=True)
class Published:
    """One event, as its publisher knows it."""

    attributes: Attributes
    phase: Phase
    at: float
    """Time of publication by this process's clock, which the listeners share. So delays are exact."""
    confirmed: bool = False


class ReceivedEvent(NamedTuple):
    """One event at its listener."""

    at: float
    path: tuple[str, ...]
    """Names of the brokers that it passed."""


@dataclass(slots=True)
class Subscriber:
    """One running listener: its subscription and the events that it received."""

    listener: Listener
    subscription: Subscription[Event]
    received: dict[Key, ReceivedEvent] = field(default_factory=dict)
    repeated: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Number of events not delivered, by reason."""
    dropped_before: int = 0
    """Events dropped before the crash."""

    def receive(self, event: Event) -> None:
        key = key_of(event)
        if key in self.received:
            self.repeated += 1
        self.received.setdefault(key, ReceivedEvent(monotonic(), tuple(event.path)))

    def receive_notice(self, notice: Notice) -> None:
        match notice:
            case Gap(reason, count):
                self.reasons[reason] += count
            case Late(count, True):
                self.reasons["late"] += count


@dataclass(slots=True)
class Record:
    """All events and all listeners."""

    published: dict[Key, Published] = field(default_factory=dict)
    subscribers: list[Subscriber] = field(default_factory=list)
    rerouted: bool = False
    """Whether events have left the slowed link."""

    def matched(self, listener: Listener, *phases: Phase) -> list[Key]:
        """Return the events of these phases, or of all, that match a listener's filter."""
        matches = listener.filter.matches
        return [
            key
            for key, event in self.published.items()
            if (not phases or event.phase in phases) and matches(event.attributes)
        ]

    def settled(self, subscriber: Subscriber, phase: Phase) -> bool:
        """Return whether a listener has the events due to it at the end of a phase, as far as that can be known."""
        listener, stats, received = subscriber.listener, subscriber.subscription.stats, subscriber.received.keys()
        if listener.durable:
            return received >= set(self.matched(listener))
        if phase in ("calm", "slow") or not listener.loses_its_broker:
            return len(received) + stats.dropped >= len(self.matched(listener))
        if not stats.dropped:
            return received >= set(self.matched(listener, "calm", "slow", "after"))
        due = self.matched(listener, "after")
        return not stats.pending and (not due or due[-1] in received)  # drop_oldest keeps the newest event

    def delay_s(self, subscriber: Subscriber, key: Key) -> float | None:
        """Return the time from an event's publication to its arrival, or None if it has not arrived."""
        received = subscriber.received.get(key)
        return None if received is None else received.at - self.published[key].at

    def delays_by_path(self, subscriber: Subscriber, exchange: str, phase: Phase) -> dict[tuple[str, ...], list[float]]:
        """Return the delays of one exchange's events of a phase to a listener, ascending, by path."""
        found: dict[tuple[str, ...], list[float]] = {}
        for key, received in subscriber.received.items():
            if key[0] == exchange and self.published[key].phase == phase:
                found.setdefault(received.path, []).append(received.at - self.published[key].at)
        return {path: sorted(delays_s) for path, delays_s in found.items()}

    @property
    def deliveries(self) -> int:
        return sum(len(subscriber.received) for subscriber in self.subscribers)

    @property
    def filtered_out(self) -> int:
        """Pairs of an event and a listener whose filter it does not match."""
        return sum(len(self.published) - len(self.matched(subscriber.listener)) for subscriber in self.subscribers)
