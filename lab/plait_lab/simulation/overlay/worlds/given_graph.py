"""A simulated overlay on a given graph: the production objects on virtual time.

`simulation.overlay.overlays` plays histories to find faults. This one sets up a situation and measures the frames of
each type on each link, and the delays of events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from plait_broker.overlay import OverlaySettings, ReceivedEvent
from plait_core.filters import parse
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import frame_name

from ..overlay_nodes import Node, Pipe
from ..overlays import SETTINGS, OverlayWorld

SETTLED_S: Final = 8.0
"""Seconds after which all links are measured, the maps agree and interest is known."""


@dataclass(frozen=True, slots=True)
class MeasuredReception:
    """The reception of an event at a destination."""

    id: tuple[int, int]
    at: float
    delay_s: float
    path: tuple[int, ...]
    """The numbers of the nodes, from the publisher's broker to the one before this."""


class MeasuredNode(Node):
    """A broker that records the time and path of each event."""

    def __init__(self, number: int, world: OverlayWorld) -> None:
        super().__init__(number, world)
        self.receptions: list[MeasuredReception] = []

    def send(self, link: int, frame: ControlFrame) -> None:
        assert isinstance(self.world, GivenWorld)
        self.world.frames[link, self.number, frame_name(frame)] += 1
        super().send(link, frame)

    def arrived_(self, arrival: ReceivedEvent) -> None:
        super().arrived_(arrival)
        id = (arrival.frame.publisher, arrival.frame.sequence)
        path = tuple(self.world.ids[broker].number for broker in arrival.path)
        self.receptions.append(MeasuredReception(id, self.now, self.now - self.world.said[id].at, path))


class GivenWorld(OverlayWorld):
    """Brokers 0, 1, ... with given links and delays. Nothing happens unless requested."""

    NODE: ClassVar[type[Node]] = MeasuredNode

    def __init__(
        self,
        delays_s: Mapping[tuple[int, int], float],
        *,
        seed: int = 0,
        settings: OverlaySettings = SETTINGS,
    ) -> None:
        brokers = 1 + max(max(ends) for ends in delays_s)
        super().__init__(seed, faults=False, brokers=brokers, settings=settings)
        self.pipes = [
            Pipe((self.nodes[near], self.nodes[far]), delay_s, number)
            for number, ((near, far), delay_s) in enumerate(delays_s.items())
        ]
        self.frames: Counter[tuple[int, int, str]] = Counter()
        """By link, by the end that sent, and by the name of the frame or of what its envelope carries."""

    @property
    def now(self) -> float:
        return self.timeline.now

    def start(self) -> None:
        """Start all brokers and let the overlay settle."""
        for node in self.nodes:
            self.timeline.at(0.0, node.start)
        self.run(SETTLED_S)

    def run(self, for_s: float) -> None:
        """Let time pass."""
        self.timeline.run(self.now + for_s)

    def advertise(self, number: int, text: str) -> None:
        """Advertise at a broker."""
        self.nodes[number].advertise(parse(text))

    def subscribe(self, number: int, text: str) -> None:
        """Subscribe at a broker."""
        self.nodes[number].subscribe(parse(text))

    def receptions(self, number: int) -> list[MeasuredReception]:
        """Return the events received by a broker."""
        node = self.nodes[number]
        assert isinstance(node, MeasuredNode)
        return node.receptions
