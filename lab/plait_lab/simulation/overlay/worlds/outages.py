"""Long outages, of all brokers at once or in turn: confirmed events reach every durable subscription (SCORECARD F1,
F2).

This holds even if each broker that knew of an event has died since. All brokers have logs and some have durable
subscriptions, made before the outages. Publishers continue at brokers that run, from the first moment of each life.
"""

from __future__ import annotations

from random import Random
from typing import Final

from plait_core.wire import Confirm

from ..custody_oracle import CustodyOracle
from ..frame_client import FrameSubscription, PublishedEvent
from ..random_histories import LATE_S, SIGNED, RandomHistory, draw_event, draw_filter
from ..world import World, WorldTerms

LASTS_S: Final = 90.0
AWAY_S: Final = 45.0
"""The longest outage: twice as long as brokers remember one without durable subscriptions."""

EVENTS: Final = 300
SLOW_DISKS_S: Final = (0.0, 0.1)
"""Added to each write: brokers die with events that they have received and not stored."""

KINDS: Final = ("crash", "crash", "crashes", "power", "cut", "silence", "partition")


class Outages:
    """A history of outages."""

    def __init__(
        self, seed: int, *, faults: bool = True, brokers: int | None = None, terms: WorldTerms | None = None
    ) -> None:
        self.seed = seed
        self.away_s = 0.0
        """Seconds that brokers were down, in total."""
        self.rng = Random(f"outages/{seed}")
        self._faults = faults
        terms = terms or WorldTerms(signed=seed % SIGNED == 1, logs=lambda number: True, forgets=True)
        self.history = RandomHistory(f"outages/{seed}", brokers=brokers or self.rng.choice((3, 4, 5, 6)), terms=terms)
        self.history.build()
        self.custody = CustodyOracle(self.world)
        self.world.on_published.append(self._published)
        self._durable: list[tuple[PublishedEvent, list[FrameSubscription]]] = []
        """Events, with the durable subscriptions that must get them once they are confirmed."""

    @property
    def world(self) -> World:
        """The world that it happens in."""
        return self.history.world

    @property
    def due(self) -> int:
        """Number of confirmed events that durable subscriptions have to receive from other brokers."""
        return sum(
            one.client.node is not event.client.node
            for event, durables in self._durable
            if event.confirmed
            for one in durables
        )

    @property
    def missing(self) -> list[tuple[PublishedEvent, FrameSubscription]]:
        """Confirmed events that durable subscriptions have not received."""
        return [
            (event, one)
            for event, durables in self._durable
            if event.confirmed
            for one in durables
            if event.id not in one.received
        ]

    def play(self) -> list[str]:
        """Play it, and return the complaints."""
        rng, world = self.rng, self.world
        for node in world.nodes:
            world.timeline.at(rng.uniform(0, 0.2), node.start)
            if node.disk is not None:
                node.disk.terms.slow_s = rng.choice(SLOW_DISKS_S)
        self.history.add_clients(advertisements_min=1, subscriptions_min=1)
        for client in world.clients:
            if client.node.number:
                client.subscribe(draw_filter(rng), durable=client.name)
        self.history.begin()
        for _ in range(EVENTS):
            world.timeline.after(rng.uniform(0, LASTS_S), self._publish)
        for _ in range(rng.randint(3, 8) if self._faults else 0):
            kind = rng.choice(KINDS)
            world.timeline.after(rng.uniform(0, LASTS_S), lambda kind=kind: self._harm(kind))  # type: ignore[misc]
        world.run(LASTS_S)
        self.history.conclude()
        self.judge()
        return world.complaints

    def judge(self) -> None:
        """Check that confirmed events have reached all durable subscriptions."""
        self.world.run_until(lambda: not self.missing, LATE_S)
        for event, one in self.missing:
            root = event.client.node.name
            self.world.complain(f"I1: {event.id} of {root}, at {event.at:.3f}, is confirmed; not at {one.client.name}")

    def _publish(self) -> None:
        attributes = draw_event(self.rng)
        ready = [client for client in self.world.clients if client.node.runs and client.may_publish(attributes)]
        if ready:
            self.rng.choice(ready).publish(attributes, Confirm.BROKER)

    def _published(self, event: PublishedEvent) -> None:
        durables = [
            one
            for client in self.world.clients
            for one in client.subscriptions.values()
            if one.durable and one.installed and one.filter.matches(event.attributes)
        ]
        self._durable.append((event, durables))

    def _harm(self, kind: str) -> None:
        counts = {"crash": 1, "crashes": 2, "power": len(self.world.nodes)}
        if kind not in counts:
            self.history.faults.cause(kind)
            return
        for node in self.rng.sample(self.world.nodes, counts[kind]):
            if node.broker is not None:
                away_s = self.rng.uniform(0.1, AWAY_S)
                self.away_s += away_s
                self.history.faults.crash(node, away_s)
