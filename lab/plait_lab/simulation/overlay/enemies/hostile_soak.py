"""A hostile broker on the better path under continuous traffic: the delay of each event (SCORECARD S3).

Short histories that end with a long quiet period do not show a broker that only delays, or that gains the path
repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from plait_core.events import EventId
from plait_core.matching import Index, new_index
from plait_core.wire import Deliver, Delivery

from ..frame_client import FrameClient, FrameSubscription, PublishedEvent
from ..world import World, WorldTerms
from .attacks import Attacker
from .honest_oracle import HonestOracle

BEGIN_S: Final = 8.0
EVERY_S: Final = 0.1
QUIET_S: Final = 20.0

EVERYTHING: Final = "x >= 0"

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
"""From 0 to 3 through 1, and then through 2 or directly, which is slower. Once the direct link gets faster, it is
hardly faster, and 1 keeps to 2."""


def beads(count: int) -> dict[tuple[int, int], float]:
    """Return a string of diamonds."""
    found: dict[tuple[int, int], float] = {}
    for at in range(0, 3 * count, 3):
        found |= {(at, at + 1): 0.001, (at + 1, at + 3): 0.001, (at, at + 2): 0.004, (at + 2, at + 3): 0.004}
    return found


class HostileSoak:
    """The first broker publishes and the last one subscribes; on request both do both."""

    def __init__(
        self,
        links: Links,
        hostile: int,
        attack: str | None,
        *,
        first_s: float = BEGIN_S,
        lasts_s: float = 40.0,
        index: Callable[[], Index] = new_index,
    ) -> None:
        """The broker of the number `hostile` attacks; without an attack it is honest."""
        count = 1 + max(far for _, far in links)
        self.world = World("soak", brokers=count, terms=WorldTerms(signed=True, logs=lambda _: False, index=index))
        for (near, far), delay_s in links.items():
            self.world.link(near, far, delay_s)
        node = self.world.nodes[hostile]
        self.attacker = None if attack is None else Attacker(self.world, node, attack)
        self.oracle = HonestOracle(self.world, node)
        self.world.on_published.append(self._see_published)
        self.world.on_delivered.append(self._see_delivered)
        self.worst_s = 0.0
        """The longest delay of an event."""
        self._first_s = first_s
        self._lasts_s = lasts_s
        self._at: dict[EventId, float] = {}
        """When each event was published."""

    def play(self, *, both: bool = False) -> list[str]:
        """Play it, and return the complaints."""
        world = self.world
        world.start()
        ends = (world.client(0), world.client(len(world.nodes) - 1))
        world.run(BEGIN_S / 2)
        for publisher, subscriber in (ends, ends[::-1])[: 1 + both]:
            publisher.advertise(EVERYTHING)
            subscriber.subscribe(EVERYTHING)
        for event in range(round(self._lasts_s / EVERY_S)):
            for publisher in ends[: 1 + both]:
                world.timeline.at(self._first_s + event * EVERY_S, lambda client=publisher: _publish(client))  # type: ignore[misc]
        world.timeline.run(self._first_s + self._lasts_s + QUIET_S)
        self.oracle.judge()
        return world.complaints

    def _see_published(self, event: PublishedEvent) -> None:
        self._at[event.id] = event.at

    def _see_delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        if frame.id in self._at:  # else the hostile broker has made it up
            self.worst_s = max(self.worst_s, self.world.now - self._at[frame.id])


def _publish(client: FrameClient) -> None:
    if client.may_publish({"x": 1}):
        client.publish({"x": 1})
