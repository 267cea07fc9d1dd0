"""One publisher and a subscriber at every broker, while links are cut: every event arrives once, and in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import networkx as nx

from plait_core.ids import new_id
from plait_core.wire import Confirm, Deliver, Delivery

from ...simulation.overlay.frame_client import FrameClient, FrameSubscription, PublishedEvent
from .many_brokers import READ_S, ManyBrokers, memory_mb

RATE: Final = 1000
"""Events/s of virtual time."""
UNCONFIRMED_MAX: Final = 1000
"""Events that the publisher has not got a receipt for, at most."""
JOIN_S: Final = 60.0
END_S: Final = 120.0
"""Longest time until the last event has arrived everywhere."""


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The fate of the events."""

    brokers: int
    links: int
    cut_links: int
    events: int
    deliveries: int
    lost: int
    repeated: int
    disordered: int
    unconfirmed: int
    virtual_s: float
    """From the first event to the last delivery."""
    cpu_s: float
    memory_mb: float

    @property
    def wrong(self) -> int:
        """Events that were lost, repeated, out of order or not confirmed, at all subscribers."""
        return self.lost + self.repeated + self.disordered + self.unconfirmed


class DeliveryCount:
    """Counts what arrives at each subscription, as the observer of its clients."""

    def __init__(self, events: int) -> None:
        self.deliveries = 0
        self.repeated = 0
        self.disordered = 0
        self.unconfirmed = 0
        self.complaints: list[str] = []
        self._events = events
        self._received: dict[FrameSubscription, bytearray] = {}
        self._last: dict[FrameSubscription, int] = {}

    def follow(self, subscription: FrameSubscription) -> None:
        """Expect all events at a subscription."""
        self._received[subscription] = bytearray(self._events + 1)
        self._last[subscription] = 0

    @property
    def lost(self) -> int:
        """Events that have not arrived, at all subscriptions."""
        return sum(received.count(0, 1) for received in self._received.values())

    def published(self, event: PublishedEvent) -> None:
        """Note an event."""
        self.unconfirmed += 1

    def confirmed(self, event: PublishedEvent) -> None:
        """Note a receipt."""
        self.unconfirmed -= 1

    def delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        """Note a delivery."""
        sequence = frame.id[1]
        received = self._received[subscription]
        self.deliveries += 1
        if received[sequence]:
            self.repeated += 1
        elif sequence < self._last[subscription]:
            self.disordered += 1
        received[sequence] = 1
        self._last[subscription] = max(sequence, self._last[subscription])

    def complain(self, text: str) -> None:
        """Note a failed request."""
        self.complaints.append(text)


def measure_deliveries(
    seed: int, brokers: int, events: int, progress: Callable[[str], None] = lambda text: None
) -> Deliveries:
    """Publish events at one broker, with subscribers at all, and cut one link in a hundred meanwhile."""
    many = ManyBrokers(seed, brokers)
    world, count = many.world, DeliveryCount(events)
    world.start()
    joined = world.run_until(lambda: many.converged, JOIN_S)
    assert joined, "the overlay has not converged"
    progress(f"{brokers:,} brokers: converged at {world.now:.1f} s, {many.cpu_s:.0f} s of processor time")

    def client(place: int) -> FrameClient:
        name = f"client{place}"
        return FrameClient(many.nodes[place], world.network, many.rng, count, name, new_id(many.rng))

    clients = [client(place) for place in range(brokers)]
    publisher = client(0)
    publisher.advertise("x >= 0")
    for subscriber in clients:
        count.follow(subscriber.subscribe("x >= 0"))
    ready = world.run_until(lambda: publisher.ready and all(one.ready for one in clients), JOIN_S)
    assert ready, f"clients are not ready: {count.complaints[:3]}"
    cuts = _draw_cuts(many)
    begun = world.now
    _publish(many, publisher, cuts, count, events, progress)
    world.run_until(lambda: count.deliveries >= events * brokers and not count.unconfirmed, END_S)
    ended = world.now
    world.run(1.0)  # for repetitions
    assert not count.complaints, count.complaints[:3]
    return Deliveries(
        *(brokers, len(many.links), len(cuts), events, count.deliveries),
        *(count.lost, count.repeated, count.disordered, count.unconfirmed),
        *(ended - begun, many.cpu_s, memory_mb()),
    )


def _draw_cuts(many: ManyBrokers) -> list[int]:
    """Draw one link in a hundred, at least one, so that the others connect all brokers. Return their places."""
    graph = nx.Graph([(link.ends[0].number, link.ends[1].number) for link in many.links])
    places = list(range(len(many.links)))
    many.rng.shuffle(places)
    cuts: list[int] = []
    for place in places:
        if len(cuts) == max(1, len(places) // 100):
            break
        ends = [end.number for end in many.links[place].ends]
        graph.remove_edge(*ends)
        if nx.has_path(graph, *ends):
            cuts.append(place)
        else:
            graph.add_edge(*ends)
    return cuts


def _publish(
    many: ManyBrokers,
    publisher: FrameClient,
    cuts: list[int],
    count: DeliveryCount,
    events: int,
    progress: Callable[[str], None],
) -> None:
    """Publish the events, and cut the links at equal intervals meanwhile."""
    links, sent, cut = many.links, 0, 0
    step_s = 2 * READ_S
    while sent < events:
        room = UNCONFIRMED_MAX - count.unconfirmed
        for _ in range(min(round(RATE * step_s), events - sent, room)):
            publisher.publish({"x": sent}, Confirm.BROKER)
            sent += 1
            if sent % 1000 == 0:
                progress(f"{sent:,} events published, {count.deliveries:,} deliveries, {many.cpu_s:.0f} s")
        while cut < len(cuts) and sent * (len(cuts) + 1) >= events * (cut + 1):
            many.cut(links[cuts[cut]])
            cut += 1
        many.world.run(step_s)
