"""Long outages, of all brokers at once or in turn: confirmed events reach every durable subscription (SCORECARD F1,
F2).

This holds even if each broker that knew of an event has died since. All brokers have logs and some have durable
subscriptions, made before the outages. Publishers continue at brokers that run, from the first moment of each
incarnation, and the oracle knows the events that were confirmed.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import ClassVar, Final

from plait_broker.overlay import ReceivedEvent
from plait_core.wire import EventFrame

from ..overlay_nodes import Node
from ..overlays import OverlayWorld

CALM_S: Final = 8.0
LASTS_S: Final = 90.0
AWAY_S: Final = 45.0
"""The longest outage: twice as long as brokers remember one without durable subscriptions."""

KINDS: Final = ("crash", "crash", "crashes", "power", "cut", "silence", "partition")


class LoggingNode(Node):
    """A broker with a log, which records received events and those confirmed to its publishers."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        super().__init__(number, world)
        self.log = number + 1
        self.logged: dict[tuple[int, int], None] = {}
        self.confirmed: dict[tuple[int, int], EventFrame] = {}
        self.awaited: dict[tuple[int, int], tuple[EventFrame, set[tuple[int, int]]]] = {}
        self.events_of: dict[tuple[int, int], tuple[int, int]] = {}

    def start(self) -> None:
        self.awaited.clear()
        self.events_of.clear()
        super().start()

    def arrived_(self, arrival: ReceivedEvent) -> None:
        self.logged[arrival.frame.publisher, arrival.frame.sequence] = None
        super().arrived_(arrival)

    def published(self, frame: EventFrame, parties: list[tuple[int, int]]) -> None:
        id = (frame.publisher, frame.sequence)
        if not parties:
            self.confirmed[id] = frame
            return
        self.awaited[id] = (frame, set(parties))
        self.events_of |= dict.fromkeys(parties, id)

    def taken(self, home: int, position: int) -> None:
        id = self.events_of.pop((home, position), None)
        if id in self.awaited:
            frame, parties = self.awaited[id]
            parties.discard((home, position))
            if not parties:
                del self.awaited[id]
                self.confirmed[id] = frame

    def lost(self, home: int, position: int, frame: EventFrame, delay_us: int, reason: str) -> None:
        super().lost(home, position, frame, delay_us, reason)
        id, other, said = (frame.publisher, frame.sequence), self.world.ids[home], self.world.said
        self.awaited.pop(id, None)
        said[id] = replace(said[id], owed=tuple(one for one in said[id].owed if one[0] is not other))


class Outages(OverlayWorld):
    """A history of outages."""

    NODE: ClassVar[type[Node]] = LoggingNode
    FORGETS = True

    def __init__(self, seed: int, *, faults: bool = True, brokers: int | None = None) -> None:
        super().__init__(seed, faults=faults, brokers=brokers or Random(f"outages/{seed}").choice((3, 4, 5, 6)))
        self.away_s = 0.0
        """Seconds that brokers were down, in total."""
        self.due = 0
        """Confirmed events that durable subscriptions had to receive from other brokers."""

    def play(self) -> list[str]:
        rng, timeline = self.rng, self.timeline
        for node in self.nodes:
            self.furnish(node, offers_min=1, wants_min=1)
            if node.number:
                first, *others = node.wants
                node.durable |= {first, *(number for number in others if rng.random() < 0.5)}
            timeline.at(rng.uniform(0, 0.2), node.start)
        timeline.run(CALM_S)
        for _ in range(300):
            at = CALM_S + rng.uniform(0, LASTS_S)
            timeline.at(at, self._publish)
        for _ in range(rng.randint(3, 8) if self.faults else 0):
            kind = rng.choice(KINDS)
            timeline.at(CALM_S + rng.uniform(0, LASTS_S), lambda kind=kind: self._harm(kind))  # type: ignore[misc]
        timeline.run(CALM_S + LASTS_S)
        return self.conclude()

    def judge(self) -> None:
        super().judge()
        for root in self.nodes:
            assert isinstance(root, LoggingNode)
            for id, frame in root.confirmed.items():
                for node in self.nodes:
                    assert isinstance(node, LoggingNode)
                    filters = [node.wants[number] for number in node.durable]
                    if node is root or not any(filter.matches(frame.attributes()) for filter in filters):
                        continue
                    self.due += 1
                    if id not in node.logged:
                        at = self.said[id].at
                        self.complain(
                            f"I1: {id} of {root.name}, published at {at:.3f}, is confirmed; not at {node.name}"
                        )

    def _publish(self) -> None:
        alive = [node for node in self.nodes if node.overlay is not None]
        if alive:
            self.rng.choice(alive).publish({"x": self.rng.randrange(100), "y": self.rng.randrange(10)})

    def _harm(self, kind: str) -> None:
        counts = {"crash": 1, "crashes": 2, "power": len(self.nodes)}
        if kind not in counts:
            self.fault(kind)
            return
        for node in self.rng.sample(self.nodes, counts[kind]):
            if node.overlay is not None:
                node.stop()
                away_s = self.rng.uniform(0.1, AWAY_S)
                self.away_s += away_s
                self.timeline.after(away_s, node.start_again)
