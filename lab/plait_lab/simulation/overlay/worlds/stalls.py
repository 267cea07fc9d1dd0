"""A chain of three brokers whose middle one stalls or whose link slows, with the true and the claimed delay of
events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from plait_broker.overlay import ReceivedEvent
from plait_core import Attributes
from plait_core.filters import parse
from plait_core.wire import Frame

from ..overlay_nodes import Node, Pipe
from ..overlay_oracle import judge
from ..overlays import OverlayWorld

DELAY_S: Final = 0.001
"""Delay of each link in the undisturbed state."""

BEGIN_S: Final = 10.0
"""Seconds after which all brokers know each other and their links are measured."""


@dataclass(frozen=True, slots=True)
class EventDelay:
    """An event that reached the last broker."""

    published_s: float
    true_s: float
    claimed_s: float


class StallObserver(Node):
    """A broker that records the delays that events claim."""

    def arrived_(self, arrival: ReceivedEvent) -> None:
        super().arrived_(arrival)
        assert isinstance(self.world, Stalls)
        said = self.world.said_at[arrival.frame.sequence]
        self.world.journeys.append(EventDelay(said, self.now - said, arrival.delay_us / 1e6))


class Stalls(OverlayWorld):
    """0 - 1 - 2: the first broker publishes every `every_s`, the last one subscribes to everything."""

    NODE: ClassVar[type[Node]] = StallObserver

    def __init__(self, seed: int = 0, *, every_s: float = 0.1, lasts_s: float = 20.0) -> None:
        super().__init__(seed, faults=True, brokers=3)
        self.pipes = [
            Pipe((near, far), DELAY_S, number)
            for number, (near, far) in enumerate(zip(self.nodes, self.nodes[1:], strict=False))
        ]
        self.slower_s: dict[tuple[int, int], float] = {}
        """Delay added in one direction, by link and sender."""
        self.journeys: list[EventDelay] = []
        self.said_at: dict[int, float] = {}
        """Publication time by sequence number."""
        self._every_s, self._lasts_s = every_s, lasts_s
        self._plans: list[tuple[float, Callable[[], None]]] = []

    @property
    def middle(self) -> Node:
        return self.nodes[1]

    def pause(self, at_s: float, lasts_s: float) -> None:
        """Pause the middle broker."""

        def pause() -> None:
            self.middle.paused = True

        self._plans += [(at_s, pause), (at_s + lasts_s, self.middle.resume)]

    def slow(self, at_s: float, delay_s: float, *, one_way: bool = False) -> None:
        """Slow the first link; `one_way`: only in the direction of the events."""

        def slow() -> None:
            if one_way:
                self.slower_s[0, 0] = delay_s - DELAY_S
            else:
                self.pipes[0].delay_s = delay_s

        self._plans.append((at_s, slow))

    def plan(self, at_s: float, happen: Callable[[], None]) -> None:
        """Schedule an action."""
        self._plans.append((at_s, happen))

    def carry(self, node: Node, link: int, data: bytes | Frame) -> None:
        pipe, before_s = self.pipes[link], self.pipes[link].delay_s
        pipe.delay_s += self.slower_s.get((link, node.number), 0.0)
        super().carry(node, link, data)
        pipe.delay_s = before_s

    def play(self) -> list[str]:
        first, _, last = self.nodes
        for node in self.nodes:
            self.timeline.at(0.0, node.start)
        self.timeline.run(BEGIN_S / 2)
        first.advertise(parse("x >= 0"))
        last.subscribe(parse("x >= 0"))
        self.timeline.run(BEGIN_S)
        for number in range(round(self._lasts_s / self._every_s)):
            self.timeline.at(BEGIN_S + number * self._every_s, lambda: self._publish(first, {"x": 1}))
        for at_s, happen in self._plans:
            self.timeline.at(BEGIN_S + at_s, happen)
        self.timeline.run(BEGIN_S + self._lasts_s + 5.0)
        judge(self)
        return self.complaints

    def _publish(self, node: Node, attributes: Attributes) -> None:
        self.said_at[node.sequence + 1] = self.now
        node.publish(attributes)

    @property
    def now(self) -> float:
        return self.timeline.now
