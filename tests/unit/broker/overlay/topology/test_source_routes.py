"""Source routes around lossy brokers: which ones are found, and which frames they may carry."""

from __future__ import annotations

from collections import Counter

import pytest
from maps import linked

from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.topology.forwarding_table import ForwardingTable
from plait_broker.overlay.topology.source_routes import unwrap, ways_around, wrap
from plait_broker.overlay.transport.control_unicast import ControlUnicast
from plait_core.wire import ControlFrame, Ping, Pong
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


def test_no_other_broker_is_on_all_ways_around() -> None:
    ring = linked({(1, 2): 100, (2, 3): 100, (3, 4): 100, (1, 5): 900, (5, 4): 900, (2, 5): 900, (3, 5): 900})
    assert ring.path(1, 4) == (1, 2, 3, 4)
    ways = ways_around(ring, 1, 4, 2)
    assert ways == [(1, 5, 4), (1, 2, 3, 4)], "each once, and the usual one, which others may not keep to, last"
    assert not set(ways[0][1:-1]) & set(ways[1][1:-1])


def test_who_is_taken_beside_the_usual_path_is_gone_around_first() -> None:
    square = linked({(1, 2): 1000, (1, 3): 800, (2, 3): 100, (2, 4): 100, (3, 4): 100})
    assert ways_around(square, 1, 3, 2) == [(1, 3)], "also when nobody is in between on the usual path"
    assert ways_around(square, 1, 3, 3) == []
    assert square.path(1, 4) == (1, 3, 4)
    assert ways_around(square, 1, 4, 2) == [(1, 3, 4), (1, 2, 4)]
    assert ways_around(square, 1, 4, 3) == [(1, 2, 4), (1, 3, 4)]
    assert ways_around(square, 1, 9, 2) == [], "nobody leads there"


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
def test_what_only_a_neighbour_says_for_itself_does_not_come_around(frame: ControlFrame) -> None:
    """Check that link-local frames are refused; a route's sender could otherwise forge frames of its last relay."""
    assert unwrap(wrap((1, 2, 3), frame)) is None


@pytest.mark.parametrize("message", [StreamAck(3, 1, 7), StreamSkip(3, 1, 7), QueryResult(3, 1, 1, "{}")])
def test_a_message_with_a_mac_of_its_own_does(message: Message) -> None:
    envelope = envelop_message(message)
    assert isinstance(envelope, EndToEnd)
    assert unwrap(wrap((1, 2, 3), envelope)) == envelope


def test_a_way_that_no_frame_can_name_is_not_taken() -> None:
    count = ROUTE_MAX + 6
    ring = linked({(near, near % count + 1): 100 for near in range(1, count + 1)})
    counts: Counter[str] = Counter()
    unicast = ControlUnicast(
        1,
        ring,
        lambda: ForwardingTable(1, ring, {}),
        {},
        MessageAuth(1, None),
        counts,
        lambda *_: None,
        lambda *_: None,
        lambda: 0.0,
    )
    long, usual = ways_around(ring, 1, 3, None)
    assert len(long) > ROUTE_MAX
    assert not unicast.by(long, Ping(1))
    assert unicast.by(usual, Ping(1))
