"""The hot frames: their bytes, encoding and decoding of routes and blocks, and each refusal with its fault."""

from __future__ import annotations

from struct import pack

import pytest

from plait_core.errors import EventInvalid, FrameError, FrameFault
from plait_core.events import Event, EventId
from plait_core.limits import EventLimits, WireLimits
from plait_core.wire import (
    VERSION_MAX,
    Confirm,
    Deliver,
    EventFrame,
    Forward,
    Frame,
    FrameDecoder,
    Publish,
    deliver_head,
    encode_block,
    encode_frame,
    encode_publish,
    forward_head,
    publish_head,
)

EVENT = Event.checked(
    {"symbol": "IBM", "price": 121.5, "halted": False, "note": None, "sizes": [1, 2.5, "x"]},
    b"payload",
    publisher=2**64 - 1,
    sequence=3,
    published_us=-5,
    lifetime_us=2_000_000,
    priority=9,
    headers={"Trace-Id": "abc"},
)
BLOCK = encode_block(EVENT)
BARE = encode_block(Event({}))
FEW = WireLimits(
    destinations_max=2,
    path_max=2,
    deliveries_max=2,
    event=EventLimits(attributes_bytes_max=64, headers_bytes_max=16, payload_bytes_max=10),
)


def decode(data: bytes, limits: WireLimits | None = None) -> Frame:
    decoder = FrameDecoder(limits or WireLimits(), version=VERSION_MAX)
    decoder.feed(data)
    (frame,) = decoder.take()
    return frame


def fault_of(data: bytes, limits: WireLimits | None = None) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        decode(data, limits)
    return caught.value.fault


def framed(number: int, route: bytes, block: bytes, route_bytes: int | None = None) -> bytes:
    said = len(route) if route_bytes is None else route_bytes
    return pack(">IBBH", len(route) + len(block), VERSION_MAX, number, said) + route + block


def block(
    *, lifetime: int = 0, published: int = 0, flags: int = 0, priority: int = 0, headers: int = 0, attributes: int = 1,
    rest: bytes = b"\x80",
) -> bytes:  # fmt: skip
    return pack(">QQqqBBHI", 1, 2, published, lifetime, flags, priority, headers, attributes) + rest


# --- encoding and decoding --------------------------------------------------------------------------------------------


def test_the_bytes_of_a_publish_frame() -> None:
    event = Event({"a": 1}, b"pay", 7, 8, 9, 10, 1, {"h": "v"})
    assert encode_publish(event, Confirm.SUBSCRIBERS).hex(" ") == " ".join(
        [
            "00 00 00 36 01 01 00 02",  # 54 bytes follow, version 1, publish, route of 2
            "02 00",  # confirm by subscribers, reserved
            "00 00 00 00 00 00 00 07 00 00 00 00 00 00 00 08",  # publisher, sequence
            "00 00 00 00 00 00 00 09 00 00 00 00 00 00 00 0a",  # published, lifetime
            "00 01 00 05 00 00 00 04",  # flags, priority, bytes of headers and of attributes
            "81 a1 61 01",  # {"a": 1}
            "81 a1 68 a1 76",  # {"h": "v"}
            "70 61 79",
        ]
    )


@pytest.mark.parametrize("confirm", Confirm)
def test_publish(confirm: Confirm) -> None:
    frame = decode(encode_publish(EVENT, confirm))
    assert isinstance(frame, Publish)
    assert frame.confirm is confirm
    assert frame.event() == EVENT
    assert frame.id == EventId(2**64 - 1, 3)
    assert (frame.published_us, frame.lifetime_us, frame.priority) == (-5, 2_000_000, 9)
    assert frame.headers() == {"Trace-Id": "abc"}
    assert frame.payload == b"payload"
    assert frame.attributes() is frame.attributes()


def test_the_block_is_the_same_bytes_on_every_hop() -> None:
    published = decode(encode_publish(EVENT))
    assert isinstance(published, Publish)
    forwarded = decode(
        forward_head(published.block, 5, 70, 1, (1, 2), ((3, 1, 9), (4, 0, 0), (2**64 - 1, 2**64 - 1, 2**64 - 1)))
        + published.block
    )
    assert isinstance(forwarded, Forward)
    assert (forwarded.tree, forwarded.delay_us, forwarded.flags) == (5, 70, 1)
    assert (forwarded.path, forwarded.destinations) == (
        (1, 2),
        ((3, 1, 9), (4, 0, 0), (2**64 - 1, 2**64 - 1, 2**64 - 1)),
    )
    deliveries = ((1, 2, 3), (2**32 - 1, 0, 2**64 - 1))
    delivered = decode(deliver_head(forwarded.block, 90, 255, (1, 2, 9), deliveries) + forwarded.block)
    assert isinstance(delivered, Deliver)
    assert (delivered.delay_us, delivered.flags, delivered.path) == (90, 255, (1, 2, 9))
    assert delivered.deliveries == deliveries
    assert published.block == forwarded.block == delivered.block == BLOCK
    assert delivered.event() == EVENT


@pytest.mark.parametrize(
    "frame",
    [Publish(Confirm.BROKER, BLOCK), Forward(1, 2, 3, (), (), BARE), Deliver(1, 2, (7,), ((1, 0, 0),), BLOCK)],
)
def test_frames_are_their_bytes(frame: Publish | Forward | Deliver) -> None:
    again = decode(encode_frame(frame))
    assert again == frame
    assert encode_frame(again) == encode_frame(frame)
    assert repr(again) == repr(frame)
    assert frame != decode(encode_publish(Event({"other": 1})))
    assert frame != "a frame"


def test_the_block_does_not_hold_the_read_that_it_came_in() -> None:
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(bytearray(encode_publish(EVENT) * 100))
    for frame in decoder.take():
        assert isinstance(frame, Publish)
        assert type(frame.block) is bytes
        assert len(frame.block) == len(BLOCK)


def test_a_frame_of_no_known_class_has_no_bytes() -> None:
    with pytest.raises(TypeError):
        encode_frame(EventFrame(BARE))  # type: ignore[arg-type]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (framed(1, b"\x03\x00", BARE), FrameFault.FIELD),  # confirm level
        (framed(1, b"\x00\x01", BARE), FrameFault.FIELD),  # reserved
        (framed(1, b"\x00\x00\x00", BARE), FrameFault.FIELD),  # a longer route
        (framed(1, b"\x00", BARE), FrameFault.TRUNCATED),
        (framed(1, b"", BARE, 0), FrameFault.TRUNCATED),
        (framed(1, b"\x00\x00", BARE, 65535), FrameFault.TRUNCATED),  # a false length of the route
        (framed(1, b"\x00", b"", 2), FrameFault.TRUNCATED),
        (framed(1, b"\x00\x00", b""), FrameFault.TRUNCATED),  # no block
        (framed(1, b"\x00\x00", BARE[:39]), FrameFault.TRUNCATED),
        (framed(2, b"\x00" * 19, BARE), FrameFault.TRUNCATED),
        (framed(2, pack(">QQBBH", 1, 2, 1, 0, 1) + b"\x00" * 31, BARE), FrameFault.TRUNCATED),
        (framed(2, pack(">QQBBH", 1, 2, 1, 0, 1) + b"\x00" * 33, BARE), FrameFault.FIELD),
        (framed(2, pack(">QQBBH", 1, 2, 65, 0, 0) + b"\x00" * 8 * 65, BARE), FrameFault.OVERSIZE),
        (framed(2, pack(">QQBBH", 1, 2, 0, 0, 1025) + b"\x00" * 24 * 1025, BARE), FrameFault.OVERSIZE),
        (framed(2, pack(">QQBBH", 1, 2, 0, 0, 0), b"", 60), FrameFault.TRUNCATED),
        (framed(3, b"\x00" * 11, BARE), FrameFault.TRUNCATED),
        (framed(3, pack(">QBBH", 1, 1, 0, 1) + b"\x00" * 23, BARE), FrameFault.TRUNCATED),
        (framed(3, pack(">QBBH", 1, 1, 0, 1) + b"\x00" * 25, BARE), FrameFault.FIELD),
        (framed(3, pack(">QBBH", 1, 255, 0, 1) + b"\x00" * 24, BARE), FrameFault.OVERSIZE),
        (framed(3, pack(">QBBH", 1, 0, 0, 65535) + b"\x00" * 16, BARE), FrameFault.OVERSIZE),
    ],
)
def test_routes_that_are_refused(data: bytes, fault: FrameFault) -> None:
    assert fault_of(data) is fault


@pytest.mark.parametrize(
    ("bad", "fault"),
    [
        (block(lifetime=-1), FrameFault.FIELD),
        (block(published=-(2**63)), FrameFault.FIELD),
        (block(flags=1), FrameFault.FIELD),
        (block(flags=128), FrameFault.FIELD),
        (block(priority=10), FrameFault.FIELD),
        (block(attributes=2), FrameFault.TRUNCATED),
        (block(headers=1), FrameFault.TRUNCATED),
        (block(attributes=64, headers=16, rest=b"\x80" * 79), FrameFault.TRUNCATED),
        (block(attributes=65, rest=b"\x80" * 65), FrameFault.OVERSIZE),
        (block(attributes=2**32 - 1), FrameFault.OVERSIZE),
        (block(headers=17, rest=b"\x80" * 18), FrameFault.OVERSIZE),
        (block(rest=b"\x80" * 12), FrameFault.OVERSIZE),
    ],
)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_blocks_that_are_refused_when_the_frame_is_decoded(number: int, bad: bytes, fault: FrameFault) -> None:
    route = {1: b"\x00\x00", 2: pack(">QQBBH", 0, 0, 0, 0, 0), 3: pack(">QBBH", 0, 0, 0, 0)}[number]
    assert fault_of(framed(number, route, bad), FEW) is fault


def test_attributes_are_refused_at_their_first_use() -> None:
    frame = decode(framed(1, b"\x00\x00", block(attributes=1, rest=b"\xc1")))
    assert isinstance(frame, Publish)
    for _ in range(2):
        with pytest.raises(FrameError):
            frame.attributes()
    with pytest.raises(FrameError):
        frame.event()


@pytest.mark.parametrize(
    "event",
    [
        Event({"a": "x" * 64}),
        Event({}, headers={"h": "x" * 16}),
        Event({}, b"x" * 11),
        Event({}, publisher=-1),
        Event({}, sequence=2**64),
        Event({"a": "\ud800"}),
        Event({}, headers={"h": "\ud800"}),
        Event({"a": object()}),  # type: ignore[dict-item]
    ],
)
def test_events_that_cannot_be_sent(event: Event) -> None:
    with pytest.raises(EventInvalid):
        encode_publish(event, limits=FEW.event)


def test_heads_are_what_precedes_the_block() -> None:
    assert publish_head(BLOCK, Confirm.NONE) + BLOCK == encode_publish(EVENT)
