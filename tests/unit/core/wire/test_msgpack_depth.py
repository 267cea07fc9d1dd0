"""The walk over msgpack's structure accepts exactly what msgpack decodes as one object, within its bounds."""

from __future__ import annotations

import msgpack
import pytest

from plait_core.errors import FrameError, FrameFault
from plait_core.wire.msgpack_depth import check_nesting

OBJECTS = [
    None, True, 0, 127, 128, 255, 256, 2**16, 2**32, 2**64 - 1, -1, -32, -33, -129, -(2**15) - 1, -(2**63), 1.5,
    "", "x" * 31, "x" * 32, "x" * 256, "x" * 65536, b"", b"x" * 256, b"x" * 65536,
    *[msgpack.ExtType(1, b"x" * size) for size in (0, 1, 2, 3, 4, 8, 16, 17, 256, 65536)],
    [], [1] * 15, [1] * 16, [None] * 65536, {}, {"a": [{"b": [1]}]}, {str(n): n for n in range(65536)},
]  # fmt: skip


def fault_of(body: bytes, depth_max: int = 32, items_max: int = 1 << 20) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        check_nesting(body, depth_max, items_max)
    return caught.value.fault


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: repr(value)[:20])
def test_every_form(value: object) -> None:
    body = bytes(msgpack.packb(value))
    check_nesting(body, 32, 1 << 20)
    assert fault_of(body + b"\x00") is FrameFault.BODY
    for cut in {0, 1, 2, 3, 4, 5, 6, len(body) // 2, len(body) - 1}:
        if cut < len(body):
            assert fault_of(body[:cut]) is FrameFault.TRUNCATED


@pytest.mark.parametrize(
    "opening", [b"\x91", b"\x81\x01", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01", b"\xde\x00\x01\x01"]
)
def test_depth(opening: bytes) -> None:
    check_nesting(opening * 32 + b"\x01", 32, 100)
    assert fault_of(opening * 33 + b"\x01") is FrameFault.BODY
    assert fault_of(opening * 1_000_000 + b"\x01") is FrameFault.BODY


def test_siblings_are_not_depth() -> None:
    check_nesting(b"\x9f" + b"\x91\x01" * 15, 2, 100)


@pytest.mark.parametrize(
    "body", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\x92\x91\x01\x92\x01\x01", b"\x82\x01\x01\x01\x01"]
)
def test_items_are_counted_as_claimed(body: bytes) -> None:
    assert fault_of(body, items_max=3) is FrameFault.OVERSIZE
