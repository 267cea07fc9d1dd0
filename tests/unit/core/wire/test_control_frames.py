"""Control frames: encoding and decoding each of them, the fault of each error, and declaring more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any

import msgpack
import pytest

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import CONTROL_ITEMS_MAX, WireLimits
from plait_core.wire import (
    HANDSHAKE_VERSION,
    VERSION_MAX,
    AtMost,
    Between,
    Close,
    CloseCode,
    ControlFrame,
    FrameDecoder,
    Hello,
    Ping,
    Pong,
    Role,
    Welcome,
    control,
    encode_frame,
)
from plait_core.wire.frame_header import PREFIX_BYTES
from plait_core.wire.frame_types import frame_schema
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS, FrameSchema, decode_control
from plait_core.wire.frame_types.group_frames import GroupBatch

HELLO = {"version_min": 1, "version_max": 1, "role": "client", "name": "ibis", "publisher": 7}
WELCOME = {"version": 1, "capabilities": [], "broker_name": "b", "broker": 1, "session": 2, "heartbeat_s": 5.0}
BODIES: dict[int, dict[str, Any]] = {0x10: HELLO, 0x11: WELCOME, 0x12: {"code": "auth"}, 0x13: {"nonce": 1}}


def schema(number: int) -> FrameSchema:
    return FRAME_SCHEMAS[number]


def fault_of(number: int, body: bytes, limits: WireLimits | None = None) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        decode_control(schema(number), body, limits or WireLimits())
    return caught.value.fault


def packed(number: int, **changed: Any) -> bytes:
    return bytes(msgpack.packb(BODIES[number] | changed))


@pytest.mark.parametrize(
    "frame",
    [
        Hello(1, 1, Role.BROKER, "b1", 0),
        Hello(1, 255, Role.PEER, "ünï", 2**64 - 1, ("a", "b"), token="t", resume=0),
        Welcome(1, ("a",), "hub", 2**64 - 1, 0, 0.5, True),
        Close(CloseCode.PROTOCOL, "oversize: no", retryable=True),
        Close("a code of the future"),
        Ping(0),
        Pong(2**64 - 1),
    ],
)
def test_there_and_back(frame: ControlFrame) -> None:
    opening = isinstance(frame, (Hello, Welcome))
    decoder = FrameDecoder(version=None if opening else VERSION_MAX)
    data = encode_frame(frame)
    assert data == encode_frame(frame)
    assert data[4] == (HANDSHAKE_VERSION if opening else VERSION_MAX)
    decoder.feed(data)
    assert decoder.take() == [frame]


def test_fields_of_a_later_version_are_ignored() -> None:
    body = packed(0x13, later={"deep": [[1, 2], {"x": None}]}, also=msgpack.ExtType(9, b"??"))
    assert decode_control(schema(0x13), body) == Ping(1)


def test_absent_fields_take_their_default() -> None:
    assert decode_control(schema(0x12), packed(0x12)) == Close("auth", "", False)


def test_an_integer_will_do_for_a_float() -> None:
    welcome = decode_control(schema(0x11), packed(0x11, heartbeat_s=10))
    assert isinstance(welcome, Welcome)
    assert type(welcome.heartbeat_s) is float


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        (0x10, {"version_min": 0}),
        (0x10, {"version_max": 256}),
        (0x10, {"version_min": 2, "version_max": 1}),
        (0x10, {"version_min": True}),
        (0x10, {"version_min": "1"}),
        (0x10, {"role": "king"}),
        (0x10, {"role": 1}),
        (0x10, {"role": ["client"]}),
        (0x10, {"name": b"ibis"}),
        (0x10, {"name": "n" * 129}),
        (0x10, {"name": None}),
        (0x10, {"publisher": -1}),
        (0x10, {"publisher": 1.0}),
        (0x10, {"capabilities": "durable"}),
        (0x10, {"capabilities": [1]}),
        (0x10, {"capabilities": ["c"] * 65}),
        (0x10, {"token": 5}),
        (0x10, {"resume": "x"}),
        (0x11, {"heartbeat_s": float("nan")}),
        (0x11, {"heartbeat_s": 0}),
        (0x11, {"heartbeat_s": "5"}),
        (0x11, {"resumed": 1}),
        (0x12, {"message": "m" * 513}),
        (0x12, {"retryable": None}),
        (0x13, {"nonce": 1.5}),
    ],
)
def test_values_that_a_field_may_not_have(number: int, changed: dict[str, Any]) -> None:
    assert fault_of(number, packed(number, **changed)) is FrameFault.FIELD


@pytest.mark.parametrize(("number", "name"), [(n, f) for n, body in BODIES.items() for f in body])
def test_each_required_field_is_required(number: int, name: str) -> None:
    body = {key: value for key, value in BODIES[number].items() if key != name}
    assert fault_of(number, msgpack.packb(body)) is FrameFault.FIELD


# --- listed frames ----------------------------------------------------------------------------------------------------

BATCH = GroupBatch(7, 2**60, 2**60 + 3, 2**60 + 5, b"events", True, 9)
LISTED = [7, 2**60, 3, 2, b"events", True, 9]


@pytest.mark.parametrize(
    "frame",
    [
        BATCH,
        GroupBatch(7, 2**60, 2**60 - 1, 2**60),
        GroupBatch(2**64 - 1, 2**64 - 1, 0, 2**64 - 1, b"", False, 1),
        GroupBatch(0, 0, 2**64 - 1, 0, b"e", True),
    ],
)
def test_listed_frames_there_and_back(frame: GroupBatch) -> None:
    assert decode_control(schema(0x54), encode_frame(frame)[PREFIX_BYTES:]) == frame


def test_a_listed_frame_has_no_names_and_no_defaults_at_its_end_and_small_distances() -> None:
    assert msgpack.unpackb(encode_frame(BATCH)[PREFIX_BYTES:]) == LISTED
    assert msgpack.unpackb(encode_frame(replace(BATCH, waited_us=0))[PREFIX_BYTES:]) == LISTED[:6]
    assert msgpack.unpackb(encode_frame(GroupBatch(7, 5, 8, 9))[PREFIX_BYTES:]) == [7, 5, 3, 1]


def test_further_items_of_a_later_version_are_ignored() -> None:
    assert decode_control(schema(0x54), msgpack.packb([*LISTED, b"", [1, [2]], None, "x"])) == BATCH


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", FrameFault.TRUNCATED),
        (msgpack.packb(LISTED)[:-8], FrameFault.TRUNCATED),
        (msgpack.packb(LISTED) + b"\0", FrameFault.BODY),
        (msgpack.packb(LISTED[:3]), FrameFault.FIELD),
        (msgpack.packb([*LISTED[:3], -1]), FrameFault.FIELD),
        (msgpack.packb([*LISTED[:3], "2"]), FrameFault.FIELD),
        (msgpack.packb([*LISTED[:4], [1]]), FrameFault.FIELD),
        (msgpack.packb({"root": 7}), FrameFault.OVERSIZE),
        (msgpack.packb({}), FrameFault.BODY),
        (b"\x05", FrameFault.BODY),
        (b"\xdd\xff\xff\xff\xff", FrameFault.OVERSIZE),
        (b"\x91" * 100_000 + b"\x01", FrameFault.BODY),
    ],
)
def test_a_wrong_list_has_its_fault(body: bytes, fault: FrameFault) -> None:
    assert fault_of(0x54, body) is fault


def test_a_distance_is_from_a_field_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_schema, "FRAME_SCHEMAS", {})

    with pytest.raises(TypeError, match="before"):

        @control(0xF1, listed=True)
        @dataclass(frozen=True, slots=True)
        class Wrong(ControlFrame):
            near: Annotated[int, frame_schema.DistanceFrom("far")]
            far: int


# --- maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", FrameFault.TRUNCATED),
        (b"\x81\xa5nonce", FrameFault.TRUNCATED),
        (b"\x81\xa5nonce\xcd\x01", FrameFault.TRUNCATED),
        (b"\x81\xdb\xff\xff\xff\xff", FrameFault.TRUNCATED),
        (b"\x81\xa5nonce\x01\x00", FrameFault.BODY),
        (b"\x91\x01", FrameFault.BODY),
        (b"\xc0", FrameFault.BODY),
        (b"\x81\xa5nonce\xc1", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa5nonce\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x\x82\xa1a\x01\xa1a\x02", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x\x81\x90\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x\x81\x05\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xc4\x01x\x01", FrameFault.BODY),
        (b"\x81\xa2\xff\xfe\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x\xc7\x05\xff12345", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x" + b"\x91" * 32 + b"\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x" + b"\x91" * 1_000_000 + b"\x01", FrameFault.BODY),
        (b"\x82\xa5nonce\x01\xa1x\xdd\xff\xff\xff\xff", FrameFault.OVERSIZE),
        (b"\x82\xa5nonce\x01\xa1x\xdd\x00\x01\x00\x00" + b"\x00" * CONTROL_ITEMS_MAX, FrameFault.OVERSIZE),
    ],
)
def test_bodies_that_are_no_control_frame(body: bytes, fault: FrameFault) -> None:
    assert fault_of(0x13, body) is fault


def test_as_deep_as_allowed() -> None:
    body = b"\x82\xa5nonce\x01\xa1x" + b"\x91" * 31 + b"\x01"
    assert decode_control(schema(0x13), body) == Ping(1)


@pytest.mark.parametrize(
    "frame",
    [
        Hello(0, 1, Role.CLIENT, "x", 0),
        Hello(2, 1, Role.CLIENT, "x", 0),
        Hello(1, 1, Role.CLIENT, "x" * 129, 0),
        Hello(1, 1, Role.CLIENT, "\ud800", 0),
        Hello(1, 1, Role.CLIENT, "x", 0, token="t" * 5000),
        Welcome(1, (), "b", 1, 2, 10**400),
        Close("x", "m" * 513),
        Ping(2**64),
    ],
)
def test_frames_that_a_receiver_refuses_are_not_encoded(frame: ControlFrame) -> None:
    with pytest.raises(ValueError, match=type(frame).__name__):
        encode_frame(frame)


# --- declaring a frame ------------------------------------------------------------------------------------------------


class Shape(StrEnum):
    ROUND = "round"
    FLAT = "flat"


@dataclass(frozen=True, slots=True)
class Sample(ControlFrame):
    number: int
    ratio: float
    text: str
    yes: bool
    raw: Annotated[bytes, AtMost(4)]
    shape: Shape
    texts: tuple[str, ...]
    numbers: tuple[Annotated[int, Between(0, 9)], ...]
    pairs: Annotated[dict[str, str], AtMost(2)]
    maybe: tuple[int, ...] | None = None


SAMPLE = {
    "number": -(2**63), "ratio": float("inf"), "text": "", "yes": False, "raw": b"1234", "shape": "flat",
    "texts": ["a"], "numbers": [0, 9], "pairs": {"k": "v"},
}  # fmt: skip


@pytest.fixture
def sample(monkeypatch: pytest.MonkeyPatch) -> FrameSchema:
    monkeypatch.setattr("plait_core.wire.frame_types.frame_schema.FRAME_SCHEMAS", registry := {})
    control(0xF0)(Sample)
    found: FrameSchema = registry[0xF0]
    return found


def test_every_kind_of_field(sample: FrameSchema) -> None:
    frame = decode_control(sample, msgpack.packb(SAMPLE))
    assert frame == Sample(
        -(2**63), float("inf"), "", False, b"1234", Shape.FLAT, ("a",), (0, 9), {"k": "v"}, None
    )  # fmt: skip
    assert decode_control(sample, encode_frame(frame)[8:]) == frame


@pytest.mark.parametrize(
    ("name", "value"),
    [("number", True), ("ratio", None), ("ratio", True), ("text", 1), ("yes", 0), ("raw", b"12345"), ("raw", "1234"),
     ("shape", "square"), ("texts", [None]), ("numbers", [10]), ("numbers", {}), ("pairs", {"k": 1}),
     ("pairs", {b"k": "v"}), ("pairs", {"a": "", "b": "", "c": ""}), ("pairs", []), ("maybe", [None])],
)  # fmt: skip
def test_every_kind_of_field_refuses(sample: FrameSchema, name: str, value: Any) -> None:
    with pytest.raises(FrameError, match=name) as caught:
        decode_control(sample, msgpack.packb(SAMPLE | {name: value}))
    assert caught.value.fault is FrameFault.FIELD


@pytest.mark.parametrize("number", [0x00, 0x01, 0x0F, 0x13, 0x100])
def test_numbers_that_are_not_free(number: int) -> None:
    with pytest.raises(TypeError):
        control(number)


@pytest.mark.parametrize(
    "hint", [object, list[int], tuple[int, str], dict[str, int], int | str, Annotated[int, "mark"], Any]
)
def test_annotations_without_a_check_fail_at_import(hint: Any) -> None:
    declared = dataclass(frozen=True)(type("Odd", (ControlFrame,), {"__annotations__": {"field": hint}}))
    with pytest.raises(TypeError):
        control(0xF1)(declared)
    assert 0xF1 not in FRAME_SCHEMAS
