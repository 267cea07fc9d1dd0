"""Hostile neighbours, relays and roots: a broker refuses what is malformed, keeps little, and forwards what fits."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from group_net import GroupNet, acquainted, identities

from plait_broker.overlay.groups import group_acks
from plait_broker.overlay.groups.stream_groups import OPEN_S
from plait_broker.overlay.security.identity import Forged
from plait_core.errors import FrameError
from plait_core.limits import FRAME_BYTES_MAX, PATH_MAX
from plait_core.rate_limit import TokenBucket
from plait_core.wire import encode_frame
from plait_core.wire.frame_header import PREFIX_BYTES
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS, decode_control
from plait_core.wire.frame_types.group_frames import (
    BATCH_BYTES_MAX,
    EPOCH_MAX,
    MEMBERS_BYTES_MAX,
    GroupAck,
    GroupBatch,
    GroupOpen,
)
from plait_core.wire.group_events import GroupMember, pack_members

MOST = (1 << 64) - 1


def open_for(net: GroupNet, broker: int) -> GroupOpen:
    """Let broker 1 open a group. Return the frame that makes a child of it a part."""
    net.publish(1, *range(2, len(net.ids) + 1))
    net.settle()
    opens = [frame for _, to, frame in net.waiting if to == broker and isinstance(frame, GroupOpen)]
    net.waiting.clear()
    return opens[0]


def test_a_batch_that_a_broker_accepts_can_be_forwarded() -> None:
    """Let the fields besides the events grow to their greatest values."""
    small = GroupBatch(0, 0, 0, 0, bytes(BATCH_BYTES_MAX))
    everyone = bytes([255]) * MEMBERS_BYTES_MAX
    large = GroupBatch(MOST, MOST, MOST, MOST, bytes(BATCH_BYTES_MAX), True, MOST, everyone)
    assert len(encode_frame(small)) < len(encode_frame(large)) <= FRAME_BYTES_MAX
    with pytest.raises(ValueError, match="events"):
        encode_frame(GroupBatch(0, 0, 0, 0, bytes(BATCH_BYTES_MAX + 1)))


@pytest.mark.parametrize("epoch", [0, EPOCH_MAX + 1])
def test_an_epoch_is_a_position_after_another_one(epoch: int) -> None:
    """A repair names the position before the epoch, which must be a number of the wire."""
    right = encode_frame(GroupOpen(1, EPOCH_MAX, (1,), b""))[PREFIX_BYTES:]
    wrong = right.replace(b"\xa5epoch\xcf" + EPOCH_MAX.to_bytes(8, "big"), b"\xa5epoch\xcf" + epoch.to_bytes(8, "big"))
    assert wrong != right
    assert decode_control(FRAME_SCHEMAS[0x53], right) == GroupOpen(1, EPOCH_MAX, (1,), b"")
    with pytest.raises(FrameError):
        decode_control(FRAME_SCHEMAS[0x53], wrong)


@pytest.mark.parametrize(
    "path", [(), (1, 9), (9, 1), (1, 2, 1), (1, *range(10, 8 + PATH_MAX), 1)], ids=["none", "end", "root", "me", "long"]
)
def test_a_path_that_no_tree_has_opens_nothing(path: tuple[int, ...]) -> None:
    net = GroupNet({(1, 2): 10, (2, 3): 10})
    open = open_for(net, 2)
    net[2].receive(1, replace(open, path=path), net.now)
    assert (net[2].groups.branches, net[2].take()) == ({}, [])


def test_the_longest_path_can_be_passed_on() -> None:
    net = GroupNet({(1, 2): 10, (2, 3): 10})
    open = open_for(net, 2)
    net[2].receive(1, replace(open, path=(1, *range(10, 6 + PATH_MAX), 1)), net.now)
    ((_, _, passed),) = net[2].take()
    assert isinstance(passed, GroupOpen)
    assert len(passed.path) == PATH_MAX - 1
    encode_frame(passed)


def test_a_refused_place_leaves_nothing_behind() -> None:
    """Invent roots, and change a place: nothing of it is kept."""
    net = GroupNet({(1, 2): 10, (2, 3): 10})
    open = open_for(net, 2)
    for root in range(1000, 1100):
        net[2].receive(1, replace(open, root=root, path=(root, 1)), net.now)
    with pytest.raises(Forged):
        net[2].receive(1, replace(open, epoch=open.epoch + 1), net.now)
    assert (net[2].groups.branches, net[2].groups.busy, net[2].take()) == ({}, False, [])
    assert net[2].counts["group_strays"] == 100


def test_a_root_whose_keys_are_not_known_gives_no_place() -> None:
    """Without its keys there is no MAC of the root, so a neighbour could make up a place with the MAC 0."""
    keys = identities(2)
    net = GroupNet({(1, 2): 10}, all_auth=acquainted(keys))
    member = GroupMember(keys[1].id, 0, 0, 1, 0)
    open = GroupOpen(4711, 5, (4711, keys[0].id), pack_members([member]))
    net[2].receive(keys[0].id, open, net.now)
    assert net[2].groups.branches == {}


def test_a_root_that_opens_one_group_after_the_other_is_slowed_down() -> None:
    """Each group costs the children of a relay as much as the relay. They must not take it for the one that floods."""
    net = GroupNet({(1, 2): 10, (2, 3): 10})
    net.publish(1, 2, 3)
    net.carry()
    first = net.frames(GroupOpen)
    for _ in range(3):
        net[1].groups.leave(2, net.now)
        net[1].groups.leave(3, net.now)
        net[1].groups._opened_at, net[1].groups.before = -inf, None
        net.now += OPEN_S / 10
        net.publish(2, 2, 3)
        net.carry()
    assert net[1].counts["groups_opened"] == 4
    assert [frame for frame in net.frames(GroupOpen) if len(frame.path) == 2] == first[1:]
    assert [len(net[broker].groups.branches[1]) for broker in (2, 3)] == [1, 1]


def test_a_relay_passes_acks_up_within_the_rate_that_its_parent_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    net = GroupNet({(1, 2): 10, (2, 3): 10, (2, 4): 10})
    net.publish(1, 2, 3, 4)
    net.carry()
    net[2].neighbours[1].passed = TokenBucket(0.001, 20.0, net.now)
    branch = net[2].groups.branches[1][-1]
    monkeypatch.setattr(group_acks, "POSITIONS_MAX", 1000)
    for position in range(100):
        net[2].receive(3, GroupAck(1, branch.epoch, branch.epoch + position, b"\1", position), net.now)
    net[2].groups.tick(net.now + group_acks.TOGETHER_S)
    assert len([frame for _, to, frame in net[2].take() if to == 1]) == 20
    assert net[2].counts["relays_refused"] == 80


def test_an_ack_of_no_member_is_not_passed_on() -> None:
    net = GroupNet({(1, 2): 10, (2, 3): 10})
    net.publish(1, 2, 3)
    net.carry()
    branch = net[2].groups.branches[1][-1]
    net[2].receive(3, GroupAck(1, branch.epoch, 1, b"", 7), net.now)
    assert branch.acks.due(inf) == []
