"""A member of a stream group as a whole overlay: its own stream from the root, and the group beside it."""

from __future__ import annotations

from dataclasses import replace

from copies import publish
from one_overlay import OneOverlay

from plait_broker.overlay.groups.group_acks import TOGETHER_S
from plait_broker.overlay.groups.group_branch import GROUP
from plait_broker.overlay.groups.group_record import MemberRecord
from plait_broker.overlay.groups.group_root import ACK_CLAIM, ack_claim
from plait_broker.overlay.groups.stream_groups import OPEN_S, PLACE_CLAIM, _place
from plait_broker.overlay.security.message_auth import MessageAuth
from plait_broker.overlay.transport.reliable_stream import ACK_S, ReceivedEvent
from plait_core.wire import Forward
from plait_core.wire.frame_types.envelope_frames import envelop_message
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupOpen
from plait_core.wire.frame_types.overlay_frames import StreamAck, StreamSkip
from plait_core.wire.group_events import EventBatch, GroupEvent, GroupMember, pack_batch, pack_members, unpack_members

ME, ROOT = 1, 2
EPOCH = 1000
OWN = 10
"""The first position of the member's own stream."""


def open_of(epoch: int = EPOCH, *, after: int = 0, before: tuple[int, int] = (0, 0)) -> GroupOpen:
    """Return the place of the member, as the root gives it."""
    member = GroupMember(ME, after, 0, 1, int(bool(before[0])))
    unproved = GroupOpen(ROOT, epoch, (ROOT,), b"", *before)
    proof = MessageAuth(ROOT, None).prove_claim(ME, ROOT, epoch, PLACE_CLAIM, _place(unproved, ROOT, member))
    return GroupOpen(ROOT, epoch, (ROOT,), pack_members([member._replace(proof=proof)]), *before)


def batch(*sequences: int, epoch: int = EPOCH, first: int = 0, asks: bool = False) -> GroupBatch:
    """Return events of the group for the member."""
    first = first or epoch
    events = [GroupEvent(first + at, 0, 0, 1, publish(each).block) for at, each in enumerate(sequences)]
    data = pack_batch(EventBatch(first, len(events), b"", events, {}), 1) if events else b""
    return GroupBatch(ROOT, epoch, first - 1, first + len(events) - 1, data, asks)


class Member:
    """The overlay of a member, whose only neighbour is the root."""

    def __init__(self, *opens: GroupOpen) -> None:
        self.one = OneOverlay(ME)
        self.one.link_up(ROOT)
        for at, open in enumerate(opens):
            self.one.now = OPEN_S * (at - len(opens))
            self.one.receive(ROOT, open)
        self.one.now = 0.0
        self.one.receive(ROOT, envelop_message(StreamSkip(ME, ROOT, OWN - 1)))
        self.one.clear()

    def receive(self, *frames: GroupOpen | GroupBatch) -> None:
        """Receive frames of the group."""
        self.one.receive(ROOT, *frames)

    def own(self, sequence: int, position: int) -> None:
        """Receive an event by the member's own stream."""
        self.one.receive(ROOT, Forward(0, 0, 0, (ROOT,), ((ME, position, 0),), publish(sequence).block))

    @property
    def sequences(self) -> list[int]:
        """The sequence numbers of the events that were delivered so far."""
        return [event.frame.sequence for event in self.one.of(ReceivedEvent)]

    def acknowledge(self, sequence: int = 0) -> None:
        """Take charge of the events that were delivered so far, or of one of them."""
        for event in self.one.of(ReceivedEvent):
            if sequence in (0, event.frame.sequence):
                self.one.overlay.acknowledge(event, self.one.now)

    def own_ack(self) -> int:
        """Return the position up to which the own stream is acked after a while."""
        self.one.tick(self.one.now + ACK_S)
        return max((ack.up_to for ack in self.one.messages(StreamAck)), default=OWN - 1)

    def group_acks(self) -> list[GroupAck]:
        """Return the acks of the group after a while."""
        self.one.tick(self.one.now + TOGETHER_S)
        return [frame for _, frame in self.one.sent if isinstance(frame, GroupAck)]

    @property
    def has_left(self) -> bool:
        """Whether the member has left its present group."""
        return self.one.overlay.groups.branches[ROOT][-1].left


def ack(up_to: int, count: int, epoch: int = EPOCH) -> GroupAck:
    """Return the ack of the member, which has got all events from the epoch on, so many."""
    record = MemberRecord(epoch)
    for position in range(epoch, epoch + count):
        record.add(position)
    proof = MessageAuth(ME, None).prove_claim(ROOT, ME, up_to, ACK_CLAIM, ack_claim(epoch, record.up_to(up_to)))
    return GroupAck(ROOT, epoch, up_to, b"\1", proof)


def test_a_member_delivers_and_acks_what_it_was_asked_for() -> None:
    member = Member(open_of())
    member.receive(batch(1, 2), batch(3, first=EPOCH + 2, asks=True))
    assert member.sequences == [1, 2, 3]
    assert [event.position for event in member.one.of(ReceivedEvent)] == [GROUP | EPOCH + at for at in range(3)]
    member.acknowledge(3)
    member.acknowledge(1)
    assert member.group_acks() == []
    member.acknowledge(2)
    assert member.group_acks() == [ack(EPOCH + 2, 3)]


def test_events_of_a_group_wait_for_those_before_them_in_the_own_stream() -> None:
    member = Member(open_of(after=OWN + 1))
    member.receive(batch(3, 4, asks=True))
    assert member.sequences == []
    member.own(1, OWN)
    assert member.sequences == [1]
    member.own(2, OWN + 1)
    assert member.sequences == [1, 2, 3, 4]
    assert not member.has_left
    member.acknowledge()
    assert member.group_acks() == [ack(EPOCH + 1, 2)]


def test_events_of_a_group_wait_for_those_of_the_group_before() -> None:
    later = 2 * EPOCH
    member = Member(open_of(), open_of(later, before=(EPOCH, EPOCH + 1)))
    member.receive(batch(1), batch(3, epoch=later, asks=True))
    assert member.sequences == [1]
    member.receive(batch(2, first=EPOCH + 1))
    assert member.sequences == [1, 2, 3]
    member.acknowledge()
    assert member.group_acks() == [ack(later, 1, later)]


def test_events_of_a_group_do_not_come_if_the_group_before_is_not_known() -> None:
    later = 2 * EPOCH
    member = Member(open_of(later, before=(EPOCH, EPOCH + 1)))
    member.receive(batch(3, epoch=later))
    assert member.sequences == []


def test_an_event_of_the_own_stream_means_that_the_member_has_left_the_group() -> None:
    member = Member(open_of(after=OWN))
    member.own(1, OWN)
    assert not member.has_left, "it comes before the group"
    member.receive(batch(2))
    member.own(3, OWN + 1)
    assert member.has_left
    member.receive(batch(3, 4, first=EPOCH + 1, asks=True))
    assert member.sequences == [1, 2, 3]
    member.acknowledge()
    assert member.group_acks() == []


def test_held_events_of_a_group_that_the_member_has_left_are_dropped() -> None:
    member = Member(open_of(after=OWN + 1))
    member.receive(batch(2))
    member.own(1, OWN)
    member.own(9, OWN + 1)
    assert member.sequences == [1, 9, 2]
    other = Member(open_of(after=OWN, before=(EPOCH - 9, EPOCH - 8)))
    other.receive(batch(2))
    other.own(1, OWN)
    other.own(2, OWN + 1)
    assert other.sequences == [1, 2], "it came by its own stream, and so it must not come by the group, too"


def test_an_event_that_comes_by_both_ways_is_delivered_once_and_acked_in_both() -> None:
    member = Member(open_of())
    member.receive(batch(1, 2, asks=True))
    member.own(1, OWN)
    member.own(2, OWN + 1)
    member.own(3, OWN + 2)
    assert member.sequences == [1, 2, 3]
    assert member.own_ack() == OWN - 1
    member.acknowledge(1)
    assert member.own_ack() == OWN
    member.acknowledge()
    assert member.own_ack() == OWN + 2


def test_an_event_that_was_acknowledged_by_the_group_is_acked_at_once_in_the_own_stream() -> None:
    member = Member(open_of())
    member.receive(batch(1, 2))
    member.acknowledge()
    member.own(2, OWN)
    assert member.sequences == [1, 2]
    assert member.own_ack() == OWN


def test_events_of_the_root_itself_take_the_own_stream_beside_the_group() -> None:
    member = Member(open_of())
    event = publish(1)
    block = ROOT.to_bytes(8, "big") + event.block[8:]
    member.one.receive(ROOT, Forward(0, 0, 0, (ROOT,), ((ME, OWN, 0),), block))
    member.receive(batch(1))
    assert not member.has_left
    assert [event.frame.publisher == ROOT for event in member.one.of(ReceivedEvent)] == [True, False]


def test_events_that_wait_are_delivered_when_their_root_has_gone() -> None:
    member = Member(open_of(after=OWN + 1))
    member.own(9, OWN + 2)
    member.receive(batch(3, 4))
    assert member.sequences == []
    member.one.overlay.event_streams.gone(ROOT, member.one.now)
    member.one.tick(member.one.now)
    assert member.sequences == [9, 3, 4]
    member.acknowledge()
    assert not member.one.overlay.groups.busy


def test_a_broker_that_stops_sends_the_acks_that_wait() -> None:
    child = GroupMember(3, 0, 0, 1, 0)
    proved = unpack_members(open_of().members)[0]
    member = Member(replace(open_of(), members=pack_members([proved._replace(size=2), child])))
    events = EventBatch(EPOCH, 1, b"", [GroupEvent(EPOCH, 0, 0, 1, publish(1).block)], {})
    member.receive(replace(batch(1, asks=True), events=pack_batch(events, 2)))
    member.acknowledge()
    member.one.take()
    assert not any(isinstance(frame, GroupAck) for _, frame in member.one.sent), "it waits for that of the child"
    member.one.overlay.stop(member.one.now)
    assert [frame for _, frame in member.one.sent if isinstance(frame, GroupAck)] == [ack(EPOCH, 1)]
