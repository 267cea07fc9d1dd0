"""Stream groups from end to end: a root, relays and members, with frames that tests carry, lose or change."""

from __future__ import annotations

from dataclasses import replace

import pytest
from group_net import GroupNet, unacked

from plait_broker.overlay.groups import stream_groups
from plait_broker.overlay.groups.group_root import GAP_S, PATIENCE_S
from plait_broker.overlay.groups.stream_groups import CHECK_S, JOIN_S, OPEN_S
from plait_broker.overlay.outputs import Acked
from plait_broker.overlay.transport.reliable_stream import ACK_S
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch, GroupOpen, GroupRepair
from plait_core.wire.frame_types.overlay_frames import CONFIRM, LinkState
from plait_core.wire.group_events import unpack_batch, unpack_members

FORK = {(1, 2): 10, (2, 3): 10, (2, 4): 10, (1, 5): 10}
CHAIN = {(1, 2): 10, (2, 3): 10}


def opened(links: dict[tuple[int, int], int]) -> GroupNet:
    """Return brokers without events on their way. The first one is the root of a group."""
    net = GroupNet(links)
    assert net.publish(1, *range(2, len(net.ids) + 1)) == []
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    net.advance(ACK_S)
    assert net[1].groups.root is not None
    assert not net[1].groups.root.kept
    net.carried.clear()
    return net


# --- the way of an event ----------------------------------------------------------------------------------------------


def test_events_reach_their_members_once_and_in_order() -> None:
    net = opened(FORK)
    sets = {2: (2, 3, 4, 5), 3: (3,), 4: (4, 5), 5: (2,), 6: (3, 4)}
    for sequence, to in sets.items():
        assert net.publish(sequence, *to) == []
        if sequence % 2:
            net.carry()
    net.carry()
    for broker in (2, 3, 4, 5):
        assert net[broker].sequences == [1, *(sequence for sequence, to in sets.items() if broker in to)]
    assert net[3].events[-1].path == (1, 2)


def test_events_that_follow_closely_share_a_batch_and_a_lone_one_leaves_at_once() -> None:
    net = opened(CHAIN)
    net.publish(2, 2, 3)
    net.settle()
    assert len(net.waiting) == 1
    for sequence in (3, 4, 5):
        net.now += GAP_S / 4
        net.publish(sequence, 2, 3)
        net.settle()
    assert len(net.waiting) == 1
    due_at = net[1].groups.due_at
    assert net.now < due_at <= net.now + GAP_S / 4 + 1e-9
    net.advance(due_at - net.now)
    assert len(net.frames(GroupBatch)) == 4, "two batches, each over two links"
    assert net[3].sequences == [1, 2, 3, 4, 5]
    delays_us = [event.delay_us for event in net[2].events[1:]]
    assert delays_us[0] == 0
    assert delays_us[1:] == sorted(delays_us[1:], reverse=True)
    assert delays_us[1] == pytest.approx(GAP_S * 750_000, abs=1)


def test_a_relay_adds_the_time_on_its_link_to_the_age_of_a_batch() -> None:
    net = opened(CHAIN)
    net.publish(2, 2, 3)
    net.settle()
    ((_, _, frame),) = net.waiting
    assert isinstance(frame, GroupBatch)
    net[2].groups.receive_batch(net.ids[0], replace(frame, waited_us=30), 500, net.now)
    ((_, _, passed),) = net[2].take()
    assert isinstance(passed, GroupBatch)
    assert (passed.waited_us, passed.events) == (530, frame.events), "the events stay as the root has sent them"
    net[2].groups.settle(net.now)
    net[2].take()
    assert net[2].events[-1].delay_us == 530
    net[3].groups.receive_batch(net.ids[1], passed, 100, net.now)
    net[3].groups.settle(net.now)
    net[3].take()
    assert net[3].events[-1].delay_us == 630


def test_events_that_wait_for_a_batch_leave_before_a_member_is_served_by_its_own_stream() -> None:
    net = opened(CHAIN)
    for sequence in (2, 3):
        net.publish(sequence, 2, 3)
        net.settle()
    net.waiting.clear()
    assert net[1].groups.pending
    net[1].groups.leave(net.ids[2], net.now)
    assert not net[1].groups.pending
    ((_, _, frame),) = net[1].take()
    assert isinstance(frame, GroupBatch)
    assert [event.members for event in unpack_batch(frame.events, 2, frame.last).events] == [0b11]
    ((broker, events),) = net[1].groups.moved
    assert (broker, [each[0].sequence for _, each in events]) == (net.ids[2], [2, 3])


def test_events_that_wait_for_a_batch_belong_to_the_group_before() -> None:
    net = opened(CHAIN)
    net[1].groups.leave(net.ids[2], net.now)
    net.now += JOIN_S + OPEN_S
    for sequence in (2, 3):
        net.publish(sequence, 2)
        net.settle()
    first = net[1].groups.root
    assert first is not None
    assert first.pending
    net.publish(4, 2, 3)
    assert net[1].groups.before is first is not net[1].groups.root
    assert not first.pending
    net.carry()
    assert net[2].sequences == [1, 2, 3, 4]


def test_a_broker_that_stops_sends_what_waits_for_a_batch() -> None:
    net = opened(CHAIN)
    for sequence in (2, 3):
        net.publish(sequence, 2, 3)
        net.settle()
    assert net[1].groups.pending
    net[1].groups.send_all(net.now)
    assert not net[1].groups.pending
    net.carry()
    assert net[3].sequences == [1, 2, 3]


def test_an_event_with_few_destinations_opens_no_group() -> None:
    net = GroupNet(FORK, destinations_max=2)
    assert net.publish(1, 2, 3) == [2, 3]
    assert net[1].groups.root is None
    assert net.publish(2, 2, 3, 4) == []
    assert net.publish(3, 4) == [], "a group that is open has all events of its members"
    net.carry()
    assert net[4].sequences == [2, 3]


def test_a_broker_outside_the_group_joins_the_next_one_when_it_can_be_reached() -> None:
    net = opened(CHAIN)
    root, first = net[1], net[1].groups.root
    root.groups.leave(net.ids[2], net.now)
    link_state = next(known for known in net.map.link_states if known.origin == net.ids[2])
    net.map.remove(net.ids[2])
    assert net.publish(2, 2, 3) == [3]
    net.carry()
    net.acknowledge()
    net.advance(JOIN_S + OPEN_S)
    assert net.publish(3, 2, 3) == [3]
    assert root.groups.root is first, "another group would not reach it either"
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    net.map.put(link_state)
    assert net.publish(4, 2, 3) == []
    assert root.groups.root is not first


def test_a_destination_outside_the_map_is_left_to_the_caller() -> None:
    net = opened(CHAIN)
    others, _ = net[1].groups.publish([99, net.ids[1]], unacked(50), net.now)
    assert others == [99]


def test_relays_send_each_child_its_part_alone() -> None:
    net = opened(FORK)
    net.publish(2, 3)
    net.carry()
    to = [(sender, receiver) for sender, receiver, frame in net.carried if isinstance(frame, GroupBatch)]
    assert to == [(1, 2), (2, 3)]
    assert net.frames(GroupBatch)[0].last == net.frames(GroupBatch)[1].last


def test_acks_of_a_subtree_come_in_one_frame() -> None:
    net = opened(FORK)
    net.publish(2, 2, 3, 4, 5)
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    acks = [(sender, to, frame.members) for sender, to, frame in net.carried if isinstance(frame, GroupAck)]
    assert acks == [(5, 1, b"\1"), (3, 2, b"\1"), (4, 2, b"\1"), (2, 1, b"\7")]
    root = net[1].groups.root
    assert root is not None
    assert not root.kept


def test_a_confirmed_event_is_reported_for_each_member() -> None:
    net = opened(FORK)
    homes = [net.ids[1], net.ids[2]]
    _, named = net[1].groups.publish(homes, unacked(2, flags=CONFIRM), net.now)
    (position,) = {position for _, position, _ in named}
    assert [home for home, _, _ in named] == homes
    net.carry()
    assert net[1].others == []
    assert all(net[1].groups.is_pending(home, position) for home in homes)
    net[2].acknowledge()
    net.advance(1.0)
    assert [(output.destination, [at for at, _ in output.events]) for output in acked(net)] == [(homes[0], [position])]
    assert [net[1].groups.is_pending(home, position) for home in homes] == [False, True]
    net[3].acknowledge()
    net.advance(0.1)
    net.advance(0.1)
    assert [output.destination for output in acked(net)] == homes


def test_an_event_is_reported_once_while_others_have_not_acked_it() -> None:
    net = opened(FORK)
    for sequence in (2, 3):
        net.publish(sequence, 2, 3, flags=CONFIRM)
        net.carry()
        net[2].acknowledge()
        net.advance(0.1)
        net.advance(0.1)
    reported = [(output.destination, each[0].sequence) for output in acked(net) for _, each in output.events]
    assert reported == [(2, 2), (2, 3)]


def acked(net: GroupNet) -> list[Acked]:
    return [output for output in net[1].others if isinstance(output, Acked)]


def test_events_without_confirmation_are_not_reported() -> None:
    net = opened(CHAIN)
    others, named = net[1].groups.publish([net.ids[1]], unacked(50), net.now)
    assert (others, named) == ([], [])
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    assert acked(net) == []


# --- losses -----------------------------------------------------------------------------------------------------------


def test_a_hole_leads_to_one_request_and_the_batches_come_again() -> None:
    net = opened(CHAIN)
    net.publish(2, 3)
    net.carry(lost=GroupBatch, over=(2, 3))
    for sequence in (3, 4):
        net.publish(sequence, 3)
    net.settle()
    net.end_gap()
    held = [carried for carried in net.waiting if isinstance(carried[2], GroupBatch)]
    assert held
    net.carry()
    net.publish(5, 3)
    net.carry()
    assert net[3].sequences == [1, 2, 3, 4, 5]
    assert [(sender, to) for sender, to, frame in net.carried if isinstance(frame, GroupRepair)] == [(3, 2)]


def test_a_broker_takes_no_batch_behind_a_hole() -> None:
    net = opened(CHAIN)
    net.publish(2, 3)
    net.carry(lost=GroupBatch, over=(2, 3))
    for sequence in (3, 4, 5):
        net.publish(sequence, 3)
        net.carry(lost=GroupRepair, over=(3, 2))
    assert net[3].sequences == [1]
    assert net[3].counts["group_repairs"] == 1
    assert net[2].groups.branches[1][-1].last > net[3].groups.branches[1][-1].last


def test_members_behind_a_hole_that_stays_get_what_they_have_not_acked_by_their_own_streams() -> None:
    net = opened(FORK)
    net.publish(2, 2, 3, 4)
    net.carry(lost=GroupBatch, over=(2, 3))
    net.publish(3, 3, 4)
    net.carry(lost=GroupRepair, over=(3, 2))
    net.acknowledge()
    net.advance(ACK_S)
    net.acknowledge()
    net.advance(0.1)
    net.advance(PATIENCE_S)
    ((broker, events),) = net[1].groups.moved
    assert broker == 3
    assert [each[0].sequence for _, each in events] == [2, 3]
    assert net.publish(4, 3, 4) == [3]
    assert net[1].groups.root is not None
    assert [each.position for each in net[1].groups.root.kept] == [net[1].groups.root.last]


def test_batches_of_another_than_the_parent_are_strays() -> None:
    net = opened(FORK)
    net.publish(2, 3, 5)
    net.settle()
    ((_, _, frame),) = [carried for carried in net.waiting if carried[1] == 2]
    assert isinstance(frame, GroupBatch)
    for broker, sender in ((3, 4), (5, 2), (2, 3)):
        net[broker].receive(sender, frame, net.now)
    net[3].receive(2, GroupBatch(1, 77, 76, 77), net.now)
    assert [net[broker].counts["group_strays"] for broker in (2, 3, 5)] == [1, 2, 1]
    assert all(net[broker].groups.branches[1][-1].last < frame.last for broker in (2, 3, 5))


def test_a_member_behind_a_link_that_has_failed_is_served_by_its_own_stream() -> None:
    net = opened(FORK)
    net.publish(2, 2, 3, 4, 5)
    net.settle()
    net.waiting.clear()
    for broker, others in ((2, (1, 3)), (4, ())):
        net.map.put(LinkState(broker, 2, f"b{broker}", others, (10,) * len(others)))
    net.advance(0.0)
    assert net[1].groups.moved == []
    net.advance(CHECK_S)
    assert [(broker, len(events)) for broker, events in net[1].groups.moved] == [(4, 1)]
    del net[1].neighbours[5]
    net.map.put(LinkState(5, 2, "b5", (1,), (99,)))
    net.settle()
    net.advance(CHECK_S)
    assert [broker for broker, _ in net[1].groups.moved] == [4, 5]


def test_a_root_never_names_a_member_that_has_left() -> None:
    net = opened(FORK)
    net[1].groups.leave(3, net.now)
    for sequence in range(2, 6):
        assert net.publish(sequence, 2, 3, 4, 5) == [3]
    net.carry()
    assert net[3].sequences == [1]
    for sender, to, frame in net.carried:
        if isinstance(frame, GroupBatch) and (sender, to) == (1, 2) and frame.events:
            assert all(event.members == 0b101 for event in unpack_batch(frame.events, 3, frame.last).events)
    assert net[4].sequences == [1, 2, 3, 4, 5]


# --- the next group ---------------------------------------------------------------------------------------------------


def test_a_member_that_has_left_joins_the_next_group_after_a_while() -> None:
    net = opened(FORK)
    net[1].groups.leave(3, net.now)
    net.now += JOIN_S * 0.9
    assert net.publish(2, 3, 4) == [3]
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    net.now += JOIN_S * 0.1
    assert net.publish(3, 3, 4) == []
    net.carry()
    assert (net[3].sequences, net[4].sequences) == ([1, 3], [1, 2, 3])
    assert net[1].counts["groups_opened"] == 2


def test_groups_are_not_opened_in_quick_succession() -> None:
    net = GroupNet(FORK, destinations_max=1)
    net.publish(1, 2, 3, 4, 5)
    net[1].groups.leave(3, net.now)
    net[1].groups.leave(4, net.now)
    net.now += OPEN_S * 0.9
    assert net.publish(2, 3, 4) == [3, 4]
    net.carry()
    net.acknowledge()
    net.advance(ACK_S)
    net.now += OPEN_S * 0.2
    assert net.publish(3, 3, 4) == []


def test_the_events_of_a_group_come_after_those_of_the_one_before() -> None:
    """Lose the last batch of a group on the way to one member. It takes nothing of the next group before."""
    net = opened(FORK)
    net[1].groups.leave(4, net.now)
    net.now += JOIN_S
    net.publish(2, 3)
    net.carry(lost=GroupBatch, over=(2, 3))
    net.publish(3, 3, 4)
    net.settle()
    late = [carried for carried in net.waiting if isinstance(carried[2], GroupBatch)]
    assert len({frame.epoch for _, _, frame in late}) == 2
    net.carry(lost=GroupRepair, over=(3, 2))
    assert net.frames(GroupOpen)[0].after_epoch == late[0][2].epoch
    assert net[3].sequences == [1]
    assert [len(branch.held) for branch in net[3].groups.branches[1]] == [0, 1]
    assert net[4].sequences == [1, 3], "no member of the group before"
    before = net[3].groups.branches[1][0]
    net[2].receive(3, GroupRepair(1, before.epoch, before.last), net.now)
    net.carry()
    assert net[3].sequences == [1, 2, 3]


def test_a_broker_is_in_two_groups_of_a_root_at_most() -> None:
    net = opened(FORK)
    for sequence in (2, 3, 4):
        net[1].groups.leave(3, net.now)
        net.now += JOIN_S
        assert net.publish(sequence, 2, 3, 4, 5) == []
        net.carry()
        net.acknowledge()
        net.advance(ACK_S)
        net.advance(ACK_S)
    assert net[1].counts["groups_opened"] == 4
    assert {len(net[broker].groups.branches[1]) for broker in (2, 3, 4, 5)} == {stream_groups.GROUPS_MAX}
    assert net[1].groups.before is None


def test_an_older_group_is_not_opened_again() -> None:
    net = opened(CHAIN)
    branch = net[2].groups.branches[1][-1]
    again = GroupNet(CHAIN)
    again.now = 50.0
    again.publish(1, 2, 3)
    again.settle()
    ((_, _, older),) = [carried for carried in again.waiting if isinstance(carried[2], GroupOpen)]
    net[2].receive(1, older, net.now)
    assert net[2].groups.branches[1] == [branch]
    assert net[2].take() == []


def test_a_broker_that_has_gone_is_forgotten() -> None:
    net = opened(CHAIN)
    assert net[3].groups.busy
    net[3].groups.gone(1)
    assert not net[3].groups.busy


def test_an_open_hands_the_children_their_parts() -> None:
    net = GroupNet(FORK)
    net.publish(1, 2, 3, 4, 5)
    net.carry()
    opens = [(sender, to, frame) for sender, to, frame in net.carried if isinstance(frame, GroupOpen)]
    parts = {to: (frame.path, [each.id for each in unpack_members(frame.members)]) for _, to, frame in opens}
    assert parts == {2: ((1,), [2, 3, 4]), 5: ((1,), [5]), 3: ((1, 2), [3]), 4: ((1, 2), [4])}
