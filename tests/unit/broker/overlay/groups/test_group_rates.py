"""The rate limit of control frames on a link, for the frames of stream groups."""

from __future__ import annotations

import pytest

from plait_core.rate_limit import TokenBucket
from plait_core.wire import ControlFrame
from plait_core.wire.frame_types.group_frames import MEMBER_BYTES, GroupAck, GroupBatch, GroupOpen, GroupRepair
from plait_lab.simulation.overlay.world import linked_world

ROOT = 77
BATCH = GroupBatch(ROOT, 5, 4, 5, b"events")


def taken(count: int, frame: ControlFrame, *, here: bool = False) -> bool:
    """Send a broker so many frames at once, while its limit is 100. Return whether it keeps the link. `here`: it is the
    root of the group."""
    near = linked_world({(0, 1): 0.001}).broker(0)
    (link,) = near.broker_connections.links()
    link.control_rate = TokenBucket(1.0, 100.0, 0.0)
    if here:
        assert isinstance(frame, GroupAck)
        frame = GroupAck(near.overlay.me, frame.epoch, frame.up_to, frame.members, frame.proof)
    near.broker_connections.receive_all(link, [frame] * count, 0.0)
    return not link.closing


@pytest.mark.parametrize(
    "frame",
    [
        GroupBatch(ROOT, 5, 4, 5, b"events", True),
        GroupBatch(ROOT, 5, 4, 5, b"", True),
        GroupBatch(ROOT, 5, 4, 5),
        GroupRepair(ROOT, 5, 4),
        GroupAck(ROOT, 5, 5, b"\xff" * 64, 0),
    ],
    ids=["events that ask", "a question", "nothing", "a repair", "acks for others"],
)
def test_frames_that_cost_one(frame: ControlFrame) -> None:
    assert taken(100, frame)
    assert not taken(101, frame)


def test_events_alone_cost_nothing() -> None:
    assert taken(1000, BATCH)


def test_acks_cost_their_root_more_the_more_members_they_name() -> None:
    """Here 64 members: five frames each."""
    acks = GroupAck(0, 5, 5, b"\xff" * 8, 0)
    assert taken(20, acks, here=True)
    assert not taken(21, acks, here=True)


def test_an_open_costs_more_the_more_members_it_has() -> None:
    open = GroupOpen(ROOT, 5, (1,), bytes(64 * MEMBER_BYTES))
    assert taken(20, open)
    assert not taken(21, open)
