"""The event block: the bytes of one event, identical in every frame that carries it, and never rewritten on its way.

`>QQqqBBHI`: publisher, sequence, published_us, lifetime_us, flags, priority, bytes of headers, bytes of attributes;
then the attributes, the headers and, to the end, the payload. Attributes come first because brokers read nothing else.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from ..errors import EventInvalid, FrameError, FrameFault
from ..events import I64_MAX, Event, EventId
from ..limits import EVENT_LIMITS, PRIORITY_MAX, EventLimits
from ..values import Attributes
from .attributes import AttributeReader, pack_attributes, pack_headers, pack_plain, reader_for

_BLOCK: Final = Struct(">QQqqBBHI")
PRIORITY_AT: Final = 33
"""Where the priority is in a block: one byte."""

BLOCK_BYTES: Final = _BLOCK.size

FLAGS_KNOWN: Final = 0
"""Flags of an event block that are defined: none in version 1."""

DEFAULT_READER: Final = reader_for(EVENT_LIMITS)


def encode_block(event: Event, limits: EventLimits = EVENT_LIMITS) -> bytes:
    """Encode an event that `Event.checked` accepts; raise EventInvalid if its parts are too large to send."""
    attributes = pack_attributes(event.attributes, limits)
    headers = pack_headers(event.headers, limits)
    if len(event.payload) > limits.payload_bytes_max:
        raise EventInvalid(f"a payload of {len(event.payload)} bytes, and {limits.payload_bytes_max} are allowed")
    try:
        fixed = _BLOCK.pack(
            event.publisher,
            event.sequence,
            event.published_us,
            event.lifetime_us,
            0,
            event.priority,
            len(headers),
            len(attributes),
        )
    except StructError as error:
        raise EventInvalid(f"an event that cannot be sent: {error}") from error
    return b"".join((fixed, attributes, headers, event.payload))


def encode_plain_block(
    attributes: object, payload: object, publisher: int, sequence: int, published_us: int
) -> bytes | None:
    """Encode an event of unchecked parts if they are plain: scalars within the default limits, and bytes."""
    if type(payload) is not bytes or len(payload) > EVENT_LIMITS.payload_bytes_max:
        return None
    packed = pack_plain(attributes)
    if packed is None:
        return None
    return _BLOCK.pack(publisher, sequence, published_us, 0, 0, 0, 0, len(packed)) + packed + payload


class EventFrame:
    """The common part of the three hot frames. Identity is decoded at once, attributes at their first use.

    The block is one bytes object of its own. A view into its read would save a copy of a few hundred bytes, but then
    one queued event could keep all 64 KiB of that read in memory.
    """

    __slots__ = (
        "_attributes",
        "_attributes_end",
        "_payload_start",
        "_reader",
        "block",
        "lifetime_us",
        "priority",
        "published_us",
        "publisher",
        "sequence",
    )

    def __init__(self, block: bytes, reader: AttributeReader = DEFAULT_READER) -> None:
        if len(block) < BLOCK_BYTES:
            raise FrameError(FrameFault.TRUNCATED, f"an event block of {len(block)} bytes")
        (
            self.publisher,
            self.sequence,
            self.published_us,
            lifetime_us,
            flags,
            priority,
            headers_bytes,
            attributes_bytes,
        ) = _BLOCK.unpack_from(block)
        attributes_end = BLOCK_BYTES + attributes_bytes
        payload_start = attributes_end + headers_bytes
        limits = reader.limits
        if (
            payload_start > len(block)
            or attributes_bytes > limits.attributes_bytes_max
            or headers_bytes > limits.headers_bytes_max
            or len(block) - payload_start > limits.payload_bytes_max
        ):
            raise _lengths_fault(len(block), attributes_bytes, headers_bytes, limits)
        if lifetime_us < 0 or flags & ~FLAGS_KNOWN or priority > PRIORITY_MAX or self.published_us < -I64_MAX:
            raise FrameError(FrameFault.FIELD, f"{lifetime_us=} {flags=} {priority=} {self.published_us=}")
        self.block = block
        self.lifetime_us: int = lifetime_us
        self.priority: int = priority
        self._attributes_end = attributes_end
        self._payload_start = payload_start
        self._reader = reader
        self._attributes: Attributes | None = None

    @property
    def id(self) -> EventId:
        return EventId(self.publisher, self.sequence)

    def attributes(self) -> Attributes:
        """Return the attributes, or raise FrameError.

        Decoded once: all callers get the same dict and must not change it.
        """
        if self._attributes is None:
            self._attributes = self._reader.attributes(self.block[BLOCK_BYTES : self._attributes_end])
        return self._attributes

    @property
    def has_dollar_name(self) -> bool:
        """Whether the name of an attribute begins with `$`.

        Also true of attributes with a `$` that cannot be decoded: `attributes` raises their error.
        """
        if self.block.find(b"$", BLOCK_BYTES, self._attributes_end) < 0:
            return False
        try:
            return any(name.startswith("$") for name in self.attributes())
        except FrameError:
            return True

    def headers(self) -> dict[str, str]:
        """Return the headers, or raise FrameError. Decoded at every call, because brokers never need them."""
        return self._reader.headers(self.block[self._attributes_end : self._payload_start])

    @property
    def payload(self) -> bytes:
        return self.block[self._payload_start :]

    def event(self) -> Event:
        """Return the whole event, or raise FrameError."""
        return Event(
            self.attributes(),
            self.payload,
            self.publisher,
            self.sequence,
            self.published_us,
            self.lifetime_us,
            self.priority,
            self.headers(),
        )

    def _route(self) -> tuple[object, ...]:
        """Return the fields of the frame's route, for comparison and printing."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.block == other.block and self._route() == other._route()

    __hash__ = None  # type: ignore[assignment]  # a queue or table of frames is keyed by event id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id}, {self._route()}, {len(self.block)} bytes)"


def _lengths_fault(block_bytes: int, attributes_bytes: int, headers_bytes: int, limits: EventLimits) -> FrameError:
    counts = f"{attributes_bytes} bytes of attributes and {headers_bytes} of headers in an event block of {block_bytes}"
    if attributes_bytes > limits.attributes_bytes_max or headers_bytes > limits.headers_bytes_max:
        return FrameError(FrameFault.OVERSIZE, counts)
    if BLOCK_BYTES + attributes_bytes + headers_bytes > block_bytes:
        return FrameError(FrameFault.TRUNCATED, counts)
    return FrameError(FrameFault.OVERSIZE, f"a payload of over {limits.payload_bytes_max} bytes")
