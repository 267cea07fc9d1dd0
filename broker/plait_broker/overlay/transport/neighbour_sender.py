"""Control frames for neighbours: those of this broker, and those that it relays for others."""

from __future__ import annotations

from collections import Counter

from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.envelope_frames import frame_name

from ..outputs import Output, RelayFrame, SendFrame
from ..topology.neighbours import Neighbour


class NeighbourSender:
    """Turns frames for neighbours into outputs, and counts them by type."""

    def __init__(self, neighbours: dict[int, Neighbour], outputs: list[Output], counts: Counter[str]) -> None:
        self.neighbours = neighbours
        self.outputs = outputs
        self.counts = counts

    def send(self, broker: int, frame: ControlFrame) -> None:
        """Send a neighbour a frame of this broker."""
        self.counts[frame_name(frame)] += 1
        self.outputs.append(SendFrame(self.neighbours[broker].link, frame))

    def relay(self, broker: int, frame: ControlFrame, now: float) -> None:
        """Relay another broker's frame unless the rate limit refuses it: its source retransmits it."""
        neighbour = self.neighbours[broker]
        if neighbour.passed.take(now):
            self.counts[frame_name(frame)] += 1
            self.outputs.append(RelayFrame(neighbour.link, frame))
        else:
            self.counts["relays_refused"] += 1
