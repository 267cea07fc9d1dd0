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


def test_a_run_of_copies_is_written_until_the_bound_is_reached() -> None:
    single, writer, frame = DeliveryWriter(), DeliveryWriter(), Publish(Confirm.NONE, BLOCK)
    copies = [(frame, 0, delay_us, 0, (1, 2), [(9, delay_us, 7)]) for delay_us in range(10)]
    sizes = [single.forward(*copy, VERSION_MAX) for copy in copies]
    assert writer.forward_all(copies, VERSION_MAX, sizes[3]) == (4, sizes[3])
    assert writer.forward_all(copies[4:], VERSION_MAX, sizes[3]) == (0, sizes[3]), "it is full"
    assert writer.forward_all(copies[4:], VERSION_MAX, sizes[3] + 1) == (1, sizes[4]), "the last copy may exceed it"
    assert writer.forward_all(tuple(copies[5:]), VERSION_MAX, 1 << 20) == (5, sizes[-1])
    assert writer.forward_all((), VERSION_MAX, 1 << 20) == (0, sizes[-1])
    assert writer.take() == single.take()


@pytest.mark.parametrize("path", [(1,) * 256, tuple(range(300))])
def test_a_path_that_is_too_long_for_a_frame_is_refused(path: tuple[int, ...]) -> None:
    with pytest.raises(Exception, match=r"names|format|255|ubyte"):
        DeliveryWriter().deliver(Publish(Confirm.NONE, BLOCK), 0, path, (), VERSION_MAX)
