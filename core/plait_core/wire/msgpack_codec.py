"""The one door to msgpack: what it raises about foreign bytes becomes exactly one FrameError here.

A decoder that is fed hostile bytes raises more than its own errors (UnicodeDecodeError, OverflowError, RecursionError,
TypeError for keys that cannot be hashed), so all of them are named in one tuple and nobody else imports it.
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
"""All that msgpack may raise about bytes. Running out of memory is not about the bytes and passes."""

ExtType: Final[Any] = msgpack.ExtType

pack: Final = partial(msgpack.packb, buf_size=1024)
"""Packs one object. The buffer that it starts with is small: the default of 256 KiB is mapped anew for each event by
allocators that hand such sizes back to the system."""


def unpacker(**settings: Any) -> Callable[[bytes], Any]:
    """A function that unpacks one object, strictly; it may raise FOREIGN, which `foreign_fault` translates."""
    return partial(msgpack.unpackb, raw=False, use_list=True, strict_map_key=True, unicode_errors="strict", **settings)


def foreign_fault(error: BaseException) -> FrameError:
    """The FrameError that stands for one of FOREIGN. Its own text may quote the bytes, so it is cut short."""
    text = str(error)
    fault = FrameFault.OVERSIZE if "exceeds max_" in text else FrameFault.BODY
    return FrameError(fault, f"msgpack refused: {type(error).__name__} {text[:120]}".rstrip())


def unpack_fields(body: bytes, limits: WireLimits) -> dict[str, Any]:
    """The map that a control frame's body is: text keys, none of them twice, at any depth."""
    check_nesting(body, limits.nesting_max, limits.control_items_max)
    try:
        fields = _unpack_control(body)
    except FOREIGN as error:
        raise foreign_fault(error) from None
    if type(fields) is not dict or not all(type(name) is str for name in fields):
        raise FrameError(FrameFault.BODY, "a control frame's body is a map with text keys")
    return fields


def _distinct(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    built = dict(pairs)
    if len(built) != len(pairs):
        raise FrameError(FrameFault.BODY, "a key comes twice in one map")
    return built


# No max_*_len: check_nesting has held every length against the bytes that are really there.
_unpack_control: Final = unpacker(object_pairs_hook=_distinct)
