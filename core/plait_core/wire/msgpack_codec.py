"""All use of msgpack. Its errors about received bytes become exactly one FrameError here.

A decoder of hostile bytes raises more than its own errors (UnicodeDecodeError, OverflowError, RecursionError, TypeError
for keys that cannot be hashed). One tuple lists all of them, and no other module imports msgpack.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]

from ..errors import FrameError, FrameFault
from ..limits import WireLimits
from .msgpack_depth import check_nesting

FOREIGN: Final = (ValueError, TypeError, ArithmeticError, RecursionError, msgpack.UnpackException)
"""All exceptions that msgpack may raise about its input. Running out of memory is not among them."""

ExtType: Final[Any] = msgpack.ExtType

pack: Final = partial(msgpack.packb, buf_size=1024)
"""Encode one object. The initial buffer is small: some allocators map the default of 256 KiB anew for each event."""


def unpacker(**settings: Any) -> Callable[[bytes], Any]:
    """Return a function that strictly decodes one object. It may raise FOREIGN, which `foreign_fault` translates."""
    return partial(msgpack.unpackb, raw=False, use_list=True, strict_map_key=True, unicode_errors="strict", **settings)


def foreign_fault(error: BaseException) -> FrameError:
    """Translate an exception of FOREIGN to a FrameError. Its text may quote the input, so it is cut short."""
    text = str(error)
    fault = FrameFault.OVERSIZE if "exceeds max_" in text else FrameFault.BODY
    return FrameError(fault, f"msgpack refused: {type(error).__name__} {text[:120]}".rstrip())


def unpack_fields(body: bytes, limits: WireLimits) -> dict[str, Any]:
    """Decode the map of a control frame's body: text keys, without repetitions at any depth."""
    openers = len(body.translate(None, _NO_CONTAINERS))
    flat = openers == 1 and 0x80 <= body[0] <= _SMALL_MAP_MAX
    small = len(body) <= _SMALL_BYTES and openers <= limits.nesting_max
    if not flat and not small:
        check_nesting(body, limits.nesting_max, limits.control_items_max)
    try:
        fields = _unpack_flat(body) if flat else _unpack_small(body) if small else _unpack_control(body)
    except FOREIGN as error:
        check_nesting(body, limits.nesting_max, limits.control_items_max)  # names the fault of bytes that end too early
        raise foreign_fault(error) from None
    if flat and len(fields) != body[0] & 0x0F:
        raise FrameError(FrameFault.BODY, "a key comes twice in one map")
    if type(fields) is not dict or not all(type(name) is str for name in fields):
        raise FrameError(FrameFault.BODY, "a control frame's body is a map with text keys")
    return fields


def unpack_items(body: bytes, limits: WireLimits) -> list[Any]:
    """Decode the list of a listed frame's body. Its items are scalars, or small lists of later versions."""
    try:
        items = _unpack_listed(body)
    except FOREIGN as error:
        check_nesting(body, limits.nesting_max, limits.control_items_max)
        raise foreign_fault(error) from None
    if type(items) is not list:
        raise FrameError(FrameFault.BODY, "the body of a listed frame is a list")
    return items


def _distinct(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise FrameError(FrameFault.BODY, "a key comes twice in one map")
    return built


_SMALL_MAP_MAX: Final = 0x8F
"""The tag of a map with up to 15 entries is one byte. Most control frames are one such map of scalars."""
_NO_CONTAINERS: Final = bytes(tag for tag in range(256) if not (0x80 <= tag <= 0x9F or 0xDC <= tag <= 0xDF))
"""The bytes that open neither a map nor a list. With a single other byte, the first one, nothing can nest."""

_SMALL_BYTES: Final = 256
"""A body of so few bytes needs no walk if no more of them can open a container than may be nested. The decoder then
refuses lists that claim more items than this."""

_LISTED_MAX: Final = 64
"""Items of a listed frame, and of a list in it. No such frame has a tenth of them."""

_unpack_flat: Final = unpacker()
_unpack_listed: Final = unpacker(max_array_len=_LISTED_MAX, max_map_len=0)
# No max_*_len: check_nesting has compared every length with the bytes that are really there.
_unpack_control: Final = unpacker(object_pairs_hook=_distinct)
_unpack_small: Final = unpacker(object_pairs_hook=_distinct, max_array_len=_SMALL_BYTES, max_map_len=_SMALL_BYTES)
