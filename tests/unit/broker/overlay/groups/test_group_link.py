"""One child of a stream group: its part of each batch, and a bounded memory of what it was sent."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from copies import publish
from hypothesis import given
from hypothesis import strategies as st

from plait_broker.overlay.groups import group_link
from plait_broker.overlay.groups.group_link import GroupLink
from plait_broker.overlay.groups.group_tree import Subtree, children_of
from plait_core.wire.event_block import PRIORITY_AT
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.group_events import EventBatch, GroupEvent, claim, claim_of, digest, unpack_batch

ROOT, EPOCH, SIGNATURE = 1, 50, b"s" * 64
WHOLE = Subtree(2, 1, 3)
"""A child with two brokers below it. Of the root's bit set, bits 1 to 3 are its part."""


def batch_of(*sets: int, first: int = EPOCH, signature: bytes = SIGNATURE, payload: int = 1) -> EventBatch:
    """Return a batch of one event for each set of destinations."""
    head = bytes(PRIORITY_AT + 1)
    events = [GroupEvent(first + at, at, at, named, head + bytes([at]) * payload) for at, named in enumerate(sets)]
    return EventBatch(first, len(events), signature, events, {})


def events_in(frame: GroupBatch | None, size: int = WHOLE.size) -> list[tuple[int, int]]:
    """Return the positions and destinations of the events in a frame."""
    assert frame is not None
    return [(event.position, event.members) for event in unpack_batch(frame.events, size, frame.last).events]


def test_a_child_gets_the_events_for_its_subtree_with_its_part_of_the_set() -> None:
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    frame = link.send(batch_of(0b00010, 0b10001, 0b11100, 0b01001), EPOCH + 3, 0.0, asks=True)
    assert frame is not None
    assert (frame.root, frame.epoch, frame.asks) == (ROOT, EPOCH, True)
    assert events_in(frame) == [(EPOCH, 0b001), (EPOCH + 2, 0b110), (EPOCH + 3, 0b100)]


def test_a_child_gets_no_frame_without_events_and_questions() -> None:
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    assert link.send(batch_of(0b10001), EPOCH, 0.0, asks=False) is None
    assert link.send(None, EPOCH, 0.0, asks=False) is None
    asks = link.send(batch_of(0b10001, first=EPOCH + 1), EPOCH + 1, 0.0, asks=True)
    assert asks == GroupBatch(ROOT, EPOCH, EPOCH - 1, EPOCH + 1, b"", True)
    assert link.send(None, EPOCH + 1, 0.0, asks=True) == GroupBatch(ROOT, EPOCH, EPOCH + 1, EPOCH + 1, b"", True)


def test_each_batch_names_the_one_before_it() -> None:
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    sent = [
        link.send(batch_of(0b00010), EPOCH, 0.0, asks=False),
        link.send(batch_of(0b10000, first=EPOCH + 1), EPOCH + 1, 0.0, asks=False),
        link.send(batch_of(0b00010, 0b10000, first=EPOCH + 2), EPOCH + 3, 0.0, asks=False),
        link.send(None, EPOCH + 3, 0.0, asks=True),
    ]
    chain = [(frame.previous, frame.last) for frame in sent if frame is not None]
    assert chain == [(EPOCH - 1, EPOCH), (EPOCH, EPOCH + 3), (EPOCH + 3, EPOCH + 3)]


@given(st.lists(st.integers(0, 2**7 - 1), min_size=1, max_size=12), st.booleans())
def test_every_broker_can_compute_what_the_root_signed(sets: list[int], signs: bool) -> None:
    """Hand a batch down a tree of seven brokers. Each broker gets its events alone, and the digests of the others."""
    batch = batch_of(*sets, signature=SIGNATURE if signs else b"")
    signed = claim(ROOT, EPOCH, EPOCH, [digest(each.position, each.flags, each.block) for each in batch.events])
    waiting: list[tuple[Sequence[int], Sequence[int], EventBatch]] = [(range(7), (7, 4, 2, 1, 1, 2, 1), batch)]
    reached = 0
    while waiting:
        ids, sizes, read = waiting.pop()
        assert not signs or claim_of(ROOT, EPOCH, read) == signed
        reached += 1
        for child in children_of(ids, sizes):
            frame = GroupLink(child, ROOT, EPOCH, EPOCH).send(read, EPOCH + len(sets) - 1, 0.0, asks=False)
            mine = [(EPOCH + at, (named >> child.broker) % (1 << child.size)) for at, named in enumerate(sets)]
            mine = [(position, named) for position, named in mine if named]
            assert (frame is None) == (not mine)
            if frame is not None:
                below = unpack_batch(frame.events, child.size, frame.last)
                assert [(event.position, event.members) for event in below.events] == mine
                assert (below.first, below.signed, below.signature) == (EPOCH, len(sets), batch.signature)
                here = slice(child.start, child.start + child.size)
                waiting.append((ids[here], sizes[here], below))
    assert reached >= 1 + any(named >> 1 for named in sets)


def test_without_signatures_a_frame_has_no_digests() -> None:
    sets = [0b00010, *[0b10000] * 99]
    plain = GroupLink(WHOLE, ROOT, EPOCH, EPOCH).send(batch_of(*sets, signature=b""), EPOCH + 99, 0.0, asks=False)
    signed = GroupLink(WHOLE, ROOT, EPOCH, EPOCH).send(batch_of(*sets), EPOCH + 99, 0.0, asks=False)
    assert plain is not None
    assert signed is not None
    assert len(signed.events) - len(plain.events) == 64 + 99 * 16


def filled(count: int, payload: int = 1) -> tuple[GroupLink, list[GroupBatch]]:
    """Return a link that was sent so many batches, and these."""
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    frames = [
        link.send(batch_of(0b10, first=EPOCH + at, payload=payload), EPOCH + at, 0.0, asks=False) for at in range(count)
    ]
    return link, [frame for frame in frames if frame is not None]


def test_batches_after_a_position_are_sent_again() -> None:
    link, frames = filled(5)
    assert link.again(EPOCH + 1, 0.0) == frames[2:]
    assert link.again(EPOCH + 3, 0.0) == frames[4:]
    assert filled(5)[0].again(EPOCH - 1, 0.0) == frames


def test_nothing_is_sent_again_after_the_last_position_or_one_that_no_batch_ends_at() -> None:
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    link.send(batch_of(0b10, 0b10, 0b10), EPOCH + 2, 0.0, asks=False)
    for up_to in (0, EPOCH, EPOCH + 1, EPOCH + 2, EPOCH + 99):
        assert link.again(up_to, 0.0) == []


def test_the_memory_is_bounded_and_the_oldest_batches_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_link, "MEMORY_BYTES_MAX", 10_000)
    link, frames = filled(100, payload=1000)
    kept = [frame for at, frame in enumerate(frames) if filled(100, payload=1000)[0].again(EPOCH + at - 1, 0.0)]
    assert kept == frames[-len(kept) :]
    assert 5_000 < sum(len(frame.events) for frame in kept) <= 10_000
    assert link.again(EPOCH - 1, 0.0) == [], "a child that has missed more is served by its own stream"


def test_batches_that_are_sent_again_state_how_long_they_have_waited() -> None:
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    for at in range(2):
        link.send(batch_of(0b10, first=EPOCH + at), EPOCH + at, 5.0 + at, asks=False)
    link.send(None, EPOCH + 1, 7.0, asks=True, age_us=40)
    assert [frame.waited_us for frame in link.again(EPOCH - 1, 7.5)] == [2_500_000, 1_500_000, 500_040]


@given(st.lists(st.integers(0, 2**60 - 1), min_size=1, max_size=40), st.randoms())
def test_a_batch_gets_no_longer_on_its_way(sets: list[int], random: Random) -> None:
    """Cut a batch to ever smaller subtrees: a broker can forward what it got, also if each set is in its longest form.
    Digests are shorter than the events whose place they take."""
    events = [GroupEvent(EPOCH + at, at, 0, named, bytes(40)) for at, named in enumerate(sets)]
    read, size, before = EventBatch(EPOCH, len(sets), SIGNATURE, events, {}), 60, 1 << 20
    last = EPOCH + len(sets) - 1
    while size:
        start = random.randrange(size)
        size = random.randint(0, size - start)
        frame = GroupLink(Subtree(2, start, size), ROOT, EPOCH, EPOCH).send(read, last, 0.0, asks=False)
        if frame is None:
            return
        assert len(frame.events) <= before
        before = len(frame.events)
        read = unpack_batch(frame.events, size, last)


def test_a_request_that_is_repeated_is_not_answered() -> None:
    link, frames = filled(5)
    assert link.again(EPOCH + 1, 0.0) == frames[2:]
    assert link.again(EPOCH + 1, 0.0) == []
    assert link.again(EPOCH, 0.0) == []
    assert link.again(EPOCH + 2, 0.0) == frames[3:], "another hole"


def test_batches_that_only_ask_take_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_link, "MEMORY_BYTES_MAX", 10 * group_link.FRAME_BYTES)
    link = GroupLink(WHOLE, ROOT, EPOCH, EPOCH)
    for at in range(100):
        link.send(None, EPOCH + at, 0.0, asks=True)
    assert link.again(EPOCH + 88, 0.0) == []
    assert len(link.again(EPOCH + 89, 0.0)) == 10


def test_a_batch_has_the_highest_priority_of_its_events_for_a_child() -> None:
    blocks = [publish(sequence, priority=priority).block for sequence, priority in ((1, 1), (2, 9), (3, 4))]
    sets = (0b00010, 0b00100, 0b00010)
    events = [GroupEvent(EPOCH + at, 0, 0, sets[at], block) for at, block in enumerate(blocks)]
    batch = EventBatch(EPOCH, len(events), b"", events, {})
    for child, priority in ((WHOLE, 9), (Subtree(2, 1, 1), 4)):
        link = GroupLink(child, ROOT, EPOCH, EPOCH)
        assert link.send(batch, EPOCH + 2, 0.0, asks=False)
        assert link.priority == priority
        assert link.send(None, EPOCH + 2, 0.0, asks=True)
        assert link.priority == 0, "a question alone"
