"""The bound of a send stream: the oldest events are given up for later ones."""

from __future__ import annotations

from one_overlay import OneOverlay

from plait_broker.overlay import OverlaySettings
from plait_broker.overlay.outputs import Lost
from plait_core.wire import Confirm, Publish
from plait_core.wire.event_block import encode_plain_block

ME, NEAR = 1, 2
BYTES_MAX = 1000


def event(sequence: int, payload: bytes) -> Publish:
    block = encode_plain_block({"a": 1}, payload, 7, sequence, 1)
    assert block is not None
    return Publish(Confirm.NONE, block)


def test_an_event_that_exceeds_the_bound_alone_is_kept_until_the_next_one() -> None:
    one = OneOverlay(ME, OverlaySettings(name="b1", stream_bytes_max=BYTES_MAX))
    one.link_up(NEAR)
    ((_, first, _),) = one.overlay.publish(event(1, bytes(5 * BYTES_MAX)), [NEAR], 0, 0, 0.0)
    stream = one.overlay.event_streams.outgoing[NEAR]
    assert list(stream.kept) == [first]
    assert NEAR in one.overlay.event_streams.sending
    assert one.of(Lost) == []
    ((_, second, _),) = one.overlay.publish(event(2, b""), [NEAR], 0, 0, 0.0)
    assert list(stream.kept) == [second]
    assert [(lost.position, lost.reason) for lost in one.of(Lost)] == [(first, "overlay_full")]
