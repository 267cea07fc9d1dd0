"""The oracle of histories with a hostile broker: honest brokers that reach each other without it are unaffected.

I1 to I8 hold among them (`oracle.py`), and beyond that:

I3  Only hostile brokers are expelled. An honest broker takes no event and no trace message in the name of another
    honest broker that the other one did not send, bit by bit.
I7  At the end, honest brokers know each other, with all advertisements and all interest, and have answered their
    clients.
"""

from __future__ import annotations

from typing import Final

from plait_broker.overlay import ReceivedEvent
from plait_broker.overlay.outputs import Output
from plait_core.events import Event, EventId
from plait_core.wire import Close, CloseCode, Deliver, Delivery, encode_block
from plait_core.wire.frame_types.session_frames import Code
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceStep

from ..broker_node import OverlayNode
from ..frame_client import FrameSubscription, PublishedEvent
from ..network import Endpoint
from ..oracle import TableOracle
from ..world import World

EXPULSIONS: Final = (Code.FORGED, Code.FLOOD, CloseCode.PROTOCOL)
"""Why a broker closes the connection of one that no honest broker behaves like."""


class HonestOracle:
    """Judges a world with a hostile broker. Create it before the brokers start."""

    def __init__(self, world: World, hostile: Endpoint) -> None:
        self.expelled_by: list[OverlayNode] = []
        """Honest brokers that have expelled the hostile one, once for each time."""
        self.received = 0
        """Events of honest brokers that others have received."""
        self._world = world
        self._hostile = hostile
        self._published: dict[EventId, PublishedEvent] = {}
        self._roots: dict[int, OverlayNode] = {}
        """The honest brokers by their ids. They keep their ids: no broker fails in these histories."""
        if isinstance(hostile, OverlayNode):
            world.truth.distrusted.add(hostile)
        self.honest = [node for node in world.nodes if node is not hostile]
        for node in self.honest:
            node.on_output.append(self._see_output)
        world.wire.on_close(self._see_close)
        world.on_published.append(self._see_published)
        world.on_delivered.append(self._see_delivered)

    def judge(self) -> None:
        """Check the whole history."""
        world = self._world
        world.oracle.judge()
        tables = TableOracle(world.nodes, world.clients, world.network, world.complain)
        for node in self.honest:
            others = {other.overlay.me: other for other in world.truth.distances(node)}
            unknown = others.keys() - node.overlay.map.distances(node.overlay.me).keys()
            if unknown:
                world.complain(f"I7: {node.name} does not reach {len(unknown)} honest brokers")
            tables.judge_knowledge(node, others)
            self._judge_faults(node)
        for client in world.clients:
            if client.node is not self._hostile and not client.ready:
                world.complain(f"I7: {client.name} waits for answers")

    def _judge_faults(self, node: OverlayNode) -> None:
        assert node.broker is not None, "all brokers run"
        faults, expelled = node.broker.counters.faults, self.expelled_by.count(node)
        if sum(faults.values()) != expelled:
            self._world.complain(f"I3: {node.name} counts {dict(faults)}, and has expelled {expelled} times")

    def _root(self, broker: int) -> OverlayNode | None:
        """Return the honest broker with an id."""
        if not self._roots:
            self._roots = {node.overlay.me: node for node in self.honest if node.broker is not None}
        return self._roots.get(broker)

    # --- what happens -------------------------------------------------------------------------------------------------

    def _see_published(self, event: PublishedEvent) -> None:
        self._published[event.id] = event

    def _see_output(self, node: OverlayNode, output: Output) -> None:
        if isinstance(output, ReceivedEvent):
            self._check_event(node.name, output.root, output.frame.id, bytes(output.frame.block))
        elif isinstance(output, TraceStep | Query | QueryResult) and self._root(output.source) is not None:
            # No trace message is sent in these histories
            name = type(output).__name__
            self._world.complain(f"I3: {node.name} believes a {name} that {output.source:x} did not send")

    def _see_delivered(self, subscription: FrameSubscription, frame: Deliver, delivery: Delivery) -> None:
        node = subscription.client.node
        if node is not self._hostile:
            root = frame.path[0] if frame.path else node.overlay.me
            self._check_event(subscription.client.name, root, frame.id, bytes(frame.block))

    def _check_event(self, name: str, broker: int, id: EventId, block: bytes) -> None:
        root = self._root(broker)
        if root is None:  # it is the hostile broker's
            return
        self.received += 1
        event = self._published.get(id)
        if event is None or event.client.node is not root or block != _block_of(event):
            self._world.complain(f"I3: {name} got what {root.name} never published")

    def _see_close(self, node: OverlayNode, other: Endpoint, close: Close) -> None:
        if close.code not in EXPULSIONS:
            return
        if other is not self._hostile:
            self._world.complain(f"I3: {node.name} expels an honest broker: {close.code} {close.message}")
        elif node is not self._hostile:
            self.expelled_by.append(node)


def _block_of(event: PublishedEvent) -> bytes:
    return encode_block(Event(event.attributes, event.payload, event.id.publisher, event.id.sequence))
