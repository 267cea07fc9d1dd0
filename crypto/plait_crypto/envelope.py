"""The sealed event on the wire: its parts, and which of them are in the clear.

    head       version, kind, realm (16 bytes of its digest), epoch, slot, publisher, sequence
    shape      rows, then the places of each
    capsule    the encapsulated key (`hazmat.capsule`)
    signature  encrypted: number of the publisher's grant, a place for each row, the signature
    body       encrypted: hidden attributes and payload

A member of a session has, in place of shape, capsule and signature, the session's name, its number in it and a proof:

    leaf, leaves, digests up to the root, the root's signature

An envelope that does not parse is Unopenable, like one that does not open.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from .errors import Unopenable
from .hazmat import Capsule, PointInvalid, Shape
from .hazmat.capsule import capsule_bytes
from .hazmat.hashing import DIGEST_BYTES
from .hazmat.scheme import signature_bytes
from .limits import BATCH_MAX, BODY_BYTES_MAX, PLACES_MAX, ROWS_MAX
from .plaintext import PLAINTEXT_HEAD_BYTES

VERSION: Final = 2
EVENT, OPENING, MEMBER = 1, 2, 3
"""Kinds: an event with its own key, the opening of a session, an event of a session."""

REALM_BYTES: Final = 16
SESSION_BYTES: Final = 16
AEAD_BYTES: Final = 16
"""Bytes that ChaCha20-Poly1305 adds."""

ROOT_SIGNATURE_BYTES: Final = 64
GRANT_BYTES: Final = 4
PLACE_BYTES: Final = 1

_HEAD: Final = Struct(f">BB{REALM_BYTES}sIIQQ")
_MEMBER_HEAD: Final = Struct(f">BB{SESSION_BYTES}sIQQ")

assert PLACES_MAX <= 256, "a place is one byte"
assert BATCH_MAX <= 255, "a leaf is one byte"


@dataclass(frozen=True, slots=True)
class Head:
    """The public part of an event with its own key."""

    kind: int
    realm: bytes
    epoch: int
    slot: int
    publisher: int
    sequence: int

    def encode(self) -> bytes:
        """Return the first bytes of the envelope."""
        return _HEAD.pack(VERSION, self.kind, self.realm, self.epoch, self.slot, self.publisher, self.sequence)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A sealed event with its own key, in its parts."""

    head: Head
    capsule: Capsule
    signature: bytes
    body: bytes

    def encode(self) -> bytes:
        """Return the envelope's bytes."""
        return b"".join(
            [self.head.encode(), shape_text(self.capsule.shape), self.capsule.encoded, self.signature, self.body]
        )

    @classmethod
    def decode(cls, encoded: bytes) -> Envelope:
        """Parse the output of `encode`; raise Unopenable if it is invalid."""
        if len(encoded) <= _HEAD.size:
            raise Unopenable
        version, kind, realm, epoch, slot, publisher, sequence = _HEAD.unpack_from(encoded)
        rows = encoded[_HEAD.size]
        if version != VERSION or kind not in (EVENT, OPENING) or not 1 <= rows <= ROWS_MAX:
            raise Unopenable
        at = _HEAD.size + 1 + rows
        shape = tuple(encoded[_HEAD.size + 1 : at])
        ends = at + capsule_bytes(shape), at + capsule_bytes(shape) + signature_box_bytes(rows)
        if max(shape, default=0) > PLACES_MAX or not AEAD_BYTES <= len(encoded) - ends[1] <= BODY_BYTES_MAX:
            raise Unopenable
        try:
            capsule = Capsule(shape, encoded[at : ends[0]])
        except PointInvalid:
            raise Unopenable from None
        head = Head(kind, realm, epoch, slot, publisher, sequence)
        return cls(head, capsule, encoded[ends[0] : ends[1]], encoded[ends[1] :])


@dataclass(frozen=True, slots=True)
class MemberHead:
    """The public part of an event of a session."""

    session: bytes
    number: int
    publisher: int
    sequence: int

    def encode(self) -> bytes:
        """Return the first bytes of the envelope."""
        return _MEMBER_HEAD.pack(VERSION, MEMBER, self.session, self.number, self.publisher, self.sequence)


@dataclass(frozen=True, slots=True)
class Member:
    """An event of a session, in its parts."""

    head: MemberHead
    leaf: int
    leaves: int
    siblings: tuple[bytes, ...]
    root_signature: bytes
    body: bytes

    def encode(self) -> bytes:
        """Return the envelope's bytes."""
        proof = bytes((self.leaf, self.leaves))
        return b"".join([self.head.encode(), proof, *self.siblings, self.root_signature, self.body])

    @classmethod
    def decode(cls, encoded: bytes) -> Member:
        """Parse the output of `encode`; raise Unopenable if it is invalid."""
        at = _MEMBER_HEAD.size + 2
        if len(encoded) < at:
            raise Unopenable
        version, kind, session, number, publisher, sequence = _MEMBER_HEAD.unpack_from(encoded)
        leaf, leaves = encoded[at - 2], encoded[at - 1]
        if version != VERSION or kind != MEMBER or not 0 <= leaf < leaves <= BATCH_MAX:
            raise Unopenable
        signature_at = at + DIGEST_BYTES * proof_digests(leaves)
        body_at = signature_at + ROOT_SIGNATURE_BYTES
        if not AEAD_BYTES <= len(encoded) - body_at <= BODY_BYTES_MAX:
            raise Unopenable
        siblings = tuple(encoded[start : start + DIGEST_BYTES] for start in range(at, signature_at, DIGEST_BYTES))
        head = MemberHead(session, number, publisher, sequence)
        return cls(head, leaf, leaves, siblings, encoded[signature_at:body_at], encoded[body_at:])


def kind_of(encoded: bytes) -> int:
    """Return the kind of an envelope; raise Unopenable if it has none."""
    if len(encoded) < 2 or encoded[0] != VERSION or encoded[1] not in (EVENT, OPENING, MEMBER):
        raise Unopenable
    return encoded[1]


def shape_text(shape: Shape) -> bytes:
    """Encode the shape of a capsule."""
    return bytes((len(shape), *shape))


def signature_box_bytes(rows: int) -> int:
    """Return the size of the encrypted signature."""
    return GRANT_BYTES + PLACE_BYTES * rows + signature_bytes(rows) + AEAD_BYTES


def overhead_bytes(shape: Shape) -> int:
    """Return the bytes that sealing adds to hidden attributes and payload."""
    fixed = AEAD_BYTES + PLAINTEXT_HEAD_BYTES
    return _HEAD.size + 1 + len(shape) + capsule_bytes(shape) + signature_box_bytes(len(shape)) + fixed


def proof_digests(leaves: int) -> int:
    """Return the number of digests from a leaf up to the root."""
    return (leaves - 1).bit_length()
