"""A given graph of production brokers, in which nothing happens unless requested: for tests of single situations and
for measurements.

    graph = GivenGraph({(0, 1): 0.002, (1, 2): 0.010})    # delay in seconds by link
    graph.start()
    graph.advertise(0, "x >= 0")
    graph.subscribe(2, "x > 1")
    graph.run(1.0)
    graph.publish(0, {"x": 2})
    graph.run(1.0)
    assert [one.path for one in graph.receptions(2)] == [(0, 1, 2)]

Each broker has at most one client, which does what is requested at its broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plait_broker import BrokerSettings
from plait_core import Attributes
from plait_core.events import EventId
from plait_core.wire import Deliver, Delivery, Forward, Frame
from plait_core.wire.frame_types.envelope_frames import END_TO_END, SIGNED, EndToEnd, Signed, frame_name

from ..broker_node import OverlayNode
from ..frame_client import FrameAdvertisement, FrameClient, FrameSubscription, PublishedEvent
from ..network import Link
from ..world import SETTINGS, World, WorldTerms

LINKED_S: Final = 12.0
"""Longest time until all brokers are linked."""

SETTLED_S: Final = 6.0
"""Time after which linked brokers have measured their links, and their maps agree."""


@dataclass(frozen=True, slots=True)
class MeasuredReception:
    """The reception of an event by a subscriber."""

    id: EventId
    at: float
    delay_s: float
    """From the publisher's client to the subscriber's client."""
    path: tuple[int, ...]
    """The numbers of the brokers, from the publisher's to the subscriber's."""


class GivenGraph:
    """Brokers 0, 1, ... with given links and delays."""

    def __init__(
        self, delays_s: Mapping[tuple[int, int], float], *, seed: int = 0, settings: BrokerSettings = SETTINGS
    ) -> None:
        brokers = 1 + max(max(ends) for ends in delays_s)
        self.world = World(f"given/{seed}", brokers=brokers, terms=WorldTerms(settings, logs=lambda number: False))
        self.links = [self.world.link(near, far, delay_s) for (near, far), delay_s in delays_s.items()]
        self.copies = 0
        """Copies of events on all links."""
        self.frames: Counter[tuple[int, int, str]] = Counter()
        """Documents and messages by link, by the broker that sent, and by kind, if they are counted."""
        self._clients: dict[int, FrameClient] = {}
        self._published: dict[EventId, PublishedEvent] = {}
        self._receptions: dict[int, list[MeasuredReception]] = {number: [] for number in range(brokers)}
        self._numbers: dict[int, int] = {}
        """The numbers of brokers by their ids."""
        self.world.on_published.append(self._see_published)
        self.world.on_delivered.append(self._see_delivered)
        self.world.wire.on_copy(self._see_copy)

    @property
    def now(self) -> float:
        """The present time."""
        return self.world.now

    @property
    def nodes(self) -> list[OverlayNode]:
        """The brokers."""
        return self.world.nodes

    @property
    def events(self) -> list[PublishedEvent]:
        """All published events."""
        return self.world.events

    def start(self) -> None:
        """Start all brokers, and wait until they are linked and the overlay has settled."""
        self.world.start()
        linked = self.world.run_until(lambda: sum(node.links for node in self.nodes) == 2 * len(self.links), LINKED_S)
        assert linked, "brokers do not link to each other"
        self.run(SETTLED_S)

    def run(self, for_s: float) -> None:
        """Let time pass."""
        self.world.run(for_s)

    def client(self, number: int) -> FrameClient:
        """Return the client of a broker."""
        if number not in self._clients:
            self._clients[number] = self.world.client(number)
        return self._clients[number]

    def advertise(self, number: int, text: str) -> FrameAdvertisement:
        """Advertise at a broker."""
        return self.client(number).advertise(text)

    def subscribe(self, number: int, text: str) -> FrameSubscription:
        """Subscribe at a broker."""
        return self.client(number).subscribe(text)

    def publish(self, number: int, attributes: Attributes) -> PublishedEvent:
        """Publish at a broker."""
        event = self.client(number).publish(attributes)
        assert event is not None, "its client is connected"
        return event

    def receptions(self, number: int) -> list[MeasuredReception]:
        """Return the events that the client of a broker has received."""
        return self._receptions[number]

    def slow(self, link: Link, delay_s: float) -> None:
        """Give a link another delay."""
        link.delay_s = delay_s
        self.world.truth.change()

    def cut(self, link: Link) -> None:
        """Cut a link: its ends notice at once."""
        self.world.network.cut(link)
        self.world.truth.change()

    def count_frames(self) -> None:
        """Count documents and messages from now on."""
        self.world.wire.on_frame(SIGNED, self._count)
        self.world.wire.on_frame(END_TO_END, self._count)

    def number(self, broker: int) -> int:
        """Return the number of the broker with this id."""
        if broker not in self._numbers:
            self._numbers.update((node.overlay.me, node.number) for node in self.nodes)
        return self._numbers[broker]

    # --- observers ----------------------------------------------------------------------------------------------------

    def _see_published(self, event: PublishedEvent) -> None:
        self._published[event.id] = event

    def _see_delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        delay_s = self.now - self._published[frame.id].at
        path = tuple(map(self.number, frame.path))
        here = subscription.client.node.number
        self._receptions[here].append(MeasuredReception(frame.id, self.now, delay_s, path))

    def _see_copy(self, link: Link, sender: OverlayNode, copy: Forward) -> None:
        self.copies += 1

    def _count(self, link: Link, sender: OverlayNode, frame: Frame) -> None:
        assert isinstance(frame, Signed | EndToEnd)
        self.frames[link.number, sender.number, frame_name(frame)] += 1
