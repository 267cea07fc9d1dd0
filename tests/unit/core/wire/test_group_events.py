"""The bytes of stream groups: round trips, and one FrameError for everything that is malformed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
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
    LIST_MAX,
    POSITION_MAX,
    SIGNATURE_BYTES,
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
SIGNATURE = b"s" * SIGNATURE_BYTES
EVERYONE, SAME, BITS, LIST = range(4)
LAST = 2**40


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
    sets = st.one_of(
        st.integers(0, 2**members - 1),
        st.sampled_from([0, 1, 2**members - 1]),
        st.sets(st.integers(0, members - 1), max_size=LIST_MAX + 2).map(lambda named: sum(1 << at for at in named)),
    )
    first, count = draw(st.integers(0, 2**62)), draw(st.integers(1, 20))
    signature = draw(st.sampled_from([b"", SIGNATURE]))
    events, digests = [], {}
    for position in range(first, first + count):
        if draw(st.booleans()):
            named = events[-1].members if events and draw(st.booleans()) else draw(sets)
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


def last_of(batch: EventBatch) -> int:
    return batch.first + batch.signed - 1


@given(batches())
def test_batches_survive_the_wire(drawn: tuple[EventBatch, int]) -> None:
    batch, members = drawn
    assert unpack_batch(pack_batch(batch, members), members, last_of(batch)) == batch


@given(
    st.one_of(st.binary(max_size=300), damaged(batches().map(lambda drawn: pack_batch(*drawn)))),
    st.integers(1, 64),
    st.sampled_from([0, LAST, POSITION_MAX - 1, 2**64 - 1]),
)
@example(b"", 1, LAST)
@example(bytes([8 << 1]), 1, LAST)
@example(b"\xff" * 9, 1, LAST)
@example(bytes([1 << 1 | 1, 1]), 1, LAST)
def test_other_bytes_are_a_batch_or_one_frame_error(data: bytes, members: int, last: int) -> None:
    with suppress(FrameError):
        batch = unpack_batch(data, members, last)
        assert last_of(batch) == last <= POSITION_MAX
        assert batch.first >= 0
        assert 1 <= batch.signed <= BATCH_EVENTS_MAX
        assert all(event.members >> members == 0 and event.delay_us <= DELAY_US_MAX for event in batch.events)
        positions = {event.position for event in batch.events}
        assert len(positions) == len(batch.events)
        assert all(0 <= position - batch.first < batch.signed for position in positions | batch.digests.keys())
        if batch.signature:
            assert len(batch.signature) == SIGNATURE_BYTES
            assert len(positions) + len(batch.digests) == batch.signed
            assert all(len(each) == DIGEST_BYTES for each in batch.digests.values())


@pytest.mark.parametrize(
    ("named", "members", "bytes_of_it"),
    [
        (2**1000 - 1, 1000, 1),
        (1, 1, 1),
        (0, 1000, 1),
        (1 << 999, 1000, 3),
        (1 << 999 | 1 << 3, 1000, 4),
        (2**500 - 1, 1000, 65),
        (0b0101, 8, 2),
    ],
    ids=["all", "the only one", "none", "one", "two", "half", "a bit set as short as a list"],
)
def test_a_set_takes_few_bytes(named: int, members: int, bytes_of_it: int) -> None:
    def size(*sets: int) -> int:
        events = [GroupEvent(9 + at, 0, 0, each, b"") for at, each in enumerate(sets)]
        return len(pack_batch(EventBatch(9, len(sets), b"", events, {}), members))

    assert size(named) == 2 + bytes_of_it + 3
    assert size(named, named) == size(named) + 1 + 3, "the second one is as the first"


ONE = bytes([1 << 1, 1, 1 << 2 | BITS, 1, 7, 0, 3]) + b"abc"
"""A batch of one event: head, which are here, set, age, flags, bytes of the block, block."""


def one(head: int = 1 << 1, present: int = 1, named: bytes = ONE[2:4], rest: bytes = ONE[4:]) -> bytes:
    return bytes([head, present]) + named + rest


def test_the_example_of_a_batch_is_right() -> None:
    event = GroupEvent(LAST, 7, 0, 0b001, b"abc")
    assert unpack_batch(one(), 3, LAST) == EventBatch(LAST, 1, b"", [event], {})
    assert unpack_batch(one(named=bytes([1 << 2 | LIST, 0])), 3, LAST).events == [event]
    assert unpack_batch(one(named=bytes([2 << 2 | LIST, 0, 1])), 3, LAST).events[0].members == 0b101
    assert unpack_batch(one(named=bytes([EVERYONE])), 3, LAST).events[0].members == 0b111


@pytest.mark.parametrize(
    "data",
    [
        one(0),
        b"\x82\x10" + bytes(1 + BATCH_EVENTS_MAX // 8),
        one(1 << 1 | 1),
        one(present=3),
        one(2 << 1, 3),
        bytes([2 << 1 | 1]) + SIGNATURE + ONE[1:],
        ONE[:-1],
        ONE[:5],
        ONE + b"d",
        one(named=bytes([2 << 2 | BITS, 1])),
        one(named=bytes([1 << 2 | BITS, 8])),
        one(named=bytes([2 << 2 | LIST, 0, 2])),
        one(named=bytes([1 << 2 | EVERYONE])),
        one(named=bytes([SAME])),
        one(named=bytes([(LIST_MAX + 1) << 2 | LIST]) + bytes(LIST_MAX + 1)),
        one(rest=b"\7\0\xff\xff\xff\xff\7abc"),
        one(rest=b"\x81" + b"\x80" * 7 + b"\x40" + b"\0\3abc"),
        one(rest=b"\xff" * 9 + b"\1" + b"\0\3abc"),
    ],
    ids=[
        "no events",
        "too many events",
        "a signature that is longer",
        "an event beyond the last",
        "an event that is missing",
        "a digest that is missing",
        "a block that is cut",
        "an event that is cut",
        "a byte behind",
        "a set that is longer",
        "a member beyond the last",
        "a list beyond the last",
        "all members with a length",
        "the set of an event before the first",
        "a list that is too long",
        "a block that is longer",
        "an age that is too great",
        "a number that is too long",
    ],
)
def test_a_batch_that_lies_is_refused(data: bytes) -> None:
    assert fault_of(unpack_batch, data, 3, LAST) == FrameFault.FIELD


@pytest.mark.parametrize("last", [POSITION_MAX, 2**64 - 1])
def test_positions_have_63_bits(last: int) -> None:
    assert fault_of(unpack_batch, ONE, 3, last) == FrameFault.FIELD


def test_no_event_has_a_position_below_0() -> None:
    empty = bytes([2 << 1, 0])
    assert unpack_batch(empty, 3, 1).first == 0
    assert fault_of(unpack_batch, empty, 3, 0) == FrameFault.FIELD


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
