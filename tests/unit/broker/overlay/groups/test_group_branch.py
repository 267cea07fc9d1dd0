"""One broker's place in a stream group: batches in order, holes, and when it may ack."""

from __future__ import annotations

import pytest
from copies import publish

from plait_broker.overlay.groups import group_branch
from plait_broker.overlay.groups.group_acks import POSITIONS_MAX
from plait_broker.overlay.groups.group_branch import GROUP, GroupBranch
from plait_broker.overlay.groups.group_record import MemberRecord
from plait_core.errors import FrameError, FrameFault
from plait_core.wire.frame_types.group_frames import GroupBatch, GroupOpen
from plait_core.wire.group_events import DELAY_US_MAX, EventBatch, GroupEvent, GroupMember, pack_batch

ROOT, PARENT, ME, CHILD = 1, 2, 3, 4
EPOCH = 1000
MEMBERS = [GroupMember(ME, 0, 0, 2, 0), GroupMember(CHILD, 0, 0, 1, 0)]


def branch_of(*, after: int = 0, follows: int = 0) -> GroupBranch:
    """Return the place of a broker with one child."""
    open = GroupOpen(ROOT, EPOCH, (ROOT, PARENT), b"", 900, 950)
    return GroupBranch(open, PARENT, [GroupMember(ME, after, 0, 2, follows), MEMBERS[1]], 0.0)


def batch(*sets: int, first: int = EPOCH, previous: int | None = None, asks: bool = False) -> GroupBatch:
    """Return a batch of one event for each set of destinations."""
    events = [GroupEvent(first + at, 7, 0, named, publish(first + at).block) for at, named in enumerate(sets)]
    data = pack_batch(EventBatch(first, len(sets), b"", events, {}), 2) if sets else b""
    before = first - 1 if previous is None else previous
    return GroupBatch(ROOT, EPOCH, before, first + len(sets) - 1, data, asks)


def block_of(block: bytes) -> bytes:
    """Return the bytes of a batch with this block for the child."""
    return pack_batch(EventBatch(EPOCH, 1, b"", [GroupEvent(EPOCH, 0, 0, 0b10, block)], {}), 2)


def receive(branch: GroupBranch, frame: GroupBatch, *, held: bool = False) -> list[int]:
    """Take a batch. Return the positions of the events for this broker."""
    assert branch.takes(frame)
    events = branch.advance(frame, branch.read(frame), 0, 0.0)
    if held:
        branch.hold(events)
    return [event.position ^ GROUP for event in events]


def record(last: int, *positions: int) -> bytes:
    """Return the record of a member with these events."""
    found = MemberRecord(EPOCH)
    for position in positions:
        found.add(position)
    return found.up_to(last)


def test_a_place_has_what_its_open_says() -> None:
    branch = branch_of(after=5, follows=1)
    assert (branch.root, branch.epoch, branch.parent, branch.path) == (ROOT, EPOCH, PARENT, (ROOT, PARENT))
    assert (branch.size, branch.after, branch.follows, list(branch.links)) == (2, 5, (900, 950), [CHILD])
    assert branch_of().follows is None


def test_a_broker_takes_the_events_that_name_it_with_their_ages_and_path() -> None:
    branch = branch_of()
    frame = batch(0b01, 0b10, 0b11)
    read = branch.read(frame)
    assert read is not None
    assert [event.delay_us for event in read.events] == [7, 7, 7], "children get the ages at the root"
    first, second = branch.advance(frame, read, 530, 2.5)
    assert (first.root, first.position, first.at) == (ROOT, GROUP | EPOCH, 2.5)
    assert (first.delay_us, first.path, first.frame.sequence) == (537, (ROOT, PARENT), EPOCH)
    assert second.position == GROUP | EPOCH + 2
    assert branch.last == EPOCH + 2


def test_ages_stay_within_their_bound() -> None:
    branch, frame = branch_of(), batch(0b01)
    (event,) = branch.advance(frame, branch.read(frame), DELAY_US_MAX, 0.0)
    assert event.delay_us == DELAY_US_MAX


def test_batches_come_in_order_and_once() -> None:
    branch = branch_of()
    assert receive(branch, batch(0b01, 0b01)) == [EPOCH, EPOCH + 1]
    for frame in (
        batch(0b01, 0b01),  # again
        batch(0b01, first=EPOCH + 2, previous=EPOCH),  # after another one than the last
        batch(first=EPOCH + 2, previous=EPOCH + 1),  # nothing new
        batch(0b01, first=EPOCH + 3, previous=EPOCH + 2),  # behind a hole
    ):
        assert not branch.takes(frame)
    assert branch.last == EPOCH + 1
    assert receive(branch, batch(0b01, first=EPOCH + 5, previous=EPOCH + 1)) == [EPOCH + 5], "others had those between"


def test_a_question_alone_is_taken_and_answered_again() -> None:
    branch = branch_of()
    receive(branch, batch(0b10))
    for _ in range(2):
        assert receive(branch, batch(first=EPOCH + 1, asks=True)) == []
        assert branch.answers() == [(EPOCH, record(EPOCH))]
    assert branch.last == EPOCH


def test_a_hole_is_reported_once_until_it_is_filled() -> None:
    branch = branch_of()
    receive(branch, batch(0b01))
    assert not branch.misses(batch(0b01)), "an old batch is no hole"
    assert branch.misses(batch(0b01, first=EPOCH + 2))
    assert not branch.misses(batch(0b01, first=EPOCH + 3)), "the parent was asked already"
    receive(branch, batch(0b01, first=EPOCH + 1))
    assert branch.misses(batch(0b01, first=EPOCH + 7)), "the next hole"


@pytest.mark.parametrize(
    "frame",
    [
        GroupBatch(ROOT, EPOCH, EPOCH - 1, EPOCH, b"x"),
        GroupBatch(ROOT, EPOCH, EPOCH - 1, EPOCH, batch(0b01, 0b01).events),
        GroupBatch(
            ROOT, EPOCH, EPOCH - 1, EPOCH, pack_batch(EventBatch(EPOCH, 1, b"", [(EPOCH, 0, 0, 4, b"")], {}), 3)
        ),  # type: ignore[list-item]
        GroupBatch(ROOT, EPOCH, EPOCH - 1, EPOCH, block_of(b"none")),
    ],
    ids=["no batch", "an event before the first", "a member beyond the last", "no event"],
)
def test_a_batch_that_contradicts_its_frame_is_one_frame_error(frame: GroupBatch) -> None:
    branch = branch_of()
    assert branch.takes(frame)
    with pytest.raises(FrameError) as caught:
        branch.read(frame)
    assert isinstance(caught.value.fault, FrameFault)


def test_a_question_is_answered_once_this_broker_has_charge_of_all_events_before_it() -> None:
    branch = branch_of()
    receive(branch, batch(0b01, 0b10, 0b01, asks=True))
    receive(branch, batch(0b01, first=EPOCH + 3))
    receive(branch, batch(0b10, first=EPOCH + 4, asks=True))
    assert branch.answers() == []
    branch.acknowledge(EPOCH + 2)
    assert branch.answers() == [], "in any order, but all"
    branch.acknowledge(EPOCH)
    assert branch.answers() == [(EPOCH + 2, record(EPOCH + 2, EPOCH, EPOCH + 2))]
    branch.acknowledge(EPOCH + 3)
    assert branch.answers() == [(EPOCH + 4, record(EPOCH + 4, EPOCH, EPOCH + 2, EPOCH + 3))]
    assert branch.answers() == []


def test_an_event_is_open_until_it_is_acknowledged() -> None:
    branch = branch_of()
    receive(branch, batch(0b01, 0b01, 0b01))
    branch.acknowledge(EPOCH + 1)
    assert [branch.is_open(EPOCH + at) for at in range(3)] == [True, False, True]
    branch.acknowledge(EPOCH)
    assert [branch.is_open(EPOCH + at) for at in range(3)] == [False, False, True]
    branch.acknowledge(EPOCH + 2)
    assert not branch.is_open(EPOCH + 2)


def test_a_broker_that_has_left_answers_nothing_and_holds_nothing() -> None:
    branch = branch_of()
    receive(branch, batch(0b10, asks=True), held=True)
    receive(branch, batch(0b01, first=EPOCH + 1), held=True)
    assert len(branch.held) == 1
    branch.leave()
    assert (branch.left, branch.held, branch.answers()) == (True, [], [])


def test_too_many_held_events_make_a_broker_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_branch, "EARLY_MAX", 3)
    branch = branch_of()
    receive(branch, batch(0b01, 0b01, 0b01), held=True)
    assert (len(branch.held), branch.left) == (3, False)
    receive(branch, batch(0b01, first=EPOCH + 3), held=True)
    assert (len(branch.held), branch.left) == (0, True)


def test_held_events_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(publish(EPOCH).block)
    monkeypatch.setattr(group_branch, "EARLY_BYTES_MAX", 3 * size)
    branch = branch_of()
    receive(branch, batch(0b01, 0b01, 0b01), held=True)
    assert len(branch.release()) == 3
    receive(branch, batch(0b01, 0b01, 0b01, first=EPOCH + 3), held=True)
    assert not branch.left, "those that were released do not count"
    receive(branch, batch(0b01, first=EPOCH + 6), held=True)
    assert (len(branch.held), branch.left) == (0, True)


def test_questions_that_wait_are_bounded_and_the_latest_stay() -> None:
    branch = branch_of()
    receive(branch, batch(0b01, 0b01))
    for _ in range(1000):
        receive(branch, batch(first=EPOCH + 2, asks=True))
    for at in range(1, 1000):
        assert receive(branch, GroupBatch(ROOT, EPOCH, EPOCH + at, EPOCH + at + 1, b"", True)) == []
    branch.acknowledge(EPOCH)
    branch.acknowledge(EPOCH + 1)
    answers = branch.answers()
    assert len(answers) == POSITIONS_MAX
    assert answers[-1][0] == EPOCH + 1000
    assert len({digest for _, digest in answers}) == POSITIONS_MAX


def test_a_broker_that_has_left_remembers_no_further_events() -> None:
    """Let a root go on to send events: a relay forwards them, and keeps none."""
    branch = branch_of()
    receive(branch, batch(0b01))
    branch.leave()
    assert branch.is_open(EPOCH), "it was delivered"
    assert receive(branch, batch(0b11, first=EPOCH + 1, asks=True)) == []
    assert list(branch._open) == [EPOCH]
    branch.acknowledge(EPOCH)
    assert not branch.is_open(EPOCH)
    assert branch.answers() == []


def test_dropped_events_are_not_open() -> None:
    branch = branch_of()
    receive(branch, batch(0b01, 0b01), held=True)
    branch.leave()
    assert [branch.is_open(EPOCH + at) for at in range(2)] == [False, False]


def test_events_of_another_group_change_nothing() -> None:
    branch = branch_of()
    receive(branch, batch(0b01))
    for position in (EPOCH - 5, EPOCH + 1000):
        branch.acknowledge(position)
        assert not branch.is_open(position)
    assert not branch._taken
    assert branch.is_open(EPOCH)
