"""Check msgpack's structure before decoding it.

The decoder bounds depth only at 1,024 and allocates every list at its claimed length, so a few kilobytes of nested
headers cost megabytes. This walk stores only the open containers. It checks depth, claimed items and false lengths. All
other checks are left to the decoder.
"""

from __future__ import annotations

from typing import Final

from ..errors import FrameError, FrameFault

_BIN: Final = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0)}
_EXT: Final = {0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_STR: Final = {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
_LENGTHS: Final = _BIN | _EXT | _STR
"""Bytes of the length after the tag, and of the ext code after the length."""

_ARRAY: Final = {0xDC: (2, 1), 0xDD: (4, 1)}
_MAP: Final = {0xDE: (2, 2), 0xDF: (4, 2)}
_COUNTS: Final = _ARRAY | _MAP
"""Bytes of the count after the tag, and objects per counted item."""


def _whole_size(tag: int) -> int:
    """Return the bytes of an object whose tag determines its size, tag included. Return 0 for all others."""
    if tag <= 0x7F or tag >= 0xE0 or 0xC0 <= tag <= 0xC3:  # small ints, nil, false, true (and 0xC1, never used)
        return 1
    if 0xA0 <= tag <= 0xBF:  # fixstr
        return 1 + (tag & 0x1F)
    if 0xCA <= tag <= 0xD3:  # float 32, 64; uint 8 to 64; int 8 to 64
        return (5, 9, 2, 3, 5, 9, 2, 3, 5, 9)[tag - 0xCA]
    if 0xD4 <= tag <= 0xD8:  # fixext
        return 2 + (1 << (tag - 0xD4))
    return 0


_WHOLE_SIZES: Final = tuple(_whole_size(tag) for tag in range(256))


def check_nesting(body: bytes, depth_max: int, items_max: int) -> None:
    """Raise FrameError unless `body` is exactly one object of bounded depth and items."""
    at, stop, left, items = 0, len(body), 1, 0
    outer: list[int] = []  # objects still to come in each container around this one
    while True:
        while not left:
            if not outer:
                return _check_end(at, stop)
            left = outer.pop()
        if at >= stop:
            raise FrameError(FrameFault.TRUNCATED, "msgpack ends before what its lengths promise")
        left -= 1
        tag = body[at]
        size = _WHOLE_SIZES[tag]
        if size:
            at += size
        elif tag in _LENGTHS:
            at = _after_text(body, at, *_LENGTHS[tag])
        else:
            outer.append(left)
            at, left = _container(body, at, tag)
            items += left
            if len(outer) > depth_max:
                raise FrameError(FrameFault.BODY, f"msgpack nested deeper than {depth_max}")
            if items > items_max:
                raise FrameError(FrameFault.OVERSIZE, f"over {items_max} msgpack items")


def _check_end(at: int, stop: int) -> None:
    if at > stop:
        raise FrameError(FrameFault.TRUNCATED, "msgpack ends before what its lengths promise")
    if at < stop:
        raise FrameError(FrameFault.BODY, f"{stop - at} bytes after the end of msgpack")


def _after_text(body: bytes, at: int, width: int, code: int) -> int:
    return at + 1 + width + code + int.from_bytes(body[at + 1 : at + 1 + width])


def _container(body: bytes, at: int, tag: int) -> tuple[int, int]:
    """Return the offset of the first item, and the number of items (keys and values counted separately)."""
    if tag <= 0x8F:
        return at + 1, 2 * (tag & 0x0F)
    if tag <= 0x9F:
        return at + 1, tag & 0x0F
    width, each = _COUNTS[tag]
    return at + 1 + width, each * int.from_bytes(body[at + 1 : at + 1 + width])
