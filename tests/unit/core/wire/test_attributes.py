"""Attributes and headers: valid values, their bytes, and the refused ones."""

from __future__ import annotations

import math
import threading
from typing import Any

import msgpack
import pytest

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import ATTRIBUTES_MAX, EVENT_LIMITS, EventLimits
from plait_core.wire.attributes import AttributeReader, pack_attributes, pack_headers, reader_for

READER = AttributeReader(EVENT_LIMITS)
LOW = AttributeReader(
    EventLimits(attributes_max=2, name_bytes_max=8, value_bytes_max=4, int_bits_max=16, list_items_max=2, headers_max=1)
)


def fault_of(packed: bytes, reader: AttributeReader = READER) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        reader.attributes(packed)
    return caught.value.fault


def header_fault_of(packed: bytes, reader: AttributeReader = READER) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        reader.headers(packed)
    return caught.value.fault


@pytest.mark.parametrize(
    "value",
    [0, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**63) - 1, 2**256 - 1, -(2**256) + 1, -(2**255), 2**71 - 1, 2**71,
     1.5, -0.0, math.inf, -math.inf, "", "é🜁", "x" * 16384, True, False, None,
     [], [1, 2**100, "x", None, True, 0.5], ["x"] * 1024],
)  # fmt: skip
def test_there_and_back(value: Any) -> None:
    found = READER.attributes(pack_attributes({"a": value}, EVENT_LIMITS))["a"]
    assert repr(found) == repr(value)
    assert type(found) is type(value)


def test_nan_is_a_float() -> None:
    assert math.isnan(READER.attributes(pack_attributes({"a": math.nan}, EVENT_LIMITS))["a"])  # type: ignore[arg-type]


def test_no_attributes_and_most_attributes() -> None:
    for count in (0, 15, 16, ATTRIBUTES_MAX):
        attributes: dict[str, Any] = {f"a{number}": number for number in range(count)}
        assert READER.attributes(pack_attributes(attributes, EVENT_LIMITS)) == attributes


def test_big_integers_are_shortest_twos_complement() -> None:
    assert pack_attributes({"a": 2**64}, EVENT_LIMITS).hex() == "81a161" + "c70901" + "010000000000000000"
    assert pack_attributes({"a": -(2**63) - 1}, EVENT_LIMITS).hex() == "81a161" + "c70901" + "ff7fffffffffffffff"


def big(length: int, value: int, code: int = 1) -> bytes:
    return b"\x81\xa1a" + msgpack.packb(msgpack.ExtType(code, value.to_bytes(length, signed=True)))


@pytest.mark.parametrize(
    ("packed", "fault"),
    [
        (big(1, 5), FrameFault.FIELD),  # fits msgpack's own forms
        (big(9, 2**64 - 1), FrameFault.FIELD),
        (big(8, -(2**63)), FrameFault.FIELD),
        (big(10, 2**64), FrameFault.FIELD),  # a byte too many
        (big(33, 2**255 - 1), FrameFault.FIELD),
        (big(34, 2**264), FrameFault.OVERSIZE),
        (big(33, -(2**256)), FrameFault.OVERSIZE),  # 257 bits in 33 bytes
        (big(9, 2**64, code=2), FrameFault.FIELD),
        (b"\x81\xa1a\xd6\xff\x00\x00\x00\x01", FrameFault.FIELD),  # a timestamp
        (b"\x81\xa1a\xc7\x00\x01", FrameFault.FIELD),  # no bytes
        (b"\x81\xa1a\xc7\x05\xff12345", FrameFault.BODY),  # a timestamp of no known length
        (b"\x81\xa1a\xc4\x00", FrameFault.FIELD),  # bin
        (b"\x81\xa1a\xc4\x01x", FrameFault.OVERSIZE),
        (b"\x81\xa1a\x91\x90", FrameFault.FIELD),  # a list in a list
        (b"\x81\xa1a\x80", FrameFault.FIELD),
        (b"\x81\xa1a\x91\x80", FrameFault.FIELD),
        (b"\x81\x01\x01", FrameFault.BODY),  # a key that is not a text
        (b"\x81\xc4\x01a\x01", FrameFault.OVERSIZE),
        (b"\x81\xc4\x00\x01", FrameFault.FIELD),
        (b"\x81\x90\x01", FrameFault.BODY),
        (b"\x82\xa1a\x01\xa1a\x02", FrameFault.BODY),  # twice
        (b"\xde\x00\x02\xa1a\x01\xa1a\x02", FrameFault.BODY),
        (b"\xdf\x00\x00\x00\x02\xa1a\x01\xa1a\x02", FrameFault.BODY),
        (b"\x81\xa0\x01", FrameFault.FIELD),
        (b"\x81\xa2a-\x01", FrameFault.FIELD),
        (b"\x81\xa2a\n\x01", FrameFault.FIELD),
        (b"\x81\xd9\x81" + b"a" * 129 + b"\x01", FrameFault.FIELD),
        (b"\x81\xa1a\xa2\xff\xfe", FrameFault.BODY),  # UTF-8
        (b"\x81\xa1a\xa3\xed\xa0\x80", FrameFault.BODY),  # a surrogate in UTF-8
        (b"\x81\xa1\xff\x01", FrameFault.BODY),
        (b"", FrameFault.BODY),
        (b"\x80\x80", FrameFault.BODY),  # more after the end
        (b"\x81\xa1a", FrameFault.BODY),
        (b"\xc1", FrameFault.BODY),
        (b"\x90", FrameFault.BODY),
        (b"\x01", FrameFault.BODY),
        (b"\xdf\xff\xff\xff\xff", FrameFault.OVERSIZE),
        (b"\x81\xa1a\xdd\xff\xff\xff\xff", FrameFault.OVERSIZE),
        (b"\x81\xa1a\xdb\xff\xff\xff\xff", FrameFault.BODY),
        (b"\x81\xa1a\xda\x40\x01" + b"x" * 16385, FrameFault.OVERSIZE),
        (b"\x81\xa1a\xdc\x04\x01" + b"\x00" * 1025, FrameFault.OVERSIZE),
        (b"\xde\x01\x01" + b"".join(b"\xa3a%02x\x01" % number for number in range(257)), FrameFault.OVERSIZE),
        (b"\x81\xa1a" + b"\x91" * 5000, FrameFault.BODY),
        (b"\x81\xa1a" + b"\xdc\x04\x00" * 300, FrameFault.OVERSIZE),
    ],
)
def test_refusals(packed: bytes, fault: FrameFault) -> None:
    assert fault_of(packed) is fault


@pytest.mark.parametrize(
    ("attributes", "accepted"),
    [
        ({"a": 65535}, True),
        ({"a": 65536}, False),
        ({"a": [65536]}, False),
        ({"a": 2**70}, False),
        ({"a": "1234"}, True),
        ({"a": "12345"}, False),
        ({"a": "éé"}, True),
        ({"a": "ééé"}, False),
        ({"a": ["12345"]}, False),
        ({"a": [1, 2]}, True),
        ({"a": [1, 2, 3]}, False),
        ({"a2345678": 1}, True),
        ({"a23456789": 1}, False),
        ({"a": 1, "b": 2, "c": 3}, False),
    ],
)
def test_limits_are_parameters(attributes: dict[str, Any], accepted: bool) -> None:
    packed = pack_attributes(attributes, EVENT_LIMITS)
    assert READER.attributes(packed) == attributes
    if accepted:
        assert LOW.attributes(packed) == attributes
    else:
        assert fault_of(packed, LOW) in (FrameFault.OVERSIZE, FrameFault.FIELD)


def test_bytes_that_look_like_lists_are_no_lists() -> None:
    attributes: dict[str, Any] = {"a": "܀ݛ" * 20, "b": 0xDCDDDCDDDCDDDCDD}
    assert READER.attributes(pack_attributes(attributes, EVENT_LIMITS)) == attributes


def test_as_many_names_as_you_like() -> None:
    for start in range(0, 20_000, 200):
        attributes: dict[str, Any] = {f"n{number}": None for number in range(start, start + 200)}
        assert READER.attributes(pack_attributes(attributes, EVENT_LIMITS)) == attributes
    assert len(READER._names) <= 8192


def test_readers_are_shared() -> None:
    assert reader_for(EVENT_LIMITS) is reader_for(EventLimits())


@pytest.mark.parametrize("depth", [33, 1023, 1024, 10_000, 60_000])
def test_depth_in_a_thread_with_a_small_stack(depth: int) -> None:
    faults: list[FrameFault] = []
    before = threading.stack_size(64 * 1024)
    try:
        thread = threading.Thread(target=lambda: faults.append(fault_of(b"\x81\xa1a" + b"\x91" * depth + b"\x01")))
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert faults in ([FrameFault.BODY], [FrameFault.FIELD])


# --- headers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Trace-Id": ""}, {"a.b": "é", "$x": "y" * 1000}])
def test_headers_there_and_back(headers: dict[str, str]) -> None:
    assert READER.headers(pack_headers(headers, EVENT_LIMITS)) == headers


def test_no_headers_are_no_bytes() -> None:
    assert pack_headers({}, EVENT_LIMITS) == b""
    assert READER.headers(b"\x80") == {}


@pytest.mark.parametrize(
    ("packed", "fault"),
    [
        (b"\x81\xa1h\x01", FrameFault.FIELD),
        (b"\x81\xa1h\xc0", FrameFault.FIELD),
        (b"\x81\xa1h\x90", FrameFault.FIELD),
        (b"\x81\xa1h\x91\x01", FrameFault.OVERSIZE),
        (b"\x81\xa1h\xd4\x01x", FrameFault.OVERSIZE),
        (b"\x81\xa2h \xa1v", FrameFault.FIELD),
        (b"\x81\xa0\xa1v", FrameFault.FIELD),
        (b"\x81\xc4\x00\xa1v", FrameFault.FIELD),
        (b"\x82\xa1h\xa1v\xa1h\xa1w", FrameFault.BODY),
        (b"\x81\xa1h", FrameFault.BODY),
        (b"\x01", FrameFault.BODY),
        (b"\x81\xa1h\xa1\xff", FrameFault.BODY),
        (b"\xde\x00\x41", FrameFault.OVERSIZE),
    ],
)
def test_header_refusals(packed: bytes, fault: FrameFault) -> None:
    assert header_fault_of(packed) is fault


def test_header_limits_are_parameters() -> None:
    assert header_fault_of(pack_headers({"a": "", "b": ""}, EVENT_LIMITS), LOW) is FrameFault.OVERSIZE
