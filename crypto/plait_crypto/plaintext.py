"""The plaintext of an envelope, and the digest of the clear attributes bound to it.

    publication time, lifetime, priority;  sizes of headers, attributes, payload;  these three;  zeros

Brokers read the clear attributes; the envelope is valid only with the event that it was sealed for. They also have a
publication time, a lifetime and a priority in the clear, to route by. The reader uses the sealed ones. The zeros fill
the plaintext to a Padme size, which hides its length at a price of at most 12% (Nikitin et al., 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from plait_core import Attributes, EventInvalid, FrameError, Value
from plait_core.limits import EVENT_LIMITS
from plait_core.values import check_attributes
from plait_core.wire.attributes import pack_attributes, pack_headers, reader_for

from .attributes.credentials import Credential
from .errors import SealInvalid, Unopenable
from .hazmat.hashing import digest

_FIXED: Final = Struct(">QQBHII")
PLAINTEXT_HEAD_BYTES: Final = _FIXED.size
_PRIORITY_MAX: Final = 9
_reader = reader_for(EVENT_LIMITS)


@dataclass(frozen=True, slots=True)
class Metadata:
    """The rest of an event, beside attributes and payload, as its publisher sealed it."""

    published_us: int = 0
    """Publication time by the publisher's clock; 0: the time of sealing."""
    lifetime_us: int = 0
    """0: without limit."""
    priority: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)


NO_METADATA: Final = Metadata()


@dataclass(frozen=True, slots=True)
class Plaintext:
    """The decrypted content."""

    hidden: Attributes
    payload: bytes
    metadata: Metadata = NO_METADATA

    def encode(self) -> bytes:
        """Return the bytes to encrypt; raise SealInvalid if they are too long."""
        if len(self.payload) > EVENT_LIMITS.payload_bytes_max:
            size, hint = len(self.payload), f"{EVENT_LIMITS.payload_bytes_max} (PAYLOAD_BYTES_MAX) are allowed"
            raise SealInvalid(f"a payload of {size} bytes", hint=hint)
        packed, headers = _packed(self.hidden), _packed_headers(self.metadata.headers)
        told = self.metadata
        head = _FIXED.pack(
            told.published_us, told.lifetime_us, told.priority, len(headers), len(packed), len(self.payload)
        )
        used = b"".join([head, headers, packed, self.payload])
        return used + bytes(padded_size(len(used)) - len(used))

    @classmethod
    def decode(cls, encoded: bytes) -> Plaintext:
        """Parse the output of `encode`; raise Unopenable if it is invalid.

        Only a publisher with the right keys can cause that.
        """
        if len(encoded) < _FIXED.size:
            raise Unopenable
        published_us, lifetime_us, priority, *sizes = _FIXED.unpack_from(encoded)
        headers_at = _FIXED.size
        attributes_at = headers_at + sizes[0]
        payload_at = attributes_at + sizes[1]
        end = payload_at + sizes[2]
        if len(encoded) != padded_size(end) or any(encoded[end:]) or priority > _PRIORITY_MAX:
            raise Unopenable
        if sizes[0] > EVENT_LIMITS.headers_bytes_max or sizes[1] > EVENT_LIMITS.attributes_bytes_max:
            raise Unopenable
        try:
            headers = _reader.headers(encoded[headers_at:attributes_at])
            hidden = check_attributes(_reader.attributes(encoded[attributes_at:payload_at]))
        except (FrameError, EventInvalid):
            raise Unopenable from None
        return cls(hidden, encoded[payload_at:end], Metadata(published_us, lifetime_us, priority, headers))


@dataclass(frozen=True, slots=True)
class Opened:
    """An event that was opened and is authentic."""

    attributes: Attributes
    payload: bytes
    publisher: int
    sequence: int
    epoch: int
    grant: int
    """The publisher's grant that it was signed with."""
    credentials: tuple[tuple[str, Credential], ...]
    """The credentials that the publisher proved to have, for each attribute."""
    metadata: Metadata
    session: bytes = b""
    """The name of its session; empty for an event with a key of its own."""
    number: int = 0
    """Its number in the session, from 0."""
    until_us: int = 0
    """The end of its session."""


def padded_size(size: int) -> int:
    """Return the Padme size of this many bytes: it has few significant bits, so it reveals little of the length."""
    if size < 2:
        return size
    exponent = size.bit_length() - 1
    mask = (1 << exponent - exponent.bit_length()) - 1
    return size + mask & ~mask


def bound_digest(clear: Mapping[str, Value], bound: bytes) -> bytes:
    """Return the digest of everything in the clear beside an envelope: attributes in any order, and `bound`."""
    packed = _packed({name: clear[name] for name in sorted(clear)})
    return digest(b"clear", packed, bound)


def split(attributes: Mapping[str, Value], hidden: frozenset[str]) -> tuple[Attributes, Attributes]:
    """Return the hidden attributes, and those in the clear."""
    try:
        checked = check_attributes(attributes)
    except EventInvalid as error:
        raise SealInvalid(error.message, hint=error.hint) from None
    if missing := hidden - checked.keys():
        raise SealInvalid(f"no attribute {min(missing)[:80]} to hide", hint="hide attributes of the event")
    inside = {name: value for name, value in checked.items() if name in hidden}
    return inside, {name: value for name, value in checked.items() if name not in hidden}


def _packed_headers(headers: Mapping[str, str]) -> bytes:
    try:
        return pack_headers(dict(headers), EVENT_LIMITS)
    except EventInvalid as error:
        raise SealInvalid(error.message, hint=error.hint) from None


def _packed(attributes: Attributes) -> bytes:
    try:
        return pack_attributes(attributes, EVENT_LIMITS)
    except EventInvalid as error:
        raise SealInvalid(error.message, hint=error.hint) from None
