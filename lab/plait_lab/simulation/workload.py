"""The behaviour of simulated applications: publish, subscribe, change filters, unsubscribe.

Rates, sizes, confirmation levels and interests are drawn once for each application, so that seeds differ in kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from plait.options.settings import Buffer
from plait_core.wire import Confirm

from .applications import Application
from .interests import Interest, draw_attributes, draw_interest
from .recorder import NEVER, Tenure
from .timeline import Timeline

_LIFETIME_US: Final = (50_000, 500_000, 5_000_000)


@dataclass(frozen=True, slots=True)
class Tastes:
    """The behaviour of one application."""

    publish_per_s: float
    burst: int
    confirms: tuple[Confirm, ...]
    payload_bytes: int
    priorities: int
    mortal: float
    """Share of its events that have a lifetime."""
    change_per_s: float
    subscriptions: int
    durables: dict[str, Interest]
    buffer: Buffer


def draw_tastes(rng: Random, number: int, events: int, active_s: float) -> Tastes:
    """Draw the behaviour of an application that publishes about `events` events."""
    levels: list[tuple[Confirm, ...]] = [
        (Confirm.BROKER,),
        (Confirm.NONE, Confirm.BROKER),
        (Confirm.SUBSCRIBERS,),
        tuple(Confirm),
    ]
    durables = {f"d{number}{letter}": draw_interest(rng) for letter in "ab"[: rng.choice((0, 0, 1, 1, 2))]}
    small = Buffer(rng.choice((2, 8)), 1 << 20, rng.choice(("drop_oldest", "drop_newest", "block", "close")))
    return Tastes(
        publish_per_s=events / active_s,
        burst=rng.choice((1, 1, 1, 5, 30)),
        confirms=rng.choice(levels),
        payload_bytes=rng.choice((0, 0, 16, 2000)),
        priorities=rng.choice((1, 1, 1, 3)),
        mortal=rng.choice((0.0, 0.0, 0.0, 0.2)),
        change_per_s=rng.choice((0.0, 0.2, 1.0)),
        subscriptions=rng.choice((0, 1, 2, 3)),
        durables=durables,
        buffer=rng.choice((Buffer(), Buffer(), small)),
    )


class Script:
    """Drives one application until a time; after that it only keeps its subscriptions."""

    def __init__(self, application: Application, tastes: Tastes, timeline: Timeline, rng: Random, until: float) -> None:
        self.application = application
        self.tastes = tastes
        self._timeline = timeline
        self._rng = rng
        self._until = until
        self._serial = 0

    def start(self) -> None:
        """Start the application and its behaviour."""
        self.application.start()
        self._keep_subscriptions()
        if self.tastes.publish_per_s:
            self._later(self.tastes.burst / self.tastes.publish_per_s, self._publish)
        if self.tastes.change_per_s:
            self._later(1 / self.tastes.change_per_s, self._change_mind)

    def _later(self, mean_s: float, action: object) -> None:
        assert callable(action)
        self._timeline.after(self._rng.expovariate(1 / mean_s), action)

    def _keep_subscriptions(self) -> None:
        """Request missing subscriptions, after a start or a refusal."""
        application, tastes = self.application, self.tastes
        held = [tenure for tenure in application.tenures.values() if tenure.closing_at == NEVER]
        for name, interest in tastes.durables.items():
            refused = any(tenure.durable == name and tenure.refused for tenure in application.tenures.values())
            if not refused and not any(tenure.durable == name for tenure in held):
                application.subscribe(interest, durable=name, buffer=tastes.buffer)
        plain = sum(not tenure.durable for tenure in held)
        for _ in range(tastes.subscriptions - plain):
            application.subscribe(draw_interest(self._rng), buffer=tastes.buffer)
        self._timeline.after(0.5, self._keep_subscriptions)

    def _publish(self) -> None:
        if self._timeline.now >= self._until:
            return
        tastes, rng = self.tastes, self._rng
        for _ in range(tastes.burst):
            self._serial += 1
            attributes = draw_attributes(rng) | {"serial": self._serial}
            self.application.publish(
                attributes,
                rng.randbytes(tastes.payload_bytes) if tastes.payload_bytes else b"",
                confirm=rng.choice(tastes.confirms),
                priority=rng.randrange(tastes.priorities),
                lifetime_us=rng.choice(_LIFETIME_US) if rng.random() < tastes.mortal else 0,
            )
        self._later(tastes.burst / tastes.publish_per_s, self._publish)

    def _change_mind(self) -> None:
        if self._timeline.now >= self._until:
            return
        open_ones: list[Tenure] = [
            tenure
            for tenure in self.application.tenures.values()
            if not tenure.durable and tenure.installed_at < tenure.closing_at == NEVER
        ]
        if open_ones:
            tenure = self._rng.choice(open_ones)
            if self._rng.random() < 0.5:
                self.application.change(tenure, draw_interest(self._rng))
            else:
                self.application.unsubscribe(tenure, drain=self._rng.random() < 0.4)
        self._later(1 / self.tastes.change_per_s, self._change_mind)
