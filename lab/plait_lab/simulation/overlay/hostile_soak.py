"""A hostile broker on the better path under continuous traffic: the delay of each event (SCORECARD S3).

Short histories that end with a long quiet period do not show a broker that only delays, or that gains the path
repeatedly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from plait_broker.overlay import ReceivedEvent
from plait_core.filters import parse

from .hostile import HostileNode, HostileWorld
from .overlay_nodes import Node, Pipe

BEGIN_S: Final = 8.0
EVERY_S: Final = 0.1
QUIET_S: Final = 20.0

Links = Mapping[tuple[int, int], float]
"""Seconds that a frame takes between two brokers."""

DIAMOND: Final[Links] = {(0, 1): 0.001, (1, 3): 0.001, (0, 2): 0.010, (2, 3): 0.010}
"""From 0 to 3 through 1, or through 2."""

LADDER: Final[Links] = {
    (0, 1): 0.001,
    (1, 2): 0.001,
    (2, 5): 0.001,
    (0, 3): 0.010,
    (3, 4): 0.010,
    (4, 5): 0.010,
    (1, 3): 0.010,
    (2, 4): 0.010,
}
"""From 0 to 5 on either side, with rungs in between."""

FORK: Final[Links] = {(0, 1): 0.001, (1, 3): 0.020, (1, 2): 0.006, (2, 3): 0.005}
"""From 0 to 3 through 1, and then through 2 or directly, which is slower. Once healed, the direct link is hardly
faster, and 1 keeps to 2."""


def beads(count: int) -> dict[tuple[int, int], float]:
    """Return a string of diamonds."""
    found: dict[tuple[int, int], float] = {}
    for at in range(0, 3 * count, 3):
        found |= {(at, at + 1): 0.001, (at + 1, at + 3): 0.001, (at, at + 2): 0.004, (at + 2, at + 3): 0.004}
    return found


class SoakedNode(HostileNode):
    """A broker that records when an event arrived."""

    def arrived_(self, arrival: ReceivedEvent) -> None:
        super().arrived_(arrival)
        assert isinstance(self.world, HostileSoak)
        frame = arrival.frame
        late_s = self.now - self.world.said[frame.publisher, frame.sequence].at
        self.world.worst_s = max(self.world.worst_s, late_s)


class HostileSoak(HostileWorld):
    """The first broker publishes and the last one subscribes; on request both do both."""

    NODE: ClassVar[type[Node]] = SoakedNode

    def __init__(
        self, links: Links, enemy: int, attack: str, *, first_s: float = BEGIN_S, lasts_s: float = 40.0
    ) -> None:
        super().__init__(1, attack, brokers=1 + max(far for _, far in links))
        self.pipes = [
            Pipe((self.nodes[near], self.nodes[far]), delay_s, number)
            for number, ((near, far), delay_s) in enumerate(links.items())
        ]
        self.enemy = self.nodes[enemy]
        self.worst_s = 0.0
        """The longest delay of an event."""
        self._first_s = first_s
        self._lasts_s = lasts_s

    def play(self, *, both: bool = False) -> list[str]:
        ends = (self.nodes[0], self.nodes[-1])
        for node in self.nodes:
            self.timeline.at(0.0, node.start)
        self.timeline.run(BEGIN_S / 2)
        for publisher, subscriber in (ends, ends[::-1])[: 1 + both]:
            publisher.advertise(parse("x >= 0"))
            subscriber.subscribe(parse("x >= 0"))
        for event in range(round(self._lasts_s / EVERY_S)):
            for publisher in ends[: 1 + both]:
                self.timeline.at(self._first_s + event * EVERY_S, lambda node=publisher: node.publish({"x": 1}))  # type: ignore[misc]
        self.timeline.run(self._first_s + self._lasts_s + QUIET_S)
        self.judge()
        return self.complaints
