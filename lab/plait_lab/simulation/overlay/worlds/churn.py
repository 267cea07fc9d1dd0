"""Topology churn (SCORECARD F14): every five seconds a broker leaves or joins, while events and interest go on.

A leaving broker is killed; a joining one is new or returns. At the end all are present. Departures may partition the
others for longer than they remember each other; only then are waiting events given up, with a reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from plait_core.wire import EventFrame

from ..overlay_nodes import Node
from ..overlays import OverlayWorld

EVERY_S: Final = 5.0
TURNS: Final = 24
"""Turns in two minutes: six times as long as brokers remember a departed one."""
EVENTS: Final = 250
ALIVE_MIN: Final = 2
NEWS_S: Final = 3.0
"""Seconds until all brokers know a joined one and the paths through it."""


class ReachabilityNode(Node):
    """A broker that complains when it gives up an event for a broker that it can reach."""

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        super().lost(home, position, frame, delay_us, reason)
        world, other = self.world, self.world.ids[home]
        assert isinstance(world, Churn)
        settled = self.now - world.joined_at > NEWS_S
        if settled and world.lives[home] == other.lives and other in world.truth.reached(self):
            world.complain(f"I1: {self.name} gives up an event for {other.name}, which it can reach: {reason}")
        id = (frame.publisher, frame.sequence)
        said = world.said[id]
        world.said[id] = replace(said, owed=tuple(one for one in said.owed if one[0] is not other))


class Churn(OverlayWorld):
    """A history of churn."""

    NODE: ClassVar[type[Node]] = ReachabilityNode
    FORGETS = True

    def __init__(self, seed: int, *, brokers: int | None = None) -> None:
        super().__init__(seed, brokers=brokers)
        self.turns = 0
        """Brokers that left or joined."""
        self.joined_at = 0.0
        """Time of the last join."""

    def play(self) -> list[str]:
        rng, timeline = self.rng, self.timeline
        for node in self.nodes:
            self.furnish(node, offers_min=1)
            if rng.random() < 0.8 or node.number < ALIVE_MIN:  # the others join later
                timeline.at(rng.uniform(0, 0.2), node.start)
        timeline.run(8.0)
        lasts = TURNS * EVERY_S
        for turn in range(TURNS):
            timeline.at(8.0 + turn * EVERY_S, self._turn)
        for _ in range(EVENTS):
            timeline.at(8.0 + rng.uniform(0, lasts), self._publish)
        for _ in range(rng.randint(0, 30)):
            timeline.at(8.0 + rng.uniform(0, lasts), self._change)
        timeline.run(8.0 + lasts)
        self.joined_at = timeline.now
        return self.conclude()

    def _publish(self) -> None:
        self.rng.choice(self.nodes).publish({"x": self.rng.randrange(100), "y": self.rng.randrange(10)})

    def _turn(self) -> None:
        node = self.rng.choice(self.nodes)
        alive = sum(one.overlay is not None for one in self.nodes)
        if node.overlay is None:
            node.start()
            self.joined_at = self.timeline.now
        elif alive > ALIVE_MIN:
            node.stop()
        else:
            return
        self.turns += 1
