"""Events between peers as hot frames, and announcements of peers: round trips, and refusal of foreign ones."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_core import Event
from plait_core.errors import FrameError
from plait_core.wire import VERSION_MAX, Forward, FrameDecoder, encode_block, forward_head
from plait_core.wire.frame_types.peer_frames import PeerEvent
from plait_peer.discovery import Announcements
from plait_peer.event_frames import event_head, event_of, plain_dz
from plait_peer.group import Group


def decoded(data: bytes) -> Forward:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(data)
    (frame,) = decoder.take()
    assert isinstance(frame, Forward)
    return frame


@given(st.text("01", max_size=64), st.integers(1, 2**64 - 1), st.integers(0, 64), st.integers(0, 1000))
def test_an_event_arrives_as_it_was(dz: str, number: int, hops: int, round: int) -> None:
    block = encode_block(Event({"x": 1}, b"load", 7, number))
    event = PeerEvent(7, number, dz, 0.25, hops, block, round)
    frame = decoded(event_head(event) + block)
    assert event_of(frame) == event
    assert plain_dz(frame) == (None if round else dz)


def test_a_frame_of_brokers_is_none_of_peers() -> None:
    block = encode_block(Event({"x": 1}, b"", 7, 1))
    for path, destinations in (((9,), ((0, 0, 1),)), ((), ()), ((), ((0, 0, 1), (0, 0, 1))), ((), ((0, 0, 0),))):
        with pytest.raises(FrameError):
            event_of(decoded(forward_head(block, 7, 0, 0, path, destinations) + block))


def test_announcements_are_received_once_by_holders_of_the_secret() -> None:
    one, two = (Announcements(Group("g", None, "s"), node, f"10.0.0.{node}:4690", Random(node), 0.0) for node in (1, 2))
    stranger = Announcements(Group("g", None, "other"), 3, "10.0.0.3:4690", Random(3), 0.0)
    datagram = one.announce(0.0)
    assert two.receive(datagram, 0.0) == "10.0.0.1:4690"
    assert two.next_deadline() <= 0.2, "a newcomer is answered soon"
    assert two.receive(datagram, 0.1) is None
    assert one.receive(datagram, 0.1) is None
    assert stranger.receive(datagram, 0.0) is None
    assert two.receive(stranger.announce(0.0), 0.0) is None
    assert two.receive(b"", 0.0) is None
