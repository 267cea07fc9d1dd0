"""A control frame's body is one map. A small map of scalars takes a shorter way, and has the same result."""

from __future__ import annotations

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import WIRE_LIMITS
from plait_core.wire import msgpack_codec
from plait_core.wire.msgpack_codec import unpack_fields
from plait_core.wire.msgpack_depth import check_nesting

FIELDS = {"request": 1, "filter": "a == 1", "rate": 2.5, "durable": "", "none": None, "yes": True, "low": -(2**63)}


def fault_of(body: bytes) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        unpack_fields(body, WIRE_LIMITS)
    return caught.value.fault


@pytest.mark.parametrize("count", [0, 1, 15, 16, 300])
def test_maps_of_every_size(count: int) -> None:
    fields = {f"field{number}": number for number in range(count)}
    assert unpack_fields(msgpack.packb(fields), WIRE_LIMITS) == fields


@pytest.mark.parametrize("extra", [[], [1, [2]], {"a": {"b": 1}}, "\u00e4\u00dc", b"\x80\x9f\xdc", 0xDCDD, 2**64 - 1])
def test_nested_maps_and_bytes_that_look_so(extra: object) -> None:
    fields = FIELDS | {"extra": extra}
    assert unpack_fields(msgpack.packb(fields), WIRE_LIMITS) == fields


@pytest.mark.parametrize("extra", [{}, {"extra": [1]}, {str(number): number for number in range(16)}])
def test_every_cut_has_the_fault_that_the_walk_over_the_structure_names(extra: dict[str, object]) -> None:
    body = bytes(msgpack.packb(FIELDS | extra))
    for cut in range(len(body)):
        with pytest.raises(FrameError) as caught:
            check_nesting(body[:cut], 32, 1 << 20)
        assert fault_of(body[:cut]) is caught.value.fault is FrameFault.TRUNCATED
    assert fault_of(body + b"\x00") is FrameFault.BODY


@pytest.mark.parametrize(
    "body",
    [
        b"\x82\xa1a\x01\xa1a\x02",
        b"\xde\x00\x02\xa1a\x01\xa1a\x02",
        b"\x81\xa1b\x82\xa1a\x01\xa1a\x02",
        b"\x81\x01\x02",
        b"\x81\xc4\x01a\x01",
        b"\x81\xa1\xff\x01",
        b"\x01",
        b"\xa1a",
        b"\x90",
        b"\x91\x01",
    ],
    ids=["twice", "twice in a long map", "twice inside", "a number", "bytes", "no UTF-8", "1", "text", "[]", "[1]"],
)
def test_what_is_no_map_with_distinct_text_keys(body: bytes) -> None:
    assert fault_of(body) is FrameFault.BODY


@pytest.mark.parametrize("tag", [b"\xdb", b"\xc6", b"\xc9"])
def test_a_length_that_is_not_there_is_not_allocated(tag: bytes) -> None:
    assert fault_of(b"\x81\xa1a" + tag + b"\x7f\xff\xff\xff") is FrameFault.TRUNCATED


@given(st.recursive(st.integers(0, 300) | st.binary(max_size=9), lambda some: st.lists(some, max_size=4)), st.data())
def test_a_small_body_without_the_walk_has_the_result_of_one_with_it(nested: object, data: st.DataObject) -> None:
    body = bytearray(msgpack.packb({"to": [1], "nested": nested}))
    for _ in range(data.draw(st.integers(0, 2))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    found = result_of(bytes(body))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(msgpack_codec, "_SMALL_BYTES", -1)
        assert result_of(bytes(body)) == found


def result_of(body: bytes) -> object:
    """Return the fields, or the fault."""
    try:
        return unpack_fields(body, WIRE_LIMITS)
    except FrameError as error:
        return error.fault
