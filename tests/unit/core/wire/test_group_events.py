"""The bytes of stream groups: round trips, and one FrameError for everything that is malformed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import BROKERS_MAX
from plait_core.wire.frame_types.group_frames import MEMBER_BYTES
from plait_core.wire.group_events import (
    BATCH_EVENTS_MAX,
    DELAY_US_MAX,
    DIGEST_BYTES,
    EventBatch,
    GroupEvent,
    GroupMember,
    bytes_of_set,
    claim,
    claim_of,
    digest,
    pack_batch,
    pack_members,
    set_of_bytes,
    unpack_batch,
    unpack_members,
)

U64 = st.integers(0, 2**64 - 1)
HEAD = Struct(">QHB")
EVENT = Struct(">QBHI")
SIGNATURE = b"s" * 64


def tree_of(sizes: list[int]) -> list[GroupMember]:
    """Return members with these sizes of their subtrees."""
    return [GroupMember(at + 1, 0, 0, size, 0) for at, size in enumerate(sizes)]


@st.composite
def trees(draw: st.DrawFn) -> list[GroupMember]:
    """Draw the members of a tree in preorder."""
    parents = [draw(st.integers(0, at - 1)) for at in range(1, draw(st.integers(1, 25)))]
    below: dict[int, list[int]] = {at: [] for at in range(len(parents) + 1)}
    for child, parent in enumerate(parents, 1):
        below[parent].append(child)

    def sizes(at: int) -> list[int]:
        parts = [sizes(child) for child in below[at]]
        return [1 + sum(map(len, parts)), *(size for part in parts for size in part)]

    ids = draw(st.lists(U64, min_size=len(below), max_size=len(below), unique=True))
    return [
        GroupMember(broker, draw(U64), draw(U64), size, draw(st.integers(0, 1)))
        for broker, size in zip(ids, sizes(0), strict=True)
    ]


@st.composite
def batches(draw: st.DrawFn) -> tuple[EventBatch, int]:
    """Draw a batch, and the number of members that its sets are of."""
    members = draw(st.integers(1, 200))
    first, count = draw(st.integers(0, 2**62)), draw(st.integers(1, 20))
    signature = draw(st.sampled_from([b"", SIGNATURE]))
    events, digests = [], {}
    for position in range(first, first + count):
        if draw(st.booleans()):
            named = draw(st.integers(0, 2**members - 1))
            delay_us, flags = draw(st.integers(0, DELAY_US_MAX)), draw(st.integers(0, 255))
            events.append(GroupEvent(position, delay_us, flags, named, draw(st.binary(max_size=40))))
        elif signature:
            digests[position] = draw(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES))
    return EventBatch(first, count, signature, events, digests), members


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Draw bytes that were cut, extended or changed."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        match draw(st.integers(0, 3)):
            case 0:
                del data[at:]
            case 1:
                data[at:at] = draw(st.binary(max_size=30))
            case 2:
                del data[at : at + draw(st.integers(1, 8))]
            case _ if at < len(data):
                data[at] = draw(st.integers(0, 255))
    return bytes(data)


def fault_of(read: Callable[..., Any], *arguments: Any) -> FrameFault:
    with pytest.raises(FrameError) as caught:
        read(*arguments)
    return caught.value.fault


# --- members ----------------------------------------------------------------------------------------------------------


@given(trees())
def test_members_survive_the_wire(members: list[GroupMember]) -> None:
    data = pack_members(members)
    assert len(data) == MEMBER_BYTES * len(members)
    assert unpack_members(data) == members


@pytest.mark.parametrize(
    "sizes",
    [[0], [2], [1, 1], [3, 1], [3, 3, 1], [3, 2, 2], [3, 0, 1], [4, 2, 2, 1], [5, 3, 1, 2, 1]],
    ids=str,
)
def test_members_that_are_no_tree_are_refused(sizes: list[int]) -> None:
    assert fault_of(unpack_members, pack_members(tree_of(sizes))) == FrameFault.FIELD


def test_members_come_once() -> None:
    twice = [GroupMember(7, 0, 0, 2, 0), GroupMember(7, 0, 0, 1, 0)]
    assert fault_of(unpack_members, pack_members(twice)) == FrameFault.FIELD


def test_members_are_bounded() -> None:
    most = tree_of([BROKERS_MAX, *[1] * (BROKERS_MAX - 1)])
    assert len(unpack_members(pack_members(most))) == BROKERS_MAX
    more = tree_of([BROKERS_MAX + 1, *[1] * BROKERS_MAX])
    assert fault_of(unpack_members, pack_members(more)) == FrameFault.FIELD


@given(st.one_of(st.binary(max_size=200), damaged(trees().map(pack_members))))
@example(b"")
@example(bytes(MEMBER_BYTES))
@example(bytes(MEMBER_BYTES - 1))
def test_other_bytes_are_members_of_a_tree_or_one_frame_error(data: bytes) -> None:
    with suppress(FrameError):
        members = unpack_members(data)
        assert pack_members(members) == data
        assert members[0].size == len(members)
        for at, member in enumerate(members):  # each subtree lies in every one that it begins in
            end = at + member.size
            assert all(end <= start + other.size for start, other in enumerate(members[:at]) if at < start + other.size)


# --- bit sets ---------------------------------------------------------------------------------------------------------


@given(st.integers(1, 1024).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, 2**count - 1))))
def test_bit_sets_survive_the_wire_and_are_short(drawn: tuple[int, int]) -> None:
    count, members = drawn
    data = bytes_of_set(members, count)
    assert len(data) == (members.bit_length() + 7) // 8
    assert set_of_bytes(data, count) == members


@given(st.binary(max_size=40), st.integers(1, 300))
def test_a_bit_set_names_no_more_members_than_there_are(data: bytes, count: int) -> None:
    named = [at for at in range(8 * len(data)) if data[at >> 3] >> (at & 7) & 1]
    if all(at < count for at in named):
        assert set_of_bytes(data, count) == sum(1 << at for at in named)
    else:
        assert fault_of(set_of_bytes, data, count) == FrameFault.FIELD


# --- batches ----------------------------------------------------------------------------------------------------------


@given(batches())
def test_batches_survive_the_wire(drawn: tuple[EventBatch, int]) -> None:
    batch, members = drawn
    assert unpack_batch(pack_batch(batch, members), members) == batch


@given(st.one_of(st.binary(max_size=300), damaged(batches().map(lambda drawn: pack_batch(*drawn)))), st.integers(1, 64))
@example(b"", 1)
@example(HEAD.pack(1, 8, 0), 1)
@example(HEAD.pack(1, 1, 255) + b"\1", 1)
def test_other_bytes_are_a_batch_or_one_frame_error(data: bytes, members: int) -> None:
    with suppress(FrameError):
        batch = unpack_batch(data, members)
        assert 1 <= batch.signed <= BATCH_EVENTS_MAX
        assert all(event.members >> members == 0 and event.delay_us <= DELAY_US_MAX for event in batch.events)
        positions = {event.position for event in batch.events}
        assert len(positions) == len(batch.events)
        assert all(0 <= position - batch.first < batch.signed for position in positions | batch.digests.keys())
        if batch.signature:
            assert len(positions) + len(batch.digests) == batch.signed
            assert all(len(each) == DIGEST_BYTES for each in batch.digests.values())


ONE = HEAD.pack(5, 1, 0) + b"\1" + EVENT.pack(7, 0, 1, 3) + b"\1" + b"abc"


def test_the_example_of_a_batch_is_right() -> None:
    assert unpack_batch(ONE, 1) == EventBatch(5, 1, b"", [GroupEvent(5, 7, 0, 1, b"abc")], {})


@pytest.mark.parametrize(
    "data",
    [
        HEAD.pack(5, 0, 0) + ONE[HEAD.size :],
        HEAD.pack(5, BATCH_EVENTS_MAX + 1, 0) + bytes(1 + BATCH_EVENTS_MAX // 8),
        HEAD.pack(2**63 - 1, 1, 0) + ONE[HEAD.size :],
        HEAD.pack(5, 1, 1) + ONE[HEAD.size :],
        HEAD.pack(5, 1, 0) + b"\3" + ONE[HEAD.size + 1 :],
        HEAD.pack(5, 2, 0) + b"\3" + ONE[HEAD.size + 1 :],
        HEAD.pack(5, 2, 64) + SIGNATURE + b"\1" + ONE[HEAD.size + 1 :],
        ONE[:-1],
        ONE + b"d",
        HEAD.pack(5, 1, 0) + b"\1" + EVENT.pack(7, 0, 2, 3) + b"\1" + b"abc",
        HEAD.pack(5, 1, 0) + b"\1" + EVENT.pack(7, 0, 1, 2**32 - 1) + b"\1" + b"abc",
        HEAD.pack(5, 1, 0) + b"\1" + EVENT.pack(DELAY_US_MAX + 1, 0, 1, 3) + b"\1" + b"abc",
        HEAD.pack(5, 1, 0) + b"\1" + EVENT.pack(7, 0, 1, 3) + b"\2" + b"abc",
    ],
    ids=[
        "no events",
        "too many events",
        "positions above 63 bits",
        "a signature that is longer",
        "an event beyond the last",
        "an event that is missing",
        "a digest that is missing",
        "a block that is cut",
        "a byte behind",
        "a set that is longer",
        "a block that is longer",
        "an age that is too great",
        "a member beyond the last",
    ],
)
def test_a_batch_that_lies_is_refused(data: bytes) -> None:
    assert fault_of(unpack_batch, data, 1) == FrameFault.FIELD


# --- what the root signs ----------------------------------------------------------------------------------------------


def test_the_claim_of_a_batch_is_that_of_all_its_events() -> None:
    events = [GroupEvent(9 + at, at, at, 1, bytes([at])) for at in range(3)]
    digests = [digest(event.position, event.flags, event.block) for event in events]
    signed = claim(1, 8, 9, digests)
    for present in range(8):
        here = [event for at, event in enumerate(events) if present >> at & 1]
        others = {9 + at: each for at, each in enumerate(digests) if not present >> at & 1}
        assert claim_of(1, 8, EventBatch(9, 3, SIGNATURE, here, others)) == signed


def test_a_digest_covers_the_position_the_flags_and_the_block() -> None:
    found = {digest(1, 0, b"a"), digest(2, 0, b"a"), digest(1, 1, b"a"), digest(1, 0, b"b")}
    assert len(found) == 4
    assert {len(each) for each in found} == {DIGEST_BYTES}


def test_a_claim_covers_the_root_the_epoch_the_first_position_and_the_digests() -> None:
    one, other = b"1" * DIGEST_BYTES, b"2" * DIGEST_BYTES
    whole = (1, 2, 3, [one, other])
    others: list[tuple[Any, ...]] = [(9, 2, 3, [one, other]), (1, 9, 3, [one, other]), (1, 2, 9, [one, other])]
    others += [(1, 2, 3, [other, one]), (1, 2, 3, [one])]
    assert len({claim(*each) for each in [whole, *others]}) == 1 + len(others)
