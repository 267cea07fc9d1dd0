"""The behaviour of simulated applications: publish, subscribe, change filters, unsubscribe.

Rates, sizes, confirmation levels and interests are drawn once for each application, so that seeds differ in kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from plait.options.settings import Buffer
from plait_core.wire import Confirm

from ..timeline import Timeline
from .applications import Application
from .interests import EVERYTHING, Interest, draw_attributes, draw_interest
from .recorder import NEVER, ClientSubscription

_LIFETIME_US: Final = (50_000, 500_000, 5_000_000)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of one application."""

    publish_per_s: float
    burst: int
    confirms: tuple[Confirm, ...]
    payload_bytes: int
    priorities: int
    lifetime_share: float
    """Share of its events that have a lifetime."""
    change_per_s: float
    subscriptions: int
    durables: dict[str, Interest]
    buffer: Buffer
    refilter_per_s: float = 0.0
    """Rate at which it changes the filter of a durable subscription. It then also opens a second one."""


def draw_worker(rng: Random, events: int, active_s: float) -> Behaviour:
    """Draw the behaviour of an application that shares durable subscriptions with others."""
    return Behaviour(
        publish_per_s=events / active_s,
        burst=rng.choice((1, 5)),
        confirms=rng.choice(((Confirm.BROKER,), (Confirm.BROKER, Confirm.SUBSCRIBERS))),
        payload_bytes=0,
        priorities=1,
        lifetime_share=0.0,
        change_per_s=0.0,
        subscriptions=0,
        durables={"work": EVERYTHING},
        buffer=Buffer(),
        refilter_per_s=rng.choice((0.2, 1.0, 4.0)),
    )


def draw_behaviour(rng: Random, number: int, events: int, active_s: float) -> Behaviour:
    """Draw the behaviour of an application that publishes about `events` events."""
    levels: list[tuple[Confirm, ...]] = [
        (Confirm.BROKER,),
        (Confirm.NONE, Confirm.BROKER),
        (Confirm.SUBSCRIBERS,),
        tuple(Confirm),
    ]
    durables = {f"d{number}{letter}": draw_interest(rng) for letter in "ab"[: rng.choice((0, 0, 1, 1, 2))]}
    small = Buffer(rng.choice((2, 8)), 1 << 20, rng.choice(("drop_oldest", "drop_newest", "block", "close")))
    return Behaviour(
        publish_per_s=events / active_s,
        burst=rng.choice((1, 1, 1, 5, 30)),
        confirms=rng.choice(levels),
        payload_bytes=rng.choice((0, 0, 16, 2000)),
        priorities=rng.choice((1, 1, 1, 3)),
        lifetime_share=rng.choice((0.0, 0.0, 0.0, 0.2)),
        change_per_s=rng.choice((0.0, 0.2, 1.0)),
        subscriptions=rng.choice((0, 1, 2, 3)),
        durables=durables,
        buffer=rng.choice((Buffer(), Buffer(), small)),
    )


class Script:
    """Drives one application until a time; after that it only keeps its subscriptions."""

    def __init__(
        self, application: Application, behaviour: Behaviour, timeline: Timeline, rng: Random, until: float
    ) -> None:
        self.application = application
        self.behaviour = behaviour
        self._timeline = timeline
        self._rng = rng
        self._until = until
        self._serial = 0

    def start(self) -> None:
        """Start the application and its behaviour."""
        self.application.start()
        self._keep_subscriptions()
        if self.behaviour.publish_per_s:
            self._later(self.behaviour.burst / self.behaviour.publish_per_s, self._publish)
        if self.behaviour.refilter_per_s:
            self._later(1 / self.behaviour.refilter_per_s, self._refilter)
        if self.behaviour.change_per_s:
            self._later(1 / self.behaviour.change_per_s, self._change_subscription)

    def _later(self, mean_s: float, action: object) -> None:
        assert callable(action)
        self._timeline.after(self._rng.expovariate(1 / mean_s), action)

    def _keep_subscriptions(self) -> None:
        """Request missing subscriptions, after a start or a refusal."""
        application, behaviour = self.application, self.behaviour
        held = [subscription for subscription in application.subscriptions.values() if subscription.closing_at == NEVER]
        for name, interest in behaviour.durables.items():
            refused = any(
                subscription.durable == name and subscription.refused
                for subscription in application.subscriptions.values()
            )
            if not refused and not any(subscription.durable == name for subscription in held):
                wanted = draw_interest(self._rng, 1) if behaviour.refilter_per_s else interest
                application.subscribe(wanted, durable=name, buffer=behaviour.buffer)
        plain = sum(not subscription.durable for subscription in held)
        for _ in range(behaviour.subscriptions - plain):
            application.subscribe(draw_interest(self._rng), buffer=behaviour.buffer)
        self._timeline.after(0.5, self._keep_subscriptions)

    def _publish(self) -> None:
        if self._timeline.now >= self._until:
            return
        behaviour, rng = self.behaviour, self._rng
        for _ in range(behaviour.burst):
            self._serial += 1
            attributes = draw_attributes(rng) | {"serial": self._serial}
            self.application.publish(
                attributes,
                rng.randbytes(behaviour.payload_bytes) if behaviour.payload_bytes else b"",
                confirm=rng.choice(behaviour.confirms),
                priority=rng.randrange(behaviour.priorities),
                lifetime_us=rng.choice(_LIFETIME_US) if rng.random() < behaviour.lifetime_share else 0,
            )
        self._later(behaviour.burst / behaviour.publish_per_s, self._publish)

    def _refilter(self) -> None:
        """Change the filter of a durable subscription, or close it, so that the next worker opens it with another."""
        if self._timeline.now >= self._until:
            return
        held = [
            each for each in self.application.subscriptions.values() if each.installed_at < each.closing_at == NEVER
        ]
        for subscription in held:
            if self._rng.random() < 0.7:
                self.application.change(subscription, draw_interest(self._rng, 1))
            else:
                self.application.unsubscribe(subscription)
        self._later(1 / self.behaviour.refilter_per_s, self._refilter)

    def _change_subscription(self) -> None:
        if self._timeline.now >= self._until:
            return
        open_ones: list[ClientSubscription] = [
            subscription
            for subscription in self.application.subscriptions.values()
            if not subscription.durable and subscription.installed_at < subscription.closing_at == NEVER
        ]
        if open_ones:
            subscription = self._rng.choice(open_ones)
            if self._rng.random() < 0.5:
                self.application.change(subscription, draw_interest(self._rng))
            else:
                self.application.unsubscribe(subscription, drain=self._rng.random() < 0.4)
        self._later(1 / self.behaviour.change_per_s, self._change_subscription)
