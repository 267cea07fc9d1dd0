"""The oracle of custody: a broker that acks an event for a durable subscription has it in its log.

The publisher's broker forgets an event once it is acked. So at the moment of the ack the event must be on the disk of
the destination, where it survives `kill -9`. The oracle reads acks on the wire when their brokers write them, and looks
into the simulated disk. Events without a durable subscription are delivered at once, which `oracle.py` checks.
"""

from __future__ import annotations

from plait_core.events import EventId
from plait_core.wire import Forward, Frame
from plait_core.wire.frame_types.envelope_frames import END_TO_END, SOURCE_ROUTED, EndToEnd, SourceRouted, read_message
from plait_core.wire.frame_types.overlay_frames import StreamAck, StreamSkip

from .broker_node import OverlayNode
from .frame_client import FrameSubscription, PublishedEvent
from .network import Link
from .wire_tap import decode
from .world import World


class CustodyOracle:
    """Checks all acks and all confirmations of one world."""

    def __init__(self, world: World) -> None:
        self.acks = 0
        """Acks of events that a log must have."""
        self._world = world
        self._durables: dict[EventId, list[FrameSubscription]] = {}
        """By event, the durable subscriptions that match it. None has charge of one that may expire on its way."""
        self._unacked: dict[tuple[int, int], dict[int, EventId]] = {}
        """By publisher's broker and destination, the events that have been sent and not acked, by position."""
        world.on_published.append(self._published)
        world.on_confirmed.append(self._confirmed)
        world.wire.on_copy(self._see_copy)
        world.wire.on_frame(END_TO_END, self._see_message)
        world.wire.on_frame(SOURCE_ROUTED, self._see_source_routed)

    def _published(self, event: PublishedEvent) -> None:
        self._durables[event.id] = [
            one
            for client in self._world.clients
            for one in client.subscriptions.values()
            if one.durable and one.installed and one.filter.matches(event.attributes) and not event.lifetime_us
        ]

    def _confirmed(self, event: PublishedEvent) -> None:
        for node in self._without(event.id, self._world.nodes):
            self._world.complain(f"I8: {event.id} is confirmed, and the log of {node.name} does not have it")

    def _see_copy(self, link: Link, sender: OverlayNode, copy: Forward) -> None:
        root = copy.path[0]
        if root == sender.overlay.me:  # after it has given an event up, copies of it may still be under way
            for broker, position, _ in copy.destinations:
                self._unacked.setdefault((root, broker), {})[position] = copy.id

    def _see_source_routed(self, link: Link, sender: OverlayNode, frame: Frame) -> None:
        assert isinstance(frame, SourceRouted)
        (inner,) = decode(frame.frame)
        if isinstance(inner, EndToEnd):
            self._see_message(link, sender, inner)

    def _see_message(self, link: Link, sender: OverlayNode, frame: Frame) -> None:
        assert isinstance(frame, EndToEnd)
        if frame.source != sender.overlay.me:
            return
        message = read_message(frame, 0)
        if isinstance(message, StreamSkip):  # what it gives up is nobody's charge any more
            self._take(message.source, message.to, message.up_to)
        elif isinstance(message, StreamAck):
            for id in self._take(message.to, message.source, message.up_to):
                self.acks += any(one.client.node is sender for one in self._durables[id])
                for node in self._without(id, [sender]):
                    self._world.complain(f"custody: {node.name} acks {id}, which its log does not have")

    def _take(self, root: int, destination: int, up_to: int) -> list[EventId]:
        """Return the events up to a position that were not acked before."""
        unacked = self._unacked.get((root, destination), {})
        return [unacked.pop(position) for position in sorted(unacked) if position <= up_to]

    def _without(self, id: EventId, nodes: list[OverlayNode]) -> list[OverlayNode]:
        """Return those of the brokers that must have an event in their logs and have not."""
        homes = {one.client.node.number for one in self._durables[id] if not one.ended}
        return [node for node in nodes if node.number in homes and (node.disk is None or not node.disk.holds(id))]
