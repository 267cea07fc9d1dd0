"""The bytes inside the frames of stream groups: members of a tree, and the events of a batch with their signature.

The root signs a list of digests, one for each event of a batch. A broker gets the events for its part of the tree, and
the digests of the others. So one signature serves many events, and no member can make up an event for another.

A batch is made of numbers of seven bits a byte (LEB128), of which most take one byte:

    batch   events * 2 + 1 if signed, [signature], which events are here (a bit set), [digests of the others], events
    event   destinations, age, flags (one byte), bytes of the block, block
    set     length * 4 + kind, [bit set, or indexes as distances]

Brokers on the way cut batches to subtrees, and must be able to forward what they got. So no part of a batch gets longer
when its sets get smaller: bit sets and lists shrink, and the shorter one is taken.
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
"""Bytes of a digest. A relay that replaces an event needs another with the same digest: 2^128 attempts. A publisher
that makes two such events itself needs 2^64, and gains what `THREAT_MODEL.md` says."""

SIGNATURE_BYTES: Final = 64

LIST_MAX: Final = 16
"""Members of a set that is a list of indexes. To make a longer one takes more time than the bytes are worth."""

BATCH_EVENTS_MAX: Final = 1024
"""Events of one batch."""

POSITION_MAX: Final = (1 << 63) - 1
"""Greatest position of an event."""

DELAY_US_MAX: Final = 1 << 62
"""Greatest age of an event: sums of ages stay within 64 bits."""

_MEMBER: Final = Struct(">QQQHH")
_ALL, _SAME, _BITS, _LIST = range(4)
"""Kinds of a set: all members, the set of the event before, a bit set, and indexes."""

_NUMBER_BITS_MAX: Final = 63
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
    before = -1
    for position, delay_us, flags, destinations, block in batch.events:
        at = position - batch.first
        present[at >> 3] |= 1 << (at & 7)
        named = _SAME_BYTES if destinations == before else _pack_set(destinations, members)
        before = destinations
        chunks += (named, _pack_number(delay_us), _BYTES[flags], _pack_number(len(block)), block)
    head = _pack_number(batch.signed << 1 | bool(batch.signature))
    absent = [batch.digests[position] for position in sorted(batch.digests)]
    return b"".join((head, batch.signature, present, *absent, *chunks))


def unpack_batch(data: bytes, members: int, last: int) -> EventBatch:
    """Return the events of a batch up to a position, for a part of the tree with so many members. Raise FrameError if
    it is malformed."""
    head, at = _read_number(data, 0)
    count, is_signed = head >> 1, head & 1
    first = last - count + 1
    if not 1 <= count <= BATCH_EVENTS_MAX or first < 0 or last >= POSITION_MAX:
        raise FrameError(FrameFault.FIELD, f"a batch of {count} events up to {last}")
    signature, at = data[at : at + SIGNATURE_BYTES * is_signed], at + SIGNATURE_BYTES * is_signed
    present, at = data[at : at + (count + 7) // 8], at + (count + 7) // 8
    if at > len(data) or int.from_bytes(present, "little") >> count:
        raise FrameError(FrameFault.FIELD, "a batch that ends too early")
    digests: dict[int, bytes] = {}
    positions = []
    for offset in range(count):
        if present[offset >> 3] >> (offset & 7) & 1:
            positions.append(first + offset)
        elif is_signed:  # without signatures, digests serve nothing
            digests[first + offset] = data[at : at + DIGEST_BYTES]
            at += DIGEST_BYTES
    events: list[GroupEvent] = []
    for position in positions:
        before = events[-1].members if events else None
        event, at = _read_event(data, at, position, members, before)
        events.append(event)
    if at != len(data):
        raise FrameError(FrameFault.FIELD, "a batch with other bytes than its events")
    return EventBatch(first, count, signature, events, digests)


def _read_event(data: bytes, at: int, position: int, members: int, before: int | None) -> tuple[GroupEvent, int]:
    """Return the event that begins at an index, and the index behind it. `before`: the set of the event before."""
    destinations, at = _read_set(data, at, members, before)
    delay_us, at = _read_number(data, at)
    flags = data[at : at + 1]
    block_bytes, at = _read_number(data, at + 1)
    end = at + block_bytes
    if end > len(data) or delay_us > DELAY_US_MAX:
        raise FrameError(FrameFault.FIELD, "an event of a batch that ends too early")
    return GroupEvent(position, delay_us, flags[0], destinations, data[at:end]), end


# --- sets of destinations, and numbers --------------------------------------------------------------------------------


def _pack_set(destinations: int, members: int) -> bytes:
    """Return a set of some of `members` members as bytes."""
    if destinations == (1 << members) - 1:
        return _ALL_BYTES
    size = (destinations.bit_length() + 7) // 8
    if destinations.bit_count() <= min(LIST_MAX, size):
        listed = _pack_list(destinations)
        if len(listed) <= size:
            return listed
    return _pack_number(size << 2 | _BITS) + destinations.to_bytes(size, "little")


def _pack_list(destinations: int) -> bytes:
    """Return a set as a list of indexes: the first one, then the distances between them, less one."""
    chunks = [_pack_number(destinations.bit_count() << 2 | _LIST)]
    while destinations:
        skipped = (destinations & -destinations).bit_length() - 1
        chunks.append(_pack_number(skipped))
        destinations >>= skipped + 1
    return b"".join(chunks)


def _read_set(data: bytes, at: int, members: int, before: int | None) -> tuple[int, int]:
    """Return the set that begins at an index, and the index behind it."""
    head, at = _read_number(data, at)
    length, kind = head >> 2, head & 3
    if kind == _BITS:
        return set_of_bytes(data[at : at + length], members), at + length
    if kind == _LIST and length <= LIST_MAX:
        return _read_list(data, at, length, members)
    if kind == _ALL and length == 0:
        return (1 << members) - 1, at
    if kind == _SAME and length == 0 and before is not None:
        return before, at
    raise FrameError(FrameFault.FIELD, "a set of destinations that is none")


def _read_list(data: bytes, at: int, count: int, members: int) -> tuple[int, int]:
    found, index = 0, -1
    for _ in range(count):
        skipped, at = _read_number(data, at)
        index += skipped + 1
        if index >= members:
            raise FrameError(FrameFault.FIELD, "a list of more members than there are")
        found |= 1 << index
    return found, at


def _pack_number(number: int) -> bytes:
    if number < 0x80:
        return _BYTES[number]
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at an index, and the index behind it."""
    number = 0
    for shift in range(0, _NUMBER_BITS_MAX, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise FrameError(FrameFault.FIELD, "a number in a batch that ends too early, or is too long")


_BYTES: Final = [bytes([value]) for value in range(256)]
_ALL_BYTES: Final = _BYTES[_ALL]
_SAME_BYTES: Final = _BYTES[_SAME]
