"""The root of a stream group: numbering, questions, and acks whose MACs and records must be right."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

import pytest
from group_net import CHAIN, FORK, acquainted, identities, unacked
from hypothesis import given
from hypothesis import strategies as st

from plait_broker.overlay.groups import group_root
from plait_broker.overlay.groups.group_record import EMPTY, MemberRecord, closed
from plait_broker.overlay.groups.group_root import (
    ACK_CLAIM,
    ASKED_S,
    GAP_S,
    PATIENCE_S,
    SLOW,
    SLOW_S,
    GroupRoot,
    Kept,
    ack_claim,
)
from plait_broker.overlay.groups.group_tree import GroupTree, bits_of
from plait_broker.overlay.security.identity import Forged
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.reliable_stream import ACK_EVENTS, ACK_S, FULL, Unacked
from plait_core.errors import FrameError
from plait_core.limits import FRAME_BYTES_MAX
from plait_core.wire import encode_frame
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch
from plait_core.wire.group_events import BATCH_EVENTS_MAX, bytes_of_set, claim_of, unpack_batch

EPOCH = 1000
SUBTREES = {2: (1, 3), 5: (4, 1)}
"""Of `FORK`, by child: the first index and the size of its subtree."""


class LoggedRoot(GroupRoot):
    """A root that remembers the destinations of all events."""

    def __init__(self, me: int, tree: GroupTree, epoch: int, auth: MessageAuth) -> None:
        super().__init__(me, tree, epoch, auth)
        self.sets: dict[int, int] = {}

    def add(self, unacked: Unacked, members: int, now: float, *, urgent: bool) -> int:
        position = super().add(unacked, members, now, urgent=urgent)
        self.sets[position] = members
        return position

    def positions_of(self, index: int) -> list[int]:
        """Return the positions of all events for a member."""
        return [position for position, members in self.sets.items() if members >> index & 1]

    def record(self, positions: Iterable[int], up_to: int) -> bytes:
        """Return the record of a member with these events."""
        record = MemberRecord(self.epoch)
        for position in sorted(position for position in positions if position <= up_to):
            record.add(position)
        return record.up_to(up_to)


def root_of(tree: GroupTree = FORK) -> LoggedRoot:
    return LoggedRoot(1, tree, EPOCH, MessageAuth(1, None))


def add(root: GroupRoot, *members: int, now: float = 0.0, urgent: bool = False) -> int:
    """Add an event for members by index. Return its position."""
    return root.add(unacked(), sum(1 << index for index in members), now, urgent=urgent)


def ask(root: GroupRoot, now: float = 1.0) -> int:
    """Send a batch that asks for acks. Return the position."""
    root.ask_at = now
    assert any(frame.asks for _, frame in root.batches(now))
    return root.last


def ack_of(root: LoggedRoot, up_to: int, *members: int, got: Iterable[int] | None = None) -> GroupAck:
    """Return the acks of members by index, as the child above them sends it. `got`: the positions of their events, if
    not the right ones."""
    start, size = next(part for part in SUBTREES.values() if part[0] <= min(members) < sum(part))
    named, proof = 0, 0
    for index in members:
        member = root.tree.ids[index]
        named |= 1 << index - start
        record = root.record(root.positions_of(index) if got is None else got, up_to)
        proof ^= MessageAuth(member, None).prove_claim(1, member, up_to, ACK_CLAIM, ack_claim(root.epoch, record))
    return GroupAck(1, root.epoch, up_to, bytes_of_set(named, size), proof)


# --- numbering and batches --------------------------------------------------------------------------------------------


def test_events_are_numbered_from_the_epoch_on_and_leave_at_the_end_of_the_turn() -> None:
    root = root_of()
    assert [add(root, 1), add(root, 4), add(root, 3, 4)] == [EPOCH, EPOCH + 1, EPOCH + 2]
    assert root.pending
    sent = dict(root.batches(0.0))
    assert not root.pending
    assert [(each.position, each.members) for each in unpack_batch(sent[2].events, 3, sent[2].last).events] == [
        (EPOCH, 0b001),
        (EPOCH + 2, 0b100),
    ]
    assert [(each.position, each.members) for each in unpack_batch(sent[5].events, 1, sent[5].last).events] == [
        (EPOCH + 1, 1),
        (EPOCH + 2, 1),
    ]
    assert [(each.last, each.asks) for each in sent.values()] == [(EPOCH + 2, False)] * 2
    assert list(root.batches(0.0)) == []


def test_a_turn_of_many_events_becomes_several_batches_and_the_last_one_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_root, "PART_BYTES", 256 << 10)
    root = root_of()
    for _ in range(2 * BATCH_EVENTS_MAX + 1):
        add(root, 4)
    frames = [frame for child, frame in root.batches(0.0) if child == 5]
    assert [len(unpack_batch(frame.events, 1, frame.last).events) for frame in frames] == [
        BATCH_EVENTS_MAX,
        BATCH_EVENTS_MAX,
        1,
    ]
    assert [frame.asks for frame in frames] == [False, False, True]
    assert [frame.previous for frame in frames] == [EPOCH - 1, *(frame.last for frame in frames[:-1])]


def test_a_batch_fits_its_frame_if_the_events_of_a_turn_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_root, "PART_BYTES", 256 << 10)
    """Publish many events of the greatest size in one turn, with signatures, and encode what each child gets."""
    keys = identities(3)
    auth, _, _ = acquainted(keys)
    tree = GroupTree([key.id for key in keys], (3, 1, 1), [keys[0].id] * 3)
    root = GroupRoot(keys[0].id, tree, EPOCH, auth)
    sizes = [1 << 20, 1 << 20, *[1] * BATCH_EVENTS_MAX, 100_000, 100_000, 100_000]
    for sequence, size in enumerate(sizes):
        root.add(unacked(sequence, payload=bytes(size)), 0b110, 0.0, urgent=False)
    counts = []
    for child, frame in root.batches(0.0):
        assert len(encode_frame(frame)) <= FRAME_BYTES_MAX
        if child == keys[1].id:
            counts.append(len(unpack_batch(frame.events, 1, frame.last).events))
    assert counts == [1, 1, BATCH_EVENTS_MAX, 2, 1]


def test_the_signature_of_a_batch_is_that_of_its_root() -> None:
    keys = identities(3)
    auth, near, _ = acquainted(keys)
    tree = GroupTree([key.id for key in keys], (3, 2, 1), (keys[0].id, keys[0].id, keys[1].id))
    root = GroupRoot(keys[0].id, tree, EPOCH, auth)
    for sequence in (1, 2):
        root.add(unacked(sequence), 0b110, 0.0, urgent=False)
    ((_, frame),) = root.batches(0.0)
    read = unpack_batch(frame.events, 2, frame.last)
    near.check_batch(root.me, claim_of(root.me, EPOCH, read), read.signature)
    for wrong in (claim_of(root.me, EPOCH + 1, read), claim_of(keys[2].id, EPOCH, read)):
        with pytest.raises(Forged):
            near.check_batch(root.me, wrong, read.signature)


# --- when to send -----------------------------------------------------------------------------------------------------


def test_an_event_after_a_pause_leaves_at_once_and_later_ones_wait_for_the_gap() -> None:
    root = root_of()
    add(root, 1, now=5.0)
    assert root.send_at <= 5.0
    assert list(root.batches(5.0))
    for part in (0.25, 0.5):
        add(root, 1, now=5.0 + part * GAP_S)
        assert root.send_at == root.due_at == 5.0 + GAP_S
    ((_, frame),) = root.batches(root.send_at)
    assert len(unpack_batch(frame.events, 3, frame.last).events) == 2
    add(root, 1, now=6.0)
    assert root.send_at <= 6.0


def test_a_question_waits_for_the_events_that_it_is_for() -> None:
    root = root_of()
    add(root, 1, now=5.0)
    assert not any(frame.asks for _, frame in root.batches(5.0))
    add(root, 1, now=5.0, urgent=True)
    assert root.ask_at == 5.0
    assert root.send_at == root.due_at == 5.0 + GAP_S
    assert [(frame.asks, frame.last) for _, frame in root.batches(root.send_at)] == [(True, root.last)] * 2
    assert root.send_at == root.ask_at == inf


@pytest.mark.parametrize(("count", "size"), [(BATCH_EVENTS_MAX, 1), (4, 64 << 10)])
def test_a_full_batch_does_not_wait(count: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_root, "PART_BYTES", 256 << 10)
    root = root_of()
    add(root, 1, now=5.0)
    assert list(root.batches(5.0))
    for _ in range(count):
        assert root.send_at > 5.0
        root.add(unacked(payload=bytes(size)), 0b10, 5.0, urgent=False)
    assert root.send_at <= 5.0


def test_the_age_of_an_event_includes_its_wait_for_the_batch() -> None:
    root = root_of()
    for at in (5.0, 5.001):
        root.add(unacked(at=at), 0b10, at, urgent=False)
    ((_, frame),) = root.batches(5.002)
    assert [event.delay_us for event in unpack_batch(frame.events, 3, frame.last).events] == [2000, 1000]


# --- when to ask ------------------------------------------------------------------------------------------------------


def test_acks_are_asked_for_after_a_while_or_many_events_or_an_urgent_one() -> None:
    root = root_of()
    assert root.due_at == inf
    add(root, 1, now=5.0)
    assert list(root.batches(5.0))
    assert root.ask_at == root.due_at == 5.0 + ACK_S
    add(root, 1, now=5.1)
    assert root.ask_at == 5.0 + ACK_S
    add(root, 1, now=5.1, urgent=True)
    assert root.ask_at == 5.1
    assert [(child, frame.asks) for child, frame in root.batches(5.1)] == [(2, True), (5, True)]
    add(root, 1, now=5.1, urgent=True)
    assert root.ask_at == 5.1 + ASKED_S, "not at once after another question"
    many = root_of()
    for _ in range(ACK_EVENTS):
        assert many.ask_at > 7.0
        add(many, 1, now=7.0)
    assert many.ask_at == 7.0


def test_nothing_is_asked_for_while_all_is_acked() -> None:
    root = root_of()
    root.ask(3.0)
    assert root.ask_at == inf
    add(root, 1)
    root.ask(3.0)
    assert root.ask_at <= 3.0


# --- records and acks -------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 15), min_size=1, max_size=70), st.integers(0, 70), st.integers(0, 70), st.data())
def test_an_ack_is_accepted_for_exactly_the_members_events(
    sets: list[int], first: int, second: int, data: st.DataObject
) -> None:
    """Ask twice. No other set of events has the same record, be it of the same size."""
    root = root_of()
    for at, named in enumerate(sets):
        if at in (first, second) and at:
            ask(root)
        root.add(unacked(), named << 1, 0.0, urgent=False)
    root.add(unacked(), 0b11110, 0.0, urgent=False)
    up_to = ask(root)
    for index, child in ((1, 2), (2, 2), (3, 2), (4, 5)):
        right = root.positions_of(index)
        wrong = data.draw(st.sets(st.integers(EPOCH, up_to)))
        moved = {*right[1:], EPOCH if right[0] != EPOCH else up_to}
        for got in (right[1:], moved, wrong):
            if sorted(got) != right:
                with pytest.raises(Forged):
                    root.receive_ack(child, ack_of(root, up_to, index, got=got))
        assert root.receive_ack(child, ack_of(root, up_to, index)) == [(index, EPOCH - 1)]


def test_acks_of_several_members_in_one_frame() -> None:
    root = root_of()
    add(root, 1, 2)
    add(root, 2, 4)
    up_to = ask(root)
    assert root.receive_ack(2, ack_of(root, up_to, 1, 2, 3)) == [(index, EPOCH - 1) for index in (1, 2, 3)]
    assert [root.acked_up_to(index) for index in range(1, 5)] == [up_to, up_to, up_to, EPOCH - 1]
    assert [kept.position for kept in root.kept] == [EPOCH, EPOCH + 1], "one has not acked"
    assert root.receive_ack(5, ack_of(root, up_to, 4)) == [(4, EPOCH - 1)]
    assert (list(root.kept), root.kept_bytes, root.late(inf)) == ([], 0, 0)


def test_an_ack_with_one_wrong_part_is_refused_as_a_whole() -> None:
    root = root_of()
    add(root, 1, 2)
    up_to = ask(root)
    right = ack_of(root, up_to, 1, 2)
    for wrong in (
        GroupAck(1, EPOCH, up_to, right.members, right.proof ^ 1),
        GroupAck(1, EPOCH, up_to, b"\1", right.proof),
        GroupAck(1, EPOCH, up_to, b"\7", right.proof),
        GroupAck(1, EPOCH, up_to, b"", right.proof),
    ):
        with pytest.raises(Forged):
            root.receive_ack(2, wrong)
    assert [root.acked_up_to(index) for index in (1, 2, 3)] == [EPOCH - 1] * 3
    assert root.late(1.0 + PATIENCE_S) == root.tree.everyone


def test_acks_of_a_member_are_no_acks_of_another_or_of_another_group() -> None:
    keys = identities(3)
    auth, near, far = acquainted(keys)
    tree = GroupTree([key.id for key in keys], (3, 2, 1), (keys[0].id, keys[0].id, keys[1].id))
    root = LoggedRoot(keys[0].id, tree, EPOCH, auth)
    root.add(unacked(), 0b110, 0.0, urgent=False)
    up_to = ask(root)

    record = closed(EMPTY, EPOCH, EPOCH, b"\1")

    def ack(by: MessageAuth, index: int, epoch: int = EPOCH, position: int = up_to) -> GroupAck:
        proof = by.prove_claim(root.me, by.me, position, ACK_CLAIM, ack_claim(epoch, record))
        return GroupAck(root.me, EPOCH, up_to, bytes_of_set(1 << index - 1, 2), proof)

    for wrong in (ack(near, 2), ack(far, 1), ack(near, 1, epoch=EPOCH - 1), ack(near, 1, position=up_to + 1)):
        with pytest.raises(Forged):
            root.receive_ack(near.me, wrong)
    assert root.receive_ack(near.me, ack(near, 1)) == [(1, EPOCH - 1)]
    assert root.receive_ack(near.me, ack(far, 2)) == [(2, EPOCH - 1)]


def test_acks_of_other_positions_and_from_other_brokers_are_ignored() -> None:
    root = root_of()
    add(root, 1, 4)
    up_to = ask(root)
    assert root.receive_ack(3, ack_of(root, up_to, 1)) == []
    assert root.receive_ack(2, ack_of(root, up_to + 1, 1)) == []
    assert root.receive_ack(2, ack_of(root, up_to - 1, 1)) == []
    assert root.acked_up_to(1) == EPOCH - 1
    with pytest.raises(FrameError):
        root.receive_ack(5, GroupAck(1, EPOCH, up_to, b"\3", 0))


def test_an_ack_that_comes_twice_or_late_takes_nothing_back() -> None:
    root = root_of()
    add(root, 1, 4)
    first = ask(root, 1.0)
    add(root, 1, 4)
    second = ask(root, 2.0)
    assert root.receive_ack(2, ack_of(root, second, 1)) == [(1, EPOCH - 1)]
    assert root.receive_ack(2, ack_of(root, second, 1)) == []
    assert root.receive_ack(2, ack_of(root, first, 1)) == []
    assert root.acked_up_to(1) == second


# --- what is kept -----------------------------------------------------------------------------------------------------


def positions(kept: Iterable[Kept]) -> list[int]:
    return [each.position for each in kept]


def test_events_are_kept_until_the_slowest_member_has_acked() -> None:
    root = root_of()
    for _ in range(2):
        add(root, 1, 2, 3, 4)
    first = ask(root, 1.0)
    add(root, 1)
    second = ask(root, 2.0)
    root.receive_ack(2, ack_of(root, second, 1, 2, 3))
    assert positions(root.kept) == [EPOCH, EPOCH + 1, EPOCH + 2]
    root.receive_ack(5, ack_of(root, first, 4))
    assert positions(root.kept) == [EPOCH + 2], "a member acks by position, also what is not for it"
    assert root.kept_bytes == len(unacked()[0].block)
    root.receive_ack(5, ack_of(root, second, 4))
    assert (positions(root.kept), root.kept_bytes, root.due_at) == ([], 0, inf)


def test_an_ack_answers_the_questions_before_it() -> None:
    """Lose the ack of the first question: the member is not late if it has acked the second."""
    root = root_of()
    add(root, 1, 4)
    ask(root, 1.0)
    add(root, 1, 4)
    second = ask(root, 2.0)
    root.receive_ack(2, ack_of(root, second, 1, 2, 3))
    assert list(bits_of(root.late(inf))) == [4]
    first_of_others = root_of()
    add(first_of_others, 1)
    up_to = ask(first_of_others, 1.0)
    add(first_of_others, 1)
    ask(first_of_others, 2.0)
    first_of_others.receive_ack(2, ack_of(first_of_others, up_to, 1))
    assert 1 in bits_of(first_of_others.late(inf)), "an ack answers no later question"


def test_a_member_that_does_not_answer_is_late() -> None:
    root = root_of()
    add(root, 1, 2, 3, 4)
    up_to = ask(root, 1.0)
    root.receive_ack(2, ack_of(root, up_to, 1, 3))
    assert root.due_at == 1.0 + PATIENCE_S
    assert root.late(1.0 + PATIENCE_S * 0.99) == 0
    assert list(bits_of(root.late(1.0 + PATIENCE_S))) == [2, 4]


@pytest.mark.parametrize(("bound", "events"), [("EVENTS_MAX", 10), ("BYTES_MAX", 10)])
def test_members_for_which_too_much_is_kept_are_late(bound: str, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1 if bound == "EVENTS_MAX" else len(unacked()[0].block)
    monkeypatch.setattr(group_root, bound, events * size)
    root = root_of()
    for _ in range(events):
        add(root, 1, 4)
    assert root.late(0.0) == 0
    up_to = ask(root, 0.0)
    root.receive_ack(2, ack_of(root, up_to, 1, 2, 3))
    add(root, 1, 4)
    assert list(bits_of(root.late(0.0))) == [4]
    assert positions(root.remove(4)) == list(range(EPOCH, EPOCH + events + 1))
    root.settle()
    assert root.late(0.0) == 0
    assert positions(root.kept) == [EPOCH + events]


def test_a_member_that_holds_up_most_others_is_late_before_publishers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_root, "EVENTS_MAX", 40)
    root = root_of()
    for _ in range(9):
        add(root, 1, 2, 3, 4)
    up_to = ask(root, 1.0)
    root.receive_ack(2, ack_of(root, up_to, 1, 2, 3))
    assert root.late(1.0 + SLOW_S) == 0, "there is room"
    assert root.due_at == 1.0 + PATIENCE_S
    add(root, 1, now=2.0)
    list(root.batches(2.0))
    assert root.filling == SLOW < FULL
    assert root.due_at == 1.0 + SLOW_S
    assert root.late(1.0 + SLOW_S * 0.9) == 0
    assert list(bits_of(root.late(1.0 + SLOW_S))) == [4]


def test_nobody_is_slow_while_most_members_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_root, "EVENTS_MAX", 40)
    root = root_of()
    for _ in range(30):
        add(root, 1, 2, 3, 4)
    up_to = ask(root, 1.0)
    assert root.late(1.0 + SLOW_S) == 0
    root.receive_ack(5, ack_of(root, up_to, 4))
    assert root.late(1.0 + SLOW_S) == 0, "three of four have not answered: the events are too many for all"
    assert root.due_at == 1.0 + PATIENCE_S
    root.receive_ack(2, ack_of(root, up_to, 1))
    assert list(bits_of(root.late(1.0 + SLOW_S))) == [2, 3]


def test_a_removed_member_is_waited_for_no_more_and_its_unacked_events_are_returned() -> None:
    root = root_of()
    add(root, 1, 4)
    up_to = ask(root)
    root.receive_ack(5, ack_of(root, up_to, 4))
    add(root, 1)
    add(root, 1, 4)
    assert positions(root.kept) == [EPOCH, EPOCH + 1, EPOCH + 2]
    assert positions(root.remove(4)) == [EPOCH + 2], "it has acked the first, and the second is not for it"
    assert root.active == 0b01110
    up_to = ask(root, 2.0)
    root.receive_ack(2, ack_of(root, up_to, 1, 2, 3))
    assert (positions(root.kept), root.late(inf)) == ([], 0)


def test_acks_of_a_removed_member_are_no_news_and_do_not_spoil_those_of_others() -> None:
    root = root_of()
    add(root, 1, 2)
    up_to = ask(root)
    root.remove(2)
    assert root.receive_ack(2, ack_of(root, up_to, 1, 2)) == [(1, EPOCH - 1)]


def test_a_root_without_members_keeps_nothing() -> None:
    root = GroupRoot(1, CHAIN, EPOCH, MessageAuth(1, None))
    add(root, 1, 2)
    for index in (1, 2):
        root.remove(index)
    root.settle()
    assert (positions(root.kept), root.kept_bytes, root.late(inf)) == ([], 0, 0)


def test_batches_are_what_links_send() -> None:
    root = root_of()
    add(root, 1)
    ((child, frame),) = root.batches(0.0)
    assert (child, frame) == (2, GroupBatch(1, EPOCH, EPOCH - 1, EPOCH, frame.events))
    assert root.links[2].again(EPOCH - 1, 0.0) == [frame]
