"""The plaintext of an envelope: hidden attributes and payload. And the digest of the clear attributes bound to it.

Brokers read the clear attributes; the envelope is valid only with the event that it was sealed for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Final

from plait_core import Attributes, EventInvalid, FrameError, Value
from plait_core.limits import EVENT_LIMITS
from plait_core.values import check_attributes
from plait_core.wire.attributes import pack_attributes, reader_for

from .attributes.credentials import Credential
from .errors import SealInvalid, Unopenable
from .hazmat.hashing import digest

_LENGTH: Final = Struct(">I")
_reader = reader_for(EVENT_LIMITS)


@dataclass(frozen=True, slots=True)
class Plaintext:
    """The decrypted content."""

    hidden: Attributes
    payload: bytes

    def encode(self) -> bytes:
        """Return the bytes to encrypt; raise SealInvalid if they are too long."""
        if len(self.payload) > EVENT_LIMITS.payload_bytes_max:
            size, hint = len(self.payload), f"{EVENT_LIMITS.payload_bytes_max} (PAYLOAD_BYTES_MAX) are allowed"
            raise SealInvalid(f"a payload of {size} bytes", hint=hint)
        packed = _packed(self.hidden)
        return b"".join([_LENGTH.pack(len(packed)), packed, self.payload])

    @classmethod
    def decode(cls, encoded: bytes) -> Plaintext:
        """Parse the output of `encode`; raise Unopenable if it is invalid.

        Only a publisher with the right keys can cause that.
        """
        end = _LENGTH.size + _LENGTH.unpack_from(encoded)[0] if len(encoded) >= _LENGTH.size else len(encoded) + 1
        if end > len(encoded) or end - _LENGTH.size > EVENT_LIMITS.attributes_bytes_max:
            raise Unopenable
        try:
            hidden = check_attributes(_reader.attributes(encoded[_LENGTH.size : end]))
        except (FrameError, EventInvalid):
            raise Unopenable from None
        return cls(hidden, encoded[end:])


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


def _packed(attributes: Attributes) -> bytes:
    try:
        return pack_attributes(attributes, EVENT_LIMITS)
    except EventInvalid as error:
        raise SealInvalid(error.message, hint=error.hint) from None
