"""Control frames for neighbours: those of this broker always go out, those of others within a rate."""

from __future__ import annotations

from collections import Counter

from plait_broker.overlay.outputs import Output, RelayFrame, SendFrame
from plait_broker.overlay.topology.neighbours import RELAYS_BURST, RELAYS_PER_S, Neighbour
from plait_broker.overlay.transport.neighbour_sender import NeighbourSender
from plait_core.wire import Ping
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.overlay_frames import StreamAck

NEAR, FAR, LINK = 2, 3, 70
ACK = envelop_message(StreamAck(FAR, 1, 7))


class Sender:
    def __init__(self) -> None:
        self.outputs: list[Output] = []
        self.counts: Counter[str] = Counter()
        self.neighbours = {NEAR: Neighbour(NEAR, "near", LINK, 0.0), FAR: Neighbour(FAR, "far", LINK + 1, 0.0)}
        self.sender = NeighbourSender(self.neighbours, self.outputs, self.counts)


def test_a_frame_of_this_broker_is_sent_over_the_link_of_the_neighbour() -> None:
    one = Sender()
    one.sender.send(NEAR, Ping(5))
    assert one.outputs == [SendFrame(LINK, Ping(5))]


def test_frames_are_counted_by_the_type_of_what_they_carry() -> None:
    one = Sender()
    one.sender.send(NEAR, Ping(5))
    one.sender.send(NEAR, ACK)
    one.sender.relay(FAR, ACK, 0.0)
    assert one.counts == {"Ping": 1, "StreamAck": 2}


def test_relayed_frames_beyond_the_rate_are_refused() -> None:
    one = Sender()
    for _ in range(round(RELAYS_BURST) + 5):
        one.sender.relay(NEAR, ACK, 0.0)
    assert one.outputs == [RelayFrame(LINK, ACK)] * round(RELAYS_BURST)
    assert one.counts["relays_refused"] == 5
    one.outputs.clear()
    for _ in range(round(RELAYS_PER_S)):
        one.sender.relay(NEAR, ACK, 0.5)
    assert len(one.outputs) == RELAYS_PER_S / 2, "room for half a second's frames has come back"


def test_frames_of_this_broker_are_not_limited_and_neighbours_have_rates_of_their_own() -> None:
    one = Sender()
    for _ in range(round(RELAYS_BURST)):
        one.sender.relay(NEAR, ACK, 0.0)
    one.outputs.clear()
    one.sender.send(NEAR, ACK)
    one.sender.relay(FAR, ACK, 0.0)
    assert one.outputs == [SendFrame(LINK, ACK), RelayFrame(LINK + 1, ACK)]
