"""The bytes inside the frames of stream groups: members of a tree, and the events of a batch with their signature.

The root signs a list of digests, one for each event of a batch. A broker gets the events for its part of the tree, and
the digests of the others. So one signature serves many events, and no member can make up an event for another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from ..errors import FrameError, FrameFault
from ..limits import BROKERS_MAX
from .frame_types.group_frames import MEMBER_BYTES

DIGEST_BYTES: Final = 16
"""Bytes of a digest. A second event with the same digest would take 2^128 attempts."""

BATCH_EVENTS_MAX: Final = 1024
"""Events of one batch."""

DELAY_US_MAX: Final = 1 << 62
"""Greatest age of an event: sums of ages stay within 64 bits."""

_MEMBER: Final = Struct(">QQQHH")
_HEAD: Final = Struct(">QHB")
_EVENT: Final = Struct(">QBHI")
_DIGESTED: Final = Struct(">QB")
_CLAIM: Final = Struct(">BQQQH")
_CLAIM_KIND: Final = 0x54

assert _MEMBER.size == MEMBER_BYTES


class GroupMember(NamedTuple):
    """One broker of a tree."""

    id: int
    after: int
    """The position in its own stream from the root whose events come before those of the group; 0 for none."""
    proof: int
    """The root's MAC of its place."""
    size: int
    """Brokers in its subtree, itself included."""
    follows: int
    """1 if it is a member of the group before, whose events come first."""


class GroupEvent(NamedTuple):
    """One event of a batch."""

    position: int
    delay_us: int
    flags: int
    members: int
    """The bit set of its destinations, as an integer: bit 0 is the receiver."""
    block: bytes


class EventBatch(NamedTuple):
    """The events of one batch, as a broker gets them."""

    first: int
    signed: int
    """Events that the root signed together: their positions are `first` and those after it."""
    signature: bytes
    events: Sequence[GroupEvent]
    digests: Mapping[int, bytes]
    """The digests of the other events, by position."""


def pack_members(members: Sequence[GroupMember]) -> bytes:
    """Return the bytes of members in preorder."""
    return b"".join([_MEMBER.pack(*member) for member in members])


def unpack_members(data: bytes) -> list[GroupMember]:
    """Return the members of a tree in preorder. Raise FrameError unless they are a tree."""
    if not data or len(data) % MEMBER_BYTES:
        raise FrameError(FrameFault.FIELD, "members of a group that end too early")
    members = [GroupMember(*fields) for fields in _MEMBER.iter_unpack(data)]
    if len(members) > BROKERS_MAX or len({member.id for member in members}) < len(members):
        raise FrameError(FrameFault.FIELD, "members of a group that are too many, or come twice")
    ends = [len(members)]
    for at, member in enumerate(members):
        while ends[-1] <= at:
            ends.pop()
        if not 1 <= member.size <= ends[-1] - at or (at == 0 and member.size != len(members)):
            raise FrameError(FrameFault.FIELD, "members of a group that are no tree")
        ends.append(at + member.size)
    return members


def digest(position: int, flags: int, block: bytes) -> bytes:
    """Return the digest of an event, which the root's signature covers."""
    hasher = blake2b(_DIGESTED.pack(position, flags), digest_size=DIGEST_BYTES, person=b"plait group")
    hasher.update(block)
    return hasher.digest()


def claim(root: int, epoch: int, first: int, digests: Sequence[bytes]) -> bytes:
    """Return what the root signs."""
    return _CLAIM.pack(_CLAIM_KIND, root, epoch, first, len(digests)) + b"".join(digests)


def claim_of(root: int, epoch: int, batch: EventBatch) -> bytes:
    """Return what the root should have signed for this batch."""
    found = dict(batch.digests)
    for event in batch.events:
        found[event.position] = digest(event.position, event.flags, event.block)
    return claim(root, epoch, batch.first, [found[batch.first + at] for at in range(batch.signed)])


def bytes_of_set(members: int, count: int) -> bytes:
    """Return a bit set of `count` members as bytes, without the zeros at its end."""
    return members.to_bytes((count + 7) // 8, "little").rstrip(b"\0")


def set_of_bytes(data: bytes, count: int) -> int:
    """Return a bit set as an integer. Raise FrameError if it names more than `count` members."""
    members = int.from_bytes(data, "little")
    if members >> count:
        raise FrameError(FrameFault.FIELD, "a bit set of more members than there are")
    return members


def pack_batch(batch: EventBatch, members: int) -> bytes:
    """Return the bytes of a batch for a part of the tree with so many members."""
    present = bytearray((batch.signed + 7) // 8)
    chunks: list[bytes] = []
    for position, delay_us, flags, destinations, block in batch.events:
        at = position - batch.first
        present[at >> 3] |= 1 << (at & 7)
        named = bytes_of_set(destinations, members)
        chunks += (_EVENT.pack(delay_us, flags, len(named), len(block)), named, block)
    head = _HEAD.pack(batch.first, batch.signed, len(batch.signature))
    absent = [batch.digests[position] for position in sorted(batch.digests)]
    return b"".join((head, batch.signature, present, *absent, *chunks))


def unpack_batch(data: bytes, members: int) -> EventBatch:
    """Return the events of a batch for a part of the tree with so many members. Raise FrameError if it is malformed."""
    if len(data) < _HEAD.size:
        raise FrameError(FrameFault.FIELD, "a batch that ends too early")
    first, count, signature_bytes = _HEAD.unpack_from(data)
    if not 1 <= count <= BATCH_EVENTS_MAX or first + count >= 1 << 63:
        raise FrameError(FrameFault.FIELD, f"a batch of {count} events")
    at = _HEAD.size + signature_bytes
    signature, present = data[_HEAD.size : at], data[at : at + (count + 7) // 8]
    at += (count + 7) // 8
    if at > len(data) or int.from_bytes(present, "little") >> count:
        raise FrameError(FrameFault.FIELD, "a batch that ends too early")
    digests: dict[int, bytes] = {}
    positions = []
    for offset in range(count):
        if present[offset >> 3] >> (offset & 7) & 1:
            positions.append(first + offset)
        elif signature:  # without signatures, digests serve nothing
            digests[first + offset] = data[at : at + DIGEST_BYTES]
            at += DIGEST_BYTES
    events = []
    for position in positions:
        event, at = _read_event(data, at, position, members)
        events.append(event)
    if at != len(data):
        raise FrameError(FrameFault.FIELD, "a batch with other bytes than its events")
    return EventBatch(first, count, signature, events, digests)


def _read_event(data: bytes, at: int, position: int, members: int) -> tuple[GroupEvent, int]:
    if at + _EVENT.size > len(data):
        raise FrameError(FrameFault.FIELD, "a batch that ends too early")
    delay_us, flags, set_bytes, block_bytes = _EVENT.unpack_from(data, at)
    at += _EVENT.size
    end = at + set_bytes + block_bytes
    if end > len(data) or delay_us > DELAY_US_MAX:
        raise FrameError(FrameFault.FIELD, "an event of a batch that ends too early")
    destinations = set_of_bytes(data[at : at + set_bytes], members)
    return GroupEvent(position, delay_us, flags, destinations, data[at + set_bytes : end]), end
