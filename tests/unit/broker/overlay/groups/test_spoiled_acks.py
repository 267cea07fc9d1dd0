"""A wrong ack spoils the sum that it is in: it is found, its member leaves the group, and the others stay."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from group_net import GroupNet, acquainted, identities

from plait_broker.overlay.groups.group_acks import POSITIONS_MAX, TOGETHER_S, GroupAcks
from plait_broker.overlay.groups.group_root import ACK_CLAIM
from plait_broker.overlay.groups.spoiled_acks import APART_MAX_S, APART_S, SpoiledAcks
from plait_broker.overlay.groups.stream_groups import JOIN_S, WRONG_S
from plait_broker.overlay.outputs import LogRemark
from plait_broker.overlay.security.identity import Forged
from plait_broker.overlay.transport.reliable_stream import ACK_S
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch

LINKS = {(1, 2): 10, (2, 3): 10, (2, 4): 10, (2, 5): 10, (1, 6): 10}
"""A root with the children 2 and 6; 3, 4 and 5 are below 2."""

MEMBERS = (2, 3, 4, 5, 6)


class SpoiledNet(GroupNet):
    """Such brokers with keys. Frames that the root refuses are counted, as `Overlay` does."""

    def __init__(self) -> None:
        super().__init__(LINKS, all_auth=acquainted(identities(6)))
        self.refused = 0
        root, receive = self[1], self[1].receive

        def count(*given: object) -> None:
            try:
                receive(*given)  # type: ignore[arg-type]
            except Forged:
                self.refused += 1

        root.receive = count  # type: ignore[method-assign]

    def lie(self, index: int, when: Callable[[], bool] = lambda: True) -> None:
        """Let a member make wrong acks."""
        auth = self[index].auth
        prove = auth.prove_claim

        def wrong(other: int, author: int, number: int, kind: int, claim: bytes) -> int:
            right = prove(other, author, number, kind, claim)
            return right ^ 1 if kind == ACK_CLAIM and author == auth.me and when() else right

        auth.prove_claim = wrong  # type: ignore[method-assign]

    def round(self, sequence: int) -> list[int]:
        """Publish an event for all members, and let them ack it. Return those that the group does not serve."""
        others = self.publish(sequence, *MEMBERS)
        self.carry()
        self.acknowledge()
        for _ in range(6):
            self.advance(ACK_S / 2)
            self.acknowledge()
        return [self.ids.index(broker) + 1 for broker in others]

    @property
    def moved(self) -> list[int]:
        """The members that have left the group, by index."""
        return [self.ids.index(broker) + 1 for broker, _ in self[1].groups.moved]

    @property
    def remarks(self) -> list[str]:
        return [output.text for output in self[1].others if isinstance(output, LogRemark)]


def to_root(net: GroupNet) -> list[GroupAck]:
    """Remove and return the acks that the relay has sent the root."""
    found = [
        ack for near, to, ack in net.carried if isinstance(ack, GroupAck) and (near, to) == (net.ids[1], net.ids[0])
    ]
    net.carried.clear()
    return found


def test_only_the_member_whose_ack_is_wrong_leaves_the_group() -> None:
    net = SpoiledNet()
    net.lie(4)
    assert net.round(1) == []
    assert net.moved == [4]
    assert net[1].groups.root is not None
    assert not net[1].groups.root.kept, "the others have acked, though their sum was wrong"
    assert net[1].counts["group_acks_wrong"] == 1
    (remark,) = net.remarks
    assert f"b{net.ids[1]} -> b{net.ids[3]}" in remark
    to_root(net)
    refused = net.refused
    for sequence in (2, 3):
        assert net.round(sequence) == [4]
    assert net.refused == refused, "it spoils no sum any more"
    assert len(net.remarks) == 1


def test_acks_are_added_again_after_a_while() -> None:
    net = SpoiledNet()
    net.lie(4)
    net.round(1)
    net.now += APART_S
    to_root(net)
    net.round(2)
    acks = to_root(net)
    assert net[1].groups.root is not None
    alone = 1 << net[1].groups.root.tree.index[net.ids[3]] - net[1].groups.root.links[net.ids[1]].subtree.start
    assert bytes([0x0F ^ alone]) in [ack.members for ack in acks if not ack.apart], "2, 3 and 5 as one"
    assert {ack.members for ack in acks if ack.apart} == {bytes([alone])}


def test_a_wrong_sum_leads_to_one_question_and_acks_of_other_children_are_added_as_before() -> None:
    net = SpoiledNet()
    net.lie(4)
    net.publish(1, *MEMBERS)
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    net.advance(TOGETHER_S)
    net.carried.clear()
    net.advance(ACK_S)
    asked = [(to, frame.apart) for _, to, frame in net.carried if isinstance(frame, GroupBatch) and frame.asks]
    assert asked[0] == (net.ids[1], b"\x0f")
    assert (net.ids[5], b"") in asked
    net.advance(ACK_S)
    assert net.moved == [4]


def test_such_a_member_joins_no_group_for_a_while() -> None:
    net = SpoiledNet()
    net.lie(4)
    net.round(1)
    for sequence in range(2, 5):
        net.now += JOIN_S
        assert net.round(sequence) == [4]
    assert net[1].counts["groups_opened"] == 1, "a member that may not join is no reason to open one"
    net.now += WRONG_S
    assert net.round(9) == []
    assert net[1].counts["groups_opened"] == 2


def test_it_spoils_no_sum_of_a_group_that_others_are_a_reason_to_open() -> None:
    net = SpoiledNet()
    net.lie(4)
    net.round(1)
    net[1].groups.leave(net.ids[2], net.now)
    net.now += JOIN_S
    refused = net.refused
    assert net.round(2) == [4]
    assert net[1].counts["groups_opened"] == 2
    assert net.refused == refused


def test_a_broker_that_spoils_sums_alone_ends_them_for_ever_longer_in_its_part_of_the_tree() -> None:
    """Let the relay add a wrong MAC to sums, and send right ones where each is by itself."""
    net = SpoiledNet()
    root, receive = net[1], net[1].receive

    def spoil(sender: int, frame: object, now: float) -> None:
        if sender == net.ids[1] and isinstance(frame, GroupAck) and not frame.apart and frame.members == b"\x0f":
            frame = GroupAck(frame.root, frame.epoch, frame.up_to, frame.members, frame.proof ^ 1)
        receive(sender, frame, now)  # type: ignore[arg-type]

    root.receive = spoil  # type: ignore[method-assign]
    sequence, spans = 0, []
    for _ in range(4):
        began, before = net.now, net.refused
        while net.refused == before:
            sequence += 1
            assert net.round(sequence) == []
        spans.append(net.now - began)
    assert spans[3] > 2 * spans[1] > 2 * spans[0]
    net.round(sequence + 1)
    assert net.moved == []
    assert root.groups.root is not None
    assert not root.groups.root.kept


# --- the parts --------------------------------------------------------------------------------------------------------


def test_suspects_are_asked_once_and_their_time_doubles() -> None:
    spoiled = SpoiledAcks()
    assert spoiled.suspect(2, 0b0110, 10.0)
    assert not spoiled.suspect(2, 0b0010, 10.1), "an ack of an earlier question"
    assert spoiled.apart(10.0 + APART_S * 0.9) == 0b0110
    assert spoiled.apart(10.0 + APART_S) == 0
    now, length = 20.0, APART_S
    for _ in range(10):
        length = min(2 * length, APART_MAX_S)
        assert spoiled.suspect(2, 0b0110, now)
        assert spoiled.apart(now + length * 0.9) == 0b0110
        now += length
        assert spoiled.apart(now) == 0
    assert spoiled.suspect(5, 0b1000, now)
    assert spoiled.apart(now + APART_S) == 0, "each child of the root by itself"


def test_wrong_members_ack_by_themselves_for_ever_and_are_new_once() -> None:
    spoiled = SpoiledAcks()
    spoiled.note_wrong([3, 1])
    spoiled.note_wrong([1])
    spoiled.exclude(2)
    assert (spoiled.take_new(), spoiled.take_new()) == ([3, 1], [])
    assert spoiled.apart(inf) == 0b1110


def test_macs_travel_side_by_side_where_they_are_not_to_be_added() -> None:
    acks = GroupAcks(0b11111)
    acks.ask(7, 0b00110)
    assert acks.add(7, 0b00001, 8, 0.0)
    assert acks.add(7, 0b00100, 4, 0.0), "the sum of one"
    assert acks.add(7, 0b00010, 0, 0.0, (2,))
    assert acks.add(7, 0b11000, 3, 0.0)
    assert acks.due(0.0) == [(7, 0b11001, 11, ()), (7, 0b00110, 0, (2, 4))]


@pytest.mark.parametrize(("members", "apart"), [(0b0011, ()), (0b0101, (1, 2)), (0b1000, (1,))])
def test_a_sum_with_one_that_is_not_to_be_added_goes_no_further(members: int, apart: tuple[int, ...]) -> None:
    acks = GroupAcks(0b11111)
    acks.ask(7, 0b00111)
    acks.ask(8, 0)
    assert acks.add(7, members, 5, 0.0, apart) == (members == 0b0101)
    assert not acks.add(8, members, 5, 0.0, (1,) * members.bit_count())


def test_a_question_that_is_repeated_is_answered_anew() -> None:
    acks = GroupAcks(0b111)
    acks.add(7, 0b011, 5, 0.0)
    acks.ask(7, 0b111)
    assert acks.due(inf) == []
    assert acks.add(7, 0b011, 0, 0.0, (1, 2))
    for position in range(100, 100 + 10 * POSITIONS_MAX):
        acks.ask(position, 1)
    assert len(acks._apart) == POSITIONS_MAX
