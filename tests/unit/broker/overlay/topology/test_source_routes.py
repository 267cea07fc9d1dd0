"""Source routes around lossy brokers: which ones are found, and which frames they may carry."""

from __future__ import annotations

from collections import Counter

import pytest
from copies import copy, publish
from maps import linked

from plait_broker.overlay.outputs import Output, SendFrame
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology.forwarding_table import ForwardingTable
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_broker.overlay.topology.source_routes import unwrap, ways_around, wrap
from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_broker.overlay.transport.neighbour_sender import NeighbourSender
from plait_core.wire import ControlFrame, Forward, Ping, Pong
from plait_core.wire.frame_types.envelope_frames import ROUTE_MAX, EndToEnd, Message, envelop_document, envelop_message
from plait_core.wire.frame_types.overlay_frames import (
    Advertisement,
    ClockStamp,
    DatabaseSummary,
    LinkState,
    StreamAck,
    StreamSkip,
)
from plait_core.wire.frame_types.trace_frames import QueryResult


def test_no_relay_is_on_all_source_routes() -> None:
    ring = linked({(1, 2): 100, (2, 3): 100, (3, 4): 100, (1, 5): 900, (5, 4): 900, (2, 5): 900, (3, 5): 900})
    assert ring.path(1, 4) == (1, 2, 3, 4)
    ways = ways_around(ring, 1, 4, 2)
    assert ways == [(1, 5, 4), (1, 2, 3, 4)], "each once, and the shortest path, which has failed, last"
    assert not set(ways[0][1:-1]) & set(ways[1][1:-1])


def test_the_next_hop_in_use_is_avoided_first() -> None:
    square = linked({(1, 2): 1000, (1, 3): 800, (2, 3): 100, (2, 4): 100, (3, 4): 100})
    assert ways_around(square, 1, 3, 2) == [(1, 3)], "also when the shortest path has no relay"
    assert ways_around(square, 1, 3, 3) == []
    assert square.path(1, 4) == (1, 3, 4)
    assert ways_around(square, 1, 4, 2) == [(1, 3, 4), (1, 2, 4)]
    assert ways_around(square, 1, 4, 3) == [(1, 2, 4), (1, 3, 4)]
    assert ways_around(square, 1, 9, 2) == [], "no path leads there"


@pytest.mark.parametrize(
    "frame",
    [
        Ping(1),
        Pong(1),
        ClockStamp(1),
        DatabaseSummary(True, True, (), (), (), ()),
        envelop_document(LinkState(9, 1, "b9", (), ())),
        envelop_document(Advertisement(9, 1, 1, "")),
    ],
)
def test_link_local_frames_are_not_source_routed(frame: ControlFrame) -> None:
    """Check that link-local frames are refused; a route's sender could otherwise forge frames of its last relay."""
    assert unwrap(wrap((1, 2, 3), frame)) is None


def test_few_events_on_source_routes_pass_by_a_lane_that_waits() -> None:
    triangle = linked({(1, 2): 100, (2, 3): 100, (1, 3): 300})
    counts: Counter[str] = Counter()
    neighbours = {broker: Neighbour(broker, f"b{broker}", broker, 0.0) for broker in (2, 3)}
    outputs: list[Output] = []
    sender = NeighbourSender(neighbours, outputs, counts)
    routes = ForwardingTable(1, triangle, neighbours)
    unicast = ControlUnicast(1, triangle, routes, neighbours, MessageAuth(1, None), sender, counts)
    event = Forward(0, 0, 0, (1,), ((3, 1, 0),), publish(payload=bytes(1000)).block)
    for _ in range(100):
        assert unicast.send_along((1, 2, 3), event, 0.0)
    assert len(outputs) == 100, "nothing waits"
    neighbours[2].lane.queue.add(copy(), 0.0)
    for _ in range(100):
        unicast.send_along((1, 2, 3), event, 0.0)
        unicast.send_along((1, 2, 3), envelop_message(StreamAck(3, 1, 7)), 0.0)
    assert 220 < len(outputs) < 240, "messages, and few events"
    assert counts["lane_full"] == 300 - len(outputs)


@pytest.mark.parametrize("message", [StreamAck(3, 1, 7), StreamSkip(3, 1, 7), QueryResult(3, 1, 1, "{}")])
def test_messages_with_a_mac_are_source_routed(message: Message) -> None:
    envelope = envelop_message(message)
    assert isinstance(envelope, EndToEnd)
    assert unwrap(wrap((1, 2, 3), envelope)) == envelope


def test_a_route_that_is_too_long_for_a_frame_is_not_used() -> None:
    count = ROUTE_MAX + 6
    ring = linked({(near, near % count + 1): 100 for near in range(1, count + 1)})
    counts: Counter[str] = Counter()
    neighbours = {broker: Neighbour(broker, f"b{broker}", broker, 0.0) for broker in (2, count)}
    outputs: list[Output] = []
    sender = NeighbourSender(neighbours, outputs, counts)
    routes = ForwardingTable(1, ring, neighbours)
    unicast = ControlUnicast(1, ring, routes, neighbours, MessageAuth(1, None), sender, counts)
    long, usual = ways_around(ring, 1, 3, None)
    assert len(long) > ROUTE_MAX
    assert not unicast.send_along(long, Ping(1), 0.0)
    assert outputs == []
    assert unicast.send_along(usual, Ping(1), 0.0)
    (output,) = outputs
    assert isinstance(output, SendFrame)
    assert output.link == 2
