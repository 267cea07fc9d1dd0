"""A decoder reads the frames that the writer wrote."""

from __future__ import annotations

import pytest

from plait_core.events import Event
from plait_core.wire import (
    VERSION_MAX,
    Confirm,
    Deliver,
    DeliveryWriter,
    Forward,
    FrameDecoder,
    Ping,
    Publish,
    encode_block,
    encode_frame,
)

BLOCK = encode_block(Event({"symbol": "IBM", "price": 99.5}, b"payload", 7, 8, 9))


def decoded(data: bytes) -> list[object]:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(data)
    return list(decoder.take())


def test_a_decoder_reads_the_written_frames() -> None:
    writer, frame = DeliveryWriter(), Publish(Confirm.NONE, BLOCK)
    ping = Ping(5)
    sizes = [
        writer.deliver(frame, 12, (1, 2), ((3, 4, 5), (6, 0, 0)), VERSION_MAX),
        writer.append(encode_frame(ping)),
        writer.forward(frame, 9, 13, 1, (1,), ((2**64 - 1, 7, 8), (3, 0, 2**64 - 1)), VERSION_MAX),
        writer.deliver(frame, 0, (), (), VERSION_MAX),
    ]
    data = writer.take()
    assert sizes == sorted(sizes)
    assert len(data) == sizes[-1]
    first, second, third, last = decoded(data)
    assert isinstance(first, Deliver)
    assert (first.delay_us, first.path, first.deliveries, first.block) == (12, (1, 2), ((3, 4, 5), (6, 0, 0)), BLOCK)
    assert second == ping
    assert isinstance(third, Forward)
    assert (third.tree, third.delay_us, third.flags, third.path) == (9, 13, 1, (1,))
    assert (third.destinations, third.block) == (((2**64 - 1, 7, 8), (3, 0, 2**64 - 1)), BLOCK)
    assert isinstance(last, Deliver)
    assert last.deliveries == ()


def test_taken_bytes_leave_the_buffer() -> None:
    writer = DeliveryWriter()
    assert writer.take() == b""
    assert writer.append(b"x") == 1
    assert (writer.take(), writer.take()) == (b"x", b"")


def test_a_forwarded_event_is_delivered_unchanged() -> None:
    writer = DeliveryWriter()
    writer.forward(Publish(Confirm.BROKER, BLOCK), 1, 2, 0, (3,), ((4, 5, 6),), VERSION_MAX)
    (forwarded,) = decoded(writer.take())
    assert isinstance(forwarded, Forward)
    writer.deliver(forwarded, 6, (3, 4), ((1, 0, 0),), VERSION_MAX)
    (delivered,) = decoded(writer.take())
    assert isinstance(delivered, Deliver)
    assert delivered.event() == Publish(Confirm.NONE, BLOCK).event()


@pytest.mark.parametrize("path", [(1,) * 256, tuple(range(300))])
def test_a_path_that_is_too_long_for_a_frame_is_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(Exception, match=r"names|format|255|ubyte"):
        DeliveryWriter().deliver(Publish(Confirm.NONE, BLOCK), 0, path, (), VERSION_MAX)
