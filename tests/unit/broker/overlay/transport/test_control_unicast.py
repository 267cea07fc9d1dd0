"""Control frames relayed for other brokers: no more than the receiver accepts from one neighbour."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.clients.connection import CONTROL_BURST, CONTROL_PER_S
from plait_broker.overlay.outputs import RelayFrame
from plait_broker.overlay.topology.neighbours import RELAYS_BURST, RELAYS_PER_S
from plait_broker.overlay.transport.control_unicast import SEARCHES_BURST
from plait_core.wire import ControlFrame, encode_frame
from plait_core.wire.frame_types.envelope_frames import EndToEnd, SourceRouted, envelop_message
from plait_core.wire.frame_types.overlay_frames import InterestUpdate, LinkState, StreamAck

ME, FLOODER, OTHER = 1, 2, 3


def between(*neighbours: int) -> OneOverlay:
    """Return a broker with links to these neighbours and to OTHER."""
    broker = OneOverlay(ME)
    broker.link_up(*neighbours, OTHER)
    broker.clear()
    return broker


def relayed(broker: OneOverlay, kind: type[ControlFrame]) -> int:
    """Return how many frames of a kind were relayed to OTHER."""
    return sum(output.link == OTHER and isinstance(output.frame, kind) for output in broker.of(RelayFrame))


def test_relayed_frames_of_one_neighbour_stay_below_the_limit_of_the_next() -> None:
    broker = between(FLOODER)
    ack = envelop_message(StreamAck(OTHER, FLOODER, 7))
    update = envelop_message(InterestUpdate((OTHER,), FLOODER, (1,), (0,), True, (1,), ("x > 1",), ()))
    frames = (ack, update, SourceRouted((FLOODER, ME, OTHER), 1, 0, encode_frame(ack)))
    for number in range(round(2 * CONTROL_BURST)):
        broker.overlay.receive(FLOODER, frames[number % 3], 1.0)
    assert relayed(broker, EndToEnd) + relayed(broker, SourceRouted) == RELAYS_BURST < CONTROL_BURST
    assert broker.overlay.counts["relays_refused"] == 2 * CONTROL_BURST - RELAYS_BURST
    assert RELAYS_PER_S < CONTROL_PER_S


def test_relayed_frames_of_several_neighbours_stay_below_it_together() -> None:
    flooders = range(10, 13)
    broker = between(*flooders)
    for flooder in flooders:
        for _ in range(round(RELAYS_BURST)):
            broker.overlay.receive(flooder, envelop_message(StreamAck(OTHER, flooder, 7)), 1.0)
    assert relayed(broker, EndToEnd) == RELAYS_BURST < CONTROL_BURST


def test_frames_to_another_neighbour_are_relayed_meanwhile() -> None:
    broker = between(FLOODER)
    for _ in range(round(RELAYS_BURST) + 1000):
        broker.overlay.receive(FLOODER, envelop_message(StreamAck(OTHER, FLOODER, 7)), 1.0)
    broker.clear()
    broker.overlay.receive(OTHER, envelop_message(StreamAck(FLOODER, OTHER, 7)), 1.0)
    assert [output.link for output in broker.of(RelayFrame)] == [FLOODER]
    broker.overlay.receive(FLOODER, envelop_message(StreamAck(OTHER, FLOODER, 8)), 2.0)
    assert relayed(broker, EndToEnd) == 1, "and frames of the flooder again after a while"


def test_a_message_that_returns_to_its_source_is_dropped() -> None:
    broker = between(FLOODER)
    broker.receive(FLOODER, envelop_message(StreamAck(OTHER, ME, 7)))
    assert broker.sent == []
    assert broker.overlay.counts["loops"] == 1


def test_searches_for_source_routes_are_bounded_when_hundreds_of_brokers_are_silent() -> None:
    broker, count = OneOverlay(ME), round(SEARCHES_BURST) + 50
    broker.link_up(FLOODER, OTHER)
    silent = range(10, 10 + count)
    for hub in (FLOODER, OTHER):
        broker.learn(LinkState(hub, 2, f"b{hub}", (ME, *silent), (1000,) * (1 + count)), hub)
    for far in silent:
        broker.learn(LinkState(far, 1, f"b{far}", (FLOODER, OTHER), (1000, 1000)), OTHER)
    broker.tick(1.0)
    broker.clear()
    for far in silent:
        broker.overlay.unicast.send(StreamAck(far, ME, 1), 1.0, (1,))
    assert broker.overlay.counts["detours"] == SEARCHES_BURST
    for far in silent:
        broker.overlay.unicast.send(StreamAck(far, ME, 1), 9.0, (1,))
    assert broker.overlay.counts["detours"] == 2 * SEARCHES_BURST + 50, "the others follow"
