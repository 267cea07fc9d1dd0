"""The decoder: refusals by the prefix, errors, memory, and the single change of phase."""

from __future__ import annotations

import tracemalloc
from random import Random
from struct import pack

import pytest

from plait_core.errors import FrameError, FrameFault
from plait_core.events import Event
from plait_core.limits import FRAME_BYTES_MAX, HELLO_BYTES_MAX, WireLimits
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    Close,
    Forward,
    Frame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    encode_block,
    encode_frame,
    encode_publish,
    forward_head,
)
from plait_core.wire.frame_types.connection_frames import PING
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS

HELLO = Hello(1, 1, Role.CLIENT, "ibis", 7)
WELCOME = Welcome(1, (), "hub", 1, 2, 10.0)
PUBLISH = encode_publish(Event({"a": 1}, b"x" * 50))


def prefix(size: int = 10, version: int = 1, number: int = 0x13, route: int = 0) -> bytes:
    return pack(">IBBH", size, version, number, route)


def opened(limits: WireLimits | None = None) -> FrameDecoder:
    return FrameDecoder(limits or WireLimits(), version=1)


def fault_of(decoder: FrameDecoder) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        decoder.take()
    return caught.value.fault


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (prefix(FRAME_BYTES_MAX - 7), FrameFault.OVERSIZE),
        (prefix(2**32 - 1), FrameFault.OVERSIZE),
        (b"GET / HTTP/1.1\r\n\r\n", FrameFault.OVERSIZE),
        (prefix(version=0), FrameFault.VERSION),
        (prefix(version=2), FrameFault.VERSION),
        (prefix(number=0), FrameFault.TYPE),
        (prefix(number=0x0F), FrameFault.TYPE),
        (prefix(number=0xFF), FrameFault.TYPE),
        (prefix(number=0x10), FrameFault.ORDER),
        (prefix(number=0x10, version=0), FrameFault.ORDER),
        (prefix(number=0x11, version=0), FrameFault.ORDER),
    ],
)
def test_refused_on_the_prefix(data: bytes, fault: FrameFault) -> None:
    decoder = opened()
    decoder.feed(data[:7])
    assert decoder.take() == []
    decoder.feed(data[7:8])
    assert fault_of(decoder) is fault


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (prefix(HELLO_BYTES_MAX - 7, HANDSHAKE_VERSION, 0x10), FrameFault.OVERSIZE),
        (PUBLISH, FrameFault.ORDER),
        (prefix(version=0, number=0x13), FrameFault.ORDER),
        (prefix(version=1, number=0x12), FrameFault.VERSION),
        (prefix(version=1, number=0x10), FrameFault.VERSION),
        (prefix(version=0, number=0xEE), FrameFault.TYPE),
        (prefix(version=9, number=0xEE), FrameFault.VERSION),
    ],
)
def test_refused_on_the_prefix_before_the_handshake_is_done(data: bytes, fault: FrameFault) -> None:
    decoder = FrameDecoder()
    decoder.feed(data[:8])
    assert fault_of(decoder) is fault


def test_the_largest_frames() -> None:
    limits = WireLimits(hello_bytes_max=200, frame_bytes_max=300)
    for limit, decoder, version in ((200, FrameDecoder(limits), 0), (300, opened(limits), 1)):
        decoder.feed(prefix(limit - 8, version, 0x12))
        assert decoder.take() == []
        decoder.feed(b"\x81\xa4code\xda" + pack(">H", limit - 17) + b"x" * (limit - 17))
        assert fault_of(decoder) is FrameFault.FIELD  # a code that long is allowed, but not a frame


def test_a_control_frame_has_no_route() -> None:
    decoder = opened()
    decoder.feed(prefix(8, route=1) + b"\x81\xa5nonce\x01")
    assert fault_of(decoder) is FrameFault.FIELD


def test_a_second_hello_is_refused() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(HELLO) * 2)
    assert decoder.take() == [HELLO]
    decoder.establish(1)
    assert fault_of(decoder) is FrameFault.ORDER


def test_a_farewell_from_one_who_has_not_seen_the_welcome() -> None:
    decoder = opened()
    decoder.feed(encode_frame(Close("bye"), version=HANDSHAKE_VERSION))
    assert decoder.take() == [Close("bye")]


def test_handshake_frames_come_one_at_a_time() -> None:
    decoder = FrameDecoder()
    decoder.feed(encode_frame(WELCOME) + encode_frame(Ping(1)) * 2)
    assert decoder.take() == [WELCOME]
    decoder.establish(1)
    assert decoder.take() == [Ping(1), Ping(1)]


@pytest.mark.parametrize("version", [0, 1])
def test_a_connection_has_one_handshake(version: int) -> None:
    with pytest.raises(AssertionError):
        (opened() if version else FrameDecoder()).establish(version)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_frames_before_an_error_come_first_and_then_the_error_for_ever() -> None:
    decoder = opened()
    decoder.feed(encode_frame(Ping(1)) + encode_frame(Pong(2)) + prefix(number=0xEE) + encode_frame(Ping(3)))
    assert decoder.take() == [Ping(1), Pong(2)]
    seen = []
    for _ in range(3):
        with pytest.raises(FrameError) as caught:
            decoder.take()
        seen.append(caught.value)
        with pytest.raises(FrameError):
            decoder.next_frame()
        decoder.feed(encode_frame(Ping(3)))
    assert len(set(map(id, seen))) == 1
    assert decoder.held_bytes == 0


def test_one_by_one() -> None:
    decoder = opened()
    decoder.feed(encode_frame(Ping(1)) + encode_frame(Pong(2)) + b"\x00")
    assert [decoder.next_frame(), decoder.next_frame(), decoder.next_frame()] == [Ping(1), Pong(2), None]
    decoder.feed(encode_frame(Ping(3))[1:] + prefix(number=0xEE))
    assert decoder.next_frame() == Ping(3)
    with pytest.raises(FrameError):
        decoder.next_frame()


def test_feeding_ahead_of_taking() -> None:
    decoder = opened()
    data = encode_frame(Ping(1)) + PUBLISH + encode_frame(Pong(2))
    for start in range(0, len(data), 40):
        decoder.feed(data[start : start + 40])
    frames = decoder.take() + decoder.take()
    assert [frames[0], frames[2]] == [Ping(1), Pong(2)]
    assert decoder.take() == []
    assert decoder.held_bytes == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_fed_buffer_may_be_reused(kind: type) -> None:
    data = bytearray(PUBLISH * 3)
    decoder = opened()
    decoder.feed(kind(data) if kind is not bytearray else data)
    data[:] = b"\xff" * len(data)
    assert len(decoder.take()) == 3


# --- memory -----------------------------------------------------------------------------------------------------------


def test_consumed_bytes_are_released() -> None:
    decoder = opened()
    for take_all in (True, False):
        decoder.feed(PUBLISH * 500 + PUBLISH[:20])
        frames: list[Frame] = decoder.take() if take_all else [f for _ in range(500) if (f := decoder.next_frame())]
        assert len(frames) == 500
        assert decoder.next_frame() is None
        assert decoder.held_bytes == 20
        assert len(decoder._read) == 0
        decoder.feed(PUBLISH[20:])
        assert len(decoder.take()) == 1
        assert decoder.held_bytes == 0


def test_a_false_length_costs_no_memory() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        decoder = opened()
        decoder.feed(prefix(2**32 - 1) + b"x" * 100)
        assert fault_of(decoder) is FrameFault.OVERSIZE
        waiting = opened()
        waiting.feed(prefix(FRAME_BYTES_MAX - 8, number=1, route=2))
        assert waiting.take() == []
        assert tracemalloc.get_traced_memory()[1] - before < 64 * 1024
    finally:
        tracemalloc.stop()


def test_decoders_share_their_tables() -> None:
    """A broker has a decoder for each connection, thousands of them idle."""
    opened()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        decoders = [FrameDecoder() for _ in range(100)]
        for decoder in decoders:
            decoder.establish(1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(decoders) < 512


def test_limits_have_tables_of_their_own() -> None:
    low, high = opened(WireLimits(frame_bytes_max=100)), opened()
    for decoder in (low, high):
        decoder.feed(encode_publish(Event({}, b"x" * 200)))
    assert fault_of(low) is FrameFault.OVERSIZE
    assert len(high.take()) == 1


def test_connections_with_alternating_paths() -> None:
    """Paths are cached for all connections together: each frame keeps its own, of any length."""
    block = encode_block(Event({"a": 1}))
    chance = Random(7)
    paths = [tuple(chance.randrange(2**64) for _ in range(chance.randrange(4))) for _ in range(300)]
    decoders = [opened() for _ in paths]
    for _ in range(2):
        for decoder, path in zip(decoders, paths, strict=True):
            head = forward_head(block, 5, 6, 0, path, [(9, 9, 9)])
            (frame,) = decoder.read(head + block)
            assert isinstance(frame, Forward)
            assert frame.path == path


def test_a_frame_type_that_is_defined_later_is_known_to_new_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that connects to a broker first, and imports the peers' frames after that, has to read them."""
    FrameDecoder(version=VERSION_MAX)  # the tables of that time are kept
    number = 0xF7
    assert number not in FRAME_SCHEMAS
    monkeypatch.setitem(FRAME_SCHEMAS, number, FRAME_SCHEMAS[PING])
    data = bytearray(encode_frame(Ping(5), VERSION_MAX))
    data[5] = number
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(bytes(data))
    assert decoder.take() == [Ping(5)]
