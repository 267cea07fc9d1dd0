"""Encode and decode attributes and headers as msgpack. Attributes are the part of an event that brokers read.

Integers beyond 64 bits are ext type 1: two's complement, big-endian, of the least length. No other ext, no bin, and no
nesting except a list of scalars. Names keep the publisher's order, so one event has one encoding.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from ..errors import EventInvalid, FrameError, FrameFault
from ..limits import EVENT_LIMITS, EventLimits, WireLimits
from ..native import kernel
from ..values import Attributes, is_name, is_reserved
from .msgpack_codec import FOREIGN, ExtType, foreign_fault, pack, unpacker
from .msgpack_depth import check_nesting

BIG_INT: Final = 1
"""The ext type of an integer that msgpack's own forms cannot hold."""

_NAMES_KEPT: Final = 8192
_SHORT: Final = EVENT_LIMITS.value_bytes_max // 4
"""Length of a text whose UTF-8 bytes are within the limit in any case."""
_LONG_LISTS_UNSCANNED: Final = 4
_SCALARS: Final[frozenset[type]] = frozenset({int, float, str, bool, type(None)})


_names_sent: Final[set[str]] = set()
"""Names that were checked, of attributes that this process has sent."""


def are_plain(attributes: dict[str, Any]) -> bool:
    """Return whether attributes can be sent as they are: scalars within the default limits, under checked names."""
    if len(attributes) > EVENT_LIMITS.attributes_max or not (attributes.keys() <= _names_sent or _learn(attributes)):
        return False
    for value in attributes.values():
        kind = type(value)
        if kind is str:
            if len(value) > _SHORT:
                return False
        elif kind is int:
            if not -(2**63) <= value < 2**63:
                return False
        elif kind is not float and kind is not bool and value is not None:
            return False
    return True


def pack_plain(attributes: object) -> bytes | None:
    """Encode plain attributes as msgpack. Return None if they need checks or conversion."""
    if type(attributes) is not dict or not are_plain(attributes):
        return None
    try:
        packed: bytes = pack(attributes)
    except ValueError:  # a text that is no UTF-8
        return None
    return packed if len(packed) <= EVENT_LIMITS.attributes_bytes_max else None


def _learn(attributes: dict[str, Any]) -> bool:
    """Check names. Return whether clients may send all of them."""
    for name in attributes:
        if type(name) is not str or not is_name(name) or is_reserved(name):
            return False
    if len(_names_sent) + len(attributes) > _NAMES_KEPT:
        _names_sent.clear()
    _names_sent.update(attributes)
    return True


def pack_attributes(attributes: Attributes, limits: EventLimits) -> bytes:
    """Encode attributes as msgpack; raise EventInvalid if they cannot be sent."""
    try:
        try:
            packed: bytes = pack(attributes)
        except OverflowError:
            packed = pack({name: _with_big_ints(value) for name, value in attributes.items()})
    except (ValueError, TypeError, OverflowError) as error:
        raise EventInvalid(f"attributes that cannot be sent: {error}") from error
    if len(packed) > limits.attributes_bytes_max:
        raise EventInvalid(f"{len(packed)} bytes of attributes, and {limits.attributes_bytes_max} are allowed")
    return packed


def pack_headers(headers: dict[str, str], limits: EventLimits) -> bytes:
    """Encode headers as msgpack: no bytes at all without headers."""
    if not headers:
        return b""
    try:
        packed: bytes = pack(headers)
    except (ValueError, TypeError) as error:
        raise EventInvalid(f"headers that cannot be sent: {error}") from error
    if len(packed) > limits.headers_bytes_max:
        raise EventInvalid(f"{len(packed)} bytes of headers, and {limits.headers_bytes_max} are allowed")
    return packed


def _with_big_ints(value: Any) -> Any:
    if type(value) is list:
        return [_with_big_ints(item) for item in value]
    if type(value) is not int or -(2**63) <= value < 2**64:
        return value
    return ExtType(BIG_INT, value.to_bytes(_least_length(value), signed=True))


def _least_length(value: int) -> int:
    """Return the number of bytes of the shortest two's complement."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1


class AttributeReader:
    """Decode attributes and headers within limits.

    Share one per limits (`reader_for`), because it caches checked names.
    """

    __slots__ = ("_attributes", "_headers", "_names", "_plain", "limits", "native")

    def __init__(self, limits: EventLimits, *, native: bool = True) -> None:
        """`native=False` disables the kernel, to compare it with this class."""
        self.limits = limits
        self._attributes = unpacker(
            ext_hook=self._big_int,
            max_str_len=max(limits.value_bytes_max, limits.name_bytes_max),  # one option for both values and names
            max_bin_len=0,
            max_ext_len=limits.int_bits_max // 8 + 1,
            max_array_len=limits.list_items_max,
            max_map_len=limits.attributes_max,
        )
        self._headers = unpacker(
            max_str_len=limits.headers_bytes_max,
            max_bin_len=0,
            max_ext_len=0,
            max_array_len=0,
            max_map_len=limits.headers_max,
        )
        # Names repeat from event to event: one subset test of checked names replaces a regular expression for each.
        self._names: set[str] = set()
        self._plain = _unchecked_types(limits)
        self.native = kernel.AttributeReader(WireLimits(event=limits)) if native and kernel is not None else None
        """Decodes plain attributes and leaves the rest, including faults, to this reader."""

    def attributes(self, packed: bytes) -> Attributes:
        """Decode attributes; raise FrameError if they are invalid."""
        if self.native is not None:
            found: Attributes | None = self.native.attributes(packed)
            if found is not None:
                return found
        if packed.count(b"\xdc") + packed.count(b"\xdd") > _LONG_LISTS_UNSCANNED:
            # So many of these bytes may be nested lists that claim megabytes. Nearly always they are parts of numbers.
            check_nesting(packed, depth_max=2, items_max=len(packed))
        try:
            attributes: Attributes = self._attributes(packed)
        except FOREIGN as error:
            raise foreign_fault(error) from None
        _check_map(attributes, packed)
        if not attributes.keys() <= self._names:
            self._check_names(attributes)
        plain = self._plain
        for value in attributes.values():
            if type(value) not in plain:
                self._check_value(value)
        return attributes

    def headers(self, packed: bytes) -> dict[str, str]:
        """Decode headers; raise FrameError if they are invalid."""
        if not packed:
            return {}
        try:
            headers: dict[str, str] = self._headers(packed)
        except FOREIGN as error:
            raise foreign_fault(error) from None
        _check_map(headers, packed)
        for name, text in headers.items():
            if type(name) is not str or not is_name(name.replace("-", "_"), self.limits):
                raise FrameError(FrameFault.FIELD, f"{name[:80]!r} is no header name")
            if type(text) is not str:
                raise FrameError(FrameFault.FIELD, f"header {name} is not a text")
        return headers

    def _check_names(self, attributes: Attributes) -> None:
        for name in attributes:
            if type(name) is not str or not is_name(name, self.limits):
                raise FrameError(FrameFault.FIELD, f"{name[:80]!r} is no attribute name")
        if len(self._names) + len(attributes) > _NAMES_KEPT:
            self._names.clear()
        self._names.update(attributes)

    def _check_value(self, value: object) -> None:
        items = value if type(value) is list else [value]
        for item in items:
            if type(item) not in _SCALARS:
                raise FrameError(FrameFault.FIELD, f"an attribute of type {type(item).__name__}")
            if type(item) is int and item.bit_length() > self.limits.int_bits_max:
                raise FrameError(FrameFault.OVERSIZE, f"an integer of over {self.limits.int_bits_max} bits")
            if type(item) is str and len(item.encode()) > self.limits.value_bytes_max:
                raise FrameError(FrameFault.OVERSIZE, f"text of over {self.limits.value_bytes_max} bytes")

    def _big_int(self, code: int, data: bytes) -> int:
        if code != BIG_INT:
            raise FrameError(FrameFault.FIELD, f"ext type {code} in attributes")
        value = int.from_bytes(data, signed=True)
        if -(2**63) <= value < 2**64 or len(data) != _least_length(value):
            raise FrameError(FrameFault.FIELD, "a big integer that is not in its least form")
        if value.bit_length() > self.limits.int_bits_max:
            raise FrameError(FrameFault.OVERSIZE, f"an integer of over {self.limits.int_bits_max} bits")
        return value


def _unchecked_types(limits: EventLimits) -> frozenset[type]:
    """Return the types whose decoded values are always within limits: all scalars, unless the limits are very low."""
    checked = {int: limits.int_bits_max < 64, str: limits.value_bytes_max < limits.name_bytes_max}
    return frozenset(kind for kind in _SCALARS if not checked.get(kind))


def _check_map(found: object, packed: bytes) -> None:
    """Check for a dict with as many entries as the bytes declare. With fewer, a name occurred twice."""
    if type(found) is not dict:
        raise FrameError(FrameFault.BODY, "attributes and headers are maps")
    tag = packed[0]
    if tag <= 0x8F:
        declared = tag & 0x0F
    else:
        declared = int.from_bytes(packed[1 : 3 if tag == 0xDE else 5])
    if len(found) != declared:
        raise FrameError(FrameFault.BODY, "a name comes twice in one map")


@lru_cache(maxsize=16)
def reader_for(limits: EventLimits) -> AttributeReader:
    """Return the reader that all decoders with these limits share."""
    return AttributeReader(limits)
