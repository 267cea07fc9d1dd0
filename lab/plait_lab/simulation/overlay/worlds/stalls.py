"""A chain of three brokers whose middle one stalls or whose link slows, with the true and the claimed delay of
events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from plait_core.wire import Deliver, Delivery

from ..broker_node import OverlayNode
from ..frame_client import FrameSubscription
from ..world import World, WorldTerms

DELAY_S: Final = 0.001
"""Delay of each link in the undisturbed state."""

BEGIN_S: Final = 10.0
"""Seconds after which all brokers know each other and their links are measured."""


@dataclass(frozen=True, slots=True)
class EventDelay:
    """An event that reached the subscriber."""

    published_s: float
    true_s: float
    claimed_s: float


class Stalls:
    """0 - 1 - 2: a client of the first broker publishes every `every_s`, one of the last subscribes to everything."""

    def __init__(self, *, every_s: float = 0.1, lasts_s: float = 20.0, signed: bool = False) -> None:
        self.world = World("stalls", brokers=3, terms=WorldTerms(signed=signed))
        self.links = [self.world.link(near, near + 1, DELAY_S) for near in range(2)]
        self.delays: list[EventDelay] = []
        self._every_s, self._lasts_s = every_s, lasts_s
        self._plans: list[tuple[float, Callable[[], None]]] = []
        self.world.on_delivered.append(self._delivered)

    @property
    def middle(self) -> OverlayNode:
        """The broker that stalls."""
        return self.world.nodes[1]

    def pause(self, at_s: float, lasts_s: float) -> None:
        """Pause the middle broker."""
        self._plans += [(at_s, self.middle.pause), (at_s + lasts_s, self.middle.resume)]

    def slow(self, at_s: float, delay_s: float, *, one_way: bool = False) -> None:
        """Slow the first link; `one_way`: only in the direction of the events."""

        def slow() -> None:
            if one_way:
                self.links[0].slower_s[0] = delay_s - DELAY_S
            else:
                self.links[0].delay_s = delay_s
            self.world.truth.change()

        self._plans.append((at_s, slow))

    def plan(self, at_s: float, happen: Callable[[], None]) -> None:
        """Schedule an action."""
        self._plans.append((at_s, happen))

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        world = self.world
        world.start()
        publisher, subscriber = world.client(0), world.client(2)
        world.run(BEGIN_S / 2)
        publisher.advertise("x >= 0")
        subscriber.subscribe("x >= 0")
        world.run(BEGIN_S / 2)

        def publish() -> None:
            publisher.publish({"x": 1})

        for number in range(round(self._lasts_s / self._every_s)):
            world.timeline.after(number * self._every_s, publish)
        for at_s, happen in self._plans:
            world.timeline.after(at_s, happen)
        world.run(self._lasts_s + 5.0)
        world.oracle.judge()
        return world.complaints

    def _delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        at = self.world.events[frame.sequence - 1].at
        self.delays.append(EventDelay(at, self.world.now - at, frame.delay_us / 1e6))
