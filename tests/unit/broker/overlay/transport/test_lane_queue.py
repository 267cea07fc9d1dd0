"""The queue of a lane: streams keep their order, priorities decide between them, and the bytes are bounded."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from copies import PUBLISHER
from hypothesis import given
from hypothesis import strategies as st

from plait_broker.overlay.transport import lane_queue
from plait_broker.overlay.transport.event_copy import EventCopy
from plait_broker.overlay.transport.lane_queue import LaneQueue, bytes_of
from plait_core import Event
from plait_core.wire import Confirm, Forward, Publish, encode_block
from plait_core.wire.frame_types.group_frames import GroupBatch


def copy(
    sequence: int = 1, *, to: Sequence[int] = (9,), root: int = 1, priority: int = 0, payload: bytes = b""
) -> EventCopy:
    """Return a copy that waits for a link."""
    event = Event({"x": 1}, payload, publisher=PUBLISHER, sequence=sequence, priority=priority)
    frame = Publish(Confirm.NONE, encode_block(event))
    return frame, 0, 0, 0, (root,), [(broker, sequence, 0) for broker in to]


def queue_of(*copies: EventCopy) -> LaneQueue:
    """Return a queue with these copies."""
    queue = LaneQueue()
    for each in copies:
        assert queue.add(each, 0.0)
    return queue


def take(queue: LaneQueue) -> EventCopy:
    """Take the next copy."""
    taken = queue.first.copies[0]
    queue.remove(1)
    return taken


def drain(queue: LaneQueue) -> list[int]:
    """Take all copies. Return their sequence numbers."""
    taken = []
    while queue:
        taken.append(take(queue)[0].sequence)
    assert (queue.items, queue.bytes, queue.oldest_at()) == (0, 0, None)
    return taken


def test_the_copies_of_a_stream_leave_in_order() -> None:
    queue = queue_of(*(copy(sequence, priority=sequence % 3) for sequence in range(1, 6)))
    assert len(queue) == 5
    assert drain(queue) == [1, 2, 3, 4, 5], "priorities change nothing within a stream"


def test_the_priority_of_a_batch_decides_between_groups_and_streams() -> None:
    queue = queue_of(copy(1, priority=1))
    batches = [GroupBatch(1, 5, at, at + 1, b"") for at in range(3)]
    for batch, priority in zip(batches, (2, 0, 9), strict=True):
        assert queue.add_batch(batch, 0.0, priority)
    assert queue.add(copy(2, to=(8,), priority=3), 0.0)
    taken = []
    while queue:
        run = queue.first
        taken.append((run.batches or [copy[0].sequence for copy in run.copies])[0])
        queue.remove(1)
    assert taken == [2, batches[0], 1, batches[1], batches[2]], "the batches of one group stay in order"


def test_batches_of_a_group_leave_in_order_and_beside_copies() -> None:
    """Let the root choose an epoch that looks like the id of a destination."""
    home = (1 << 63) + 5
    queue = LaneQueue()
    batches = [GroupBatch(1, epoch, 0, last, bytes(100)) for last in (1, 2) for epoch in (5, home, home - 1)]
    for batch in batches:
        assert queue.add(copy(batch.last, to=[home]), 0.0)
        assert queue.add_batch(batch, 0.0)
    taken: list[GroupBatch] = []
    while queue:
        run = queue.first
        assert not (run.batches and run.copies)
        taken += run.batches
        queue.remove(len(run.batches or run.copies))
    assert [[batch for batch in taken if batch.epoch == epoch] for epoch in (5, home, home - 1)] == [
        batches[0::3],
        batches[1::3],
        batches[2::3],
    ]
    assert (queue.items, queue.bytes, queue.oldest_at()) == (0, 0, None)


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queue, "QUEUE_BYTES_MAX", 5000)
    queue = LaneQueue()
    added = sum(queue.add_batch(GroupBatch(1, 5, 0, last, bytes(1000)), float(last)) for last in range(100))
    assert 4 <= added <= 6
    queue.remove(1)
    assert queue.add_batch(GroupBatch(1, 5, 0, 100, b""), 0.0)


def test_priorities_decide_between_streams() -> None:
    queue = queue_of(copy(1, to=[7]), copy(2, to=[8], priority=5), copy(3, to=[9], priority=1))
    assert drain(queue) == [2, 3, 1]


def test_streams_of_one_priority_take_turns() -> None:
    queue = queue_of(*(copy(number, to=[7]) for number in (1, 2, 3)), *(copy(number, to=[8]) for number in (4, 5)))
    assert drain(queue) == [1, 4, 2, 5, 3]


def test_roots_are_streams_of_their_own() -> None:
    queue = queue_of(copy(1, root=1), copy(2, root=1), copy(3, root=2))
    assert drain(queue) == [1, 3, 2]


def test_a_copy_for_several_streams_keeps_the_order_of_all_of_them() -> None:
    queue = queue_of(copy(1, to=[7]), copy(2, to=[8]), copy(3, to=[7, 8], priority=9), copy(4, to=[8], priority=9))
    assert drain(queue) == [1, 2, 3, 4]


def test_a_copy_says_how_long_it_has_waited() -> None:
    queue = LaneQueue()
    frame, tree, _, flags, path, destinations = copy()
    queue.add((frame, tree, 70, flags, path, destinations), 1.0)
    assert queue.oldest_at() == 1.0
    assert queue.first.waited_us(1.5) == 500_000


def test_the_queue_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_queue, "QUEUE_BYTES_MAX", 3 * bytes_of(copy()))
    queue = LaneQueue()
    added = [queue.add(copy(sequence), 0.0) for sequence in range(1, 8)]
    assert added == [True] * 4 + [False] * 3, "it exceeds the bound by one copy at most"
    take(queue)
    assert queue.add(copy(8), 0.0), "a copy that leaves makes room"


def test_the_destinations_of_a_copy_and_of_its_frame_count(monkeypatch: pytest.MonkeyPatch) -> None:
    event, tree, delay_us, flags, path, destinations = copy()
    monkeypatch.setattr(lane_queue, "QUEUE_BYTES_MAX", 2 * bytes_of(copy()))
    many = tuple((broker, 1, 0) for broker in range(2, 1026))
    frame = Forward(0, 0, 0, (9,), many, event.block)
    for wide in ((event, tree, delay_us, flags, path, many), (frame, tree, delay_us, flags, (9, 1), destinations)):
        queue = queue_of(wide)
        assert not queue.add(wide, 0.0), "the first has filled it, though one of any size has room"
        assert take(queue) == wide


@given(st.lists(st.tuples(st.sets(st.integers(2, 5), min_size=1), st.integers(1, 2), st.integers(0, 9), st.booleans())))
def test_no_stream_ever_changes_its_order(steps: list[tuple[set[int], int, int, bool]]) -> None:
    queue = LaneQueue()
    last: dict[tuple[int, int], int] = {}
    taken = 0

    def take_one() -> None:
        nonlocal taken
        frame, _, _, _, path, destinations = take(queue)
        taken += 1
        for broker, _, _ in destinations:
            assert last.get((path[0], broker), 0) < frame.sequence
            last[path[0], broker] = frame.sequence

    for sequence, (to, root, priority, takes) in enumerate(steps, 1):
        queue.add(copy(sequence, to=sorted(to), root=root, priority=priority), 0.0)
        if takes:
            take_one()
    while queue:
        take_one()
    assert taken == len(steps)
    assert (queue.items, queue.bytes) == (0, 0)
