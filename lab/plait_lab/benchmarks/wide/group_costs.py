"""What a stream group costs its root: publishing to all brokers, and their acks.

The root is a production overlay. The acks of the others are made here as they would gather them on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Final

from plait_broker.overlay.groups.group_record import MemberRecord
from plait_broker.overlay.groups.group_root import ACK_CLAIM, ack_claim
from plait_broker.overlay.outputs import SendBatch
from plait_broker.overlay.settings import OverlaySettings
from plait_core.wire import FrameDecoder, encode_frame
from plait_core.wire.frame_header import VERSION_MAX
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch
from plait_core.wire.group_events import bytes_of_set

from .wide_root import SETTINGS, WideRoot

TURN_S: Final = 0.001
WARM: Final = 20
"""Turns before the measurement."""


@dataclass(frozen=True, slots=True)
class EventCost:
    """The costs of one event to all brokers."""

    publish_s: float
    """Processor time of the root, until the frames for its links are encoded."""
    bytes: float
    """Bytes on the root's links above the event itself, all together."""
    acks_core: float
    """The part of a processor core that acks take at 2,000 events a second."""


def group_cost(
    seed: int, destinations: int, seconds: float, *, burst: int, settings: OverlaySettings = SETTINGS
) -> EventCost:
    """Let a root publish 2,000 events a second to all other brokers, `burst` in a turn, and answer for these."""
    root = WideRoot(seed, destinations + 1, 3 * destinations, settings)
    homes = root.ids[1:]
    turn_s = TURN_S * burst / 2
    turns = max(1, round(seconds / turn_s))
    records = _Records()
    published_s = acks_s = above = 0.0
    for turn in range(-WARM, turns):
        root.now += turn_s
        frames = [root.event() for _ in range(burst)]
        began = thread_time()
        for frame in frames:
            root.overlay.publish(frame, homes, 0, 0, root.now)
        sent = [(output.link, encode_frame(output.batch), output.batch) for output in root.take()
                if isinstance(output, SendBatch)]  # fmt: skip
        if root.overlay.due_at <= root.now:
            root.overlay.tick(root.now)
            sent += [(output.link, encode_frame(output.batch), output.batch) for output in root.take()
                     if isinstance(output, SendBatch)]  # fmt: skip
        ended = thread_time()
        asked = {batch.last: batch for _, _, batch in sent if batch.asks}
        acks = [ack for batch in asked.values() for ack in _acks(root, batch, records.closed(root, batch.last))]
        answered = thread_time()
        _receive(root, acks)
        if turn >= 0:
            published_s += ended - began
            acks_s += thread_time() - answered
            group = root.overlay.groups.root
            assert group is not None
            above += sum(len(data) for _, data, _ in sent) - sum(len(f.block) for f in frames) * len(group.links)
    events = turns * burst
    assert root.overlay.counts["groups_opened"] == 1
    group = root.overlay.groups.root
    assert group is not None
    assert group.active == group.tree.everyone, "all acks are taken"
    return EventCost(published_s / events, above / events, acks_s / (turns * turn_s))


class _Records:
    """The record of members that get all events."""

    def __init__(self) -> None:
        self._record: MemberRecord | None = None
        self._next = 0

    def closed(self, root: WideRoot, last: int) -> bytes:
        """Return the record up to a question."""
        group = root.overlay.groups.root
        assert group is not None
        if self._record is None:
            self._record, self._next = MemberRecord(group.epoch), group.epoch
        for position in range(self._next, last + 1):
            self._record.add(position)
        self._next = last + 1
        return self._record.up_to(last)


def _acks(root: WideRoot, batch: GroupBatch, record: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the ack of each child for all members below it, which have the same events."""
    group = root.overlay.groups.root
    assert group is not None
    claimed = ack_claim(group.epoch, record)
    for child, link in group.links.items():
        subtree = link.subtree
        proof = 0
        for at in range(subtree.start, subtree.start + subtree.size):
            member = group.tree.ids[at]
            auth = root.auths[root.number_of[member]]
            proof ^= auth.prove_claim(group.me, member, batch.last, ACK_CLAIM, claimed)
        members = bytes_of_set((1 << subtree.size) - 1, subtree.size)
        yield child, encode_frame(GroupAck(group.me, group.epoch, batch.last, members, proof))


def _receive(root: WideRoot, acks: list[tuple[int, bytes]]) -> None:
    for child, data in acks:
        decoder = FrameDecoder(version=VERSION_MAX, keep_unknown=True)
        decoder.feed(data)
        (frame,) = decoder.take()
        assert isinstance(frame, GroupAck)
        root.overlay.receive(child, frame, root.now)
    root.take()
