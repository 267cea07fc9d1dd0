"""The books of the demo: what was published, what each filter says of it, and what each listener got."""

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

Act: TypeAlias = Literal["calm", "slow", "crash", "after"]
Key: TypeAlias = "tuple[Value, Value]"
"""Names a quote in the books: exchange and number, both attributes of it. Known before it is published."""


def key_of(attributes: Attributes | Event) -> Key:
    return attributes["exchange"], attributes["quote"]


@dataclass(slots=True)
class Published:
    """One event, as its publisher knows it."""

    attributes: Attributes
    act: Act
    at: float
    """When, by this process's clock, which the listeners share: so delays are measured, not estimated."""
    confirmed: bool = False


class ReceivedEvent(NamedTuple):
    """One event that came."""

    at: float
    path: tuple[str, ...]
    """The brokers that it passed."""


@dataclass(slots=True)
class Ear:
    """One listener, its subscription and what came."""

    listener: Listener
    subscription: Subscription[Event]
    heard: dict[Key, ReceivedEvent] = field(default_factory=dict)
    """When each event came, and by which way."""
    repeated: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Of what did not come: events by reason."""
    dropped_before: int = 0

    def hear(self, event: Event) -> None:
        key = key_of(event)
        if key in self.heard:
            self.repeated += 1
        self.heard.setdefault(key, ReceivedEvent(monotonic(), tuple(event.path)))

    def notice(self, notice: Notice) -> None:
        match notice:
            case Gap(reason, count):
                self.reasons[reason] += count
            case Late(count, True):
                self.reasons["late"] += count


@dataclass(slots=True)
class Record:
    """Everything."""

    published: dict[Key, Published] = field(default_factory=dict)
    ears: list[Ear] = field(default_factory=list)
    moved: bool = False
    """Whether events have left the link that was slowed."""

    def matched(self, listener: Listener, *acts: Act) -> list[Key]:
        """The events of these acts, of all if none is named, that its filter is true of."""
        matches = listener.filter.matches
        return [
            key
            for key, event in self.published.items()
            if (not acts or event.act in acts) and matches(event.attributes)
        ]

    def settled(self, ear: Ear, act: Act) -> bool:
        """Whether a listener has what is due to it at the end of an act, as far as that can be known."""
        stats, heard = ear.subscription.stats, ear.heard.keys()
        if ear.listener.durable:
            return heard >= set(self.matched(ear.listener))
        if act in ("calm", "slow") or not ear.listener.struck:
            return len(heard) + stats.dropped >= len(self.matched(ear.listener))
        if not stats.dropped:
            return heard >= set(self.matched(ear.listener, "calm", "slow", "after"))
        due = self.matched(ear.listener, "after")
        return not stats.pending and (not due or due[-1] in heard)  # whoever drops the oldest has the newest

    def delay_s(self, ear: Ear, key: Key) -> float | None:
        """From its publication until it was heard, if it was."""
        heard = ear.heard.get(key)
        return None if heard is None else heard.at - self.published[key].at

    def travels(self, ear: Ear, exchange: str, act: Act) -> dict[tuple[str, ...], list[float]]:
        """The ways that one exchange's events of an act took to a listener, each with how long they took, ascending."""
        found: dict[tuple[str, ...], list[float]] = {}
        for key, heard in ear.heard.items():
            if key[0] == exchange and self.published[key].act == act:
                found.setdefault(heard.path, []).append(heard.at - self.published[key].at)
        return {path: sorted(delays_s) for path, delays_s in found.items()}

    @property
    def deliveries(self) -> int:
        return sum(len(ear.heard) for ear in self.ears)

    @property
    def filtered_out(self) -> int:
        """Pairs of event and listener that the broker kept apart."""
        return sum(len(self.published) - len(self.matched(ear.listener)) for ear in self.ears)
