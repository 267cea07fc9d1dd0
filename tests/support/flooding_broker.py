"""The flooding of one broker, with real links: the frames that it sends and the documents that it learns."""

from __future__ import annotations

from collections import Counter

from plait_broker.overlay.outputs import Output, SendFrame
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology.flooding import Flooding
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.overlay.transport.neighbour_sender import NeighbourSender
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.overlay_frames import Document


class FloodingBroker:
    """One broker that floods. The id of a link is the id of the neighbour."""

    def __init__(self, me: int, *neighbours: int, auth: MessageAuth | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.neighbours: dict[int, Neighbour] = {}
        self.outputs: list[Output] = []
        sender = NeighbourSender(self.neighbours, self.outputs, self.counts)
        self.flooding = Flooding(me, sender, auth or MessageAuth(me, None), self.counts)
        for neighbour in neighbours:
            self.link_up(neighbour)
        self.outputs.clear()

    def link_up(self, neighbour: int) -> None:
        """Add a link."""
        self.neighbours[neighbour] = Neighbour(neighbour, f"b{neighbour}", neighbour, 0.0)
        self.flooding.link_up(neighbour)

    def link_down(self, neighbour: int) -> None:
        """Remove a link."""
        del self.neighbours[neighbour]
        self.flooding.link_down(neighbour)

    @property
    def sent(self) -> list[tuple[int, ControlFrame]]:
        """The frames sent since `clear`, each with its neighbour."""
        return [(output.link, output.frame) for output in self.outputs if isinstance(output, SendFrame)]

    def clear(self) -> None:
        """Forget the sent frames."""
        self.outputs.clear()

    def take_sent(self) -> list[tuple[int, ControlFrame]]:
        """Return the frames sent since the last call."""
        sent = self.sent
        self.clear()
        return sent

    @property
    def learned(self) -> list[Document]:
        """All documents learned so far, those of this broker included."""
        return list(self.flooding.learned)
