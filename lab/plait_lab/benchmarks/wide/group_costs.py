"""The cost of a stream group for its root: to publish to all brokers, and to take their acks.

The root is a production overlay. The acks of the others are made here as they would gather them on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import thread_time
from typing import Final

from plait_broker.overlay.groups.group_record import MemberRecord
from plait_broker.overlay.groups.group_root import ACK_CLAIM, GAP_S, GroupRoot, ack_claim
from plait_broker.overlay.outputs import SendBatch
from plait_broker.overlay.settings import OverlaySettings
from plait_broker.overlay.transport.reliable_stream import ACK_S
from plait_core.wire import FrameDecoder, encode_frame
from plait_core.wire.frame_header import VERSION_MAX
from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch
from plait_core.wire.group_events import bytes_of_set

from .wide_root import SETTINGS, WideRoot

RATE: Final = 2000
"""Events a second, if not stated."""

LONE_RATE: Final = 200.0
"""Events a second, so rare that none waits for another: `GAP_S` is shorter than the time between them."""

WARM_S: Final = ACK_S
"""Time before the measurement. The first question for acks comes after it, so each measurement has one."""


@dataclass(frozen=True, slots=True)
class EventCost:
    """The costs of one event to all brokers."""

    publish_s: float
    """Processor time of the root, until the frames for its links are encoded."""
    bytes: float
    """Bytes on the root's links above the event itself, all together."""
    acks_core: float
    """The part of a processor core that acks take."""


def group_cost(
    seed: int,
    destinations: int,
    seconds: float,
    *,
    burst: int,
    rate: float = RATE,
    settings: OverlaySettings = SETTINGS,
) -> EventCost:
    """Let a root publish this many events a second to all other brokers, `burst` in a turn, and answer for these.

    Time is virtual: the timers of the root run when they are due, so that batches wait as long as in a broker.
    """
    publisher = _Publisher(WideRoot(seed, destinations + 1, 3 * destinations, settings))
    turn_s = burst / rate
    turns = max(1, round(seconds / turn_s))
    for _ in range(round(WARM_S / turn_s)):
        publisher.turn(burst, turn_s)
    publisher.pass_time(GAP_S)  # no event of these turns waits any longer
    publisher.publish_s = publisher.acks_s = publisher.above = 0
    for _ in range(turns):
        publisher.turn(burst, turn_s)
    publisher.pass_time(GAP_S)
    events = turns * burst
    overlay = publisher.root.overlay
    assert overlay.counts["groups_opened"] == 1
    assert publisher.group.active == publisher.group.tree.everyone, "all acks are taken"
    return EventCost(publisher.publish_s / events, publisher.above / events, publisher.acks_s / (turns * turn_s))


class _Publisher:
    """A root that publishes, and what this has cost so far."""

    def __init__(self, root: WideRoot) -> None:
        self.root = root
        self.publish_s = 0.0
        self.acks_s = 0.0
        self.above = 0
        """Bytes on the root's links above the events."""
        self._homes = root.ids[1:]
        self._records = _Records()

    @property
    def group(self) -> GroupRoot:
        """The group of the root."""
        group = self.root.overlay.groups.root
        assert group is not None
        return group

    def turn(self, burst: int, turn_s: float) -> None:
        """Let time pass, and publish events in one turn."""
        self.pass_time(turn_s)
        root = self.root
        frames = [root.event() for _ in range(burst)]
        began = thread_time()
        for frame in frames:
            root.overlay.publish(frame, self._homes, 0, 0, root.now)
        sent = self._encoded()
        self.publish_s += thread_time() - began
        self.above -= sum(len(frame.block) for frame in frames) * len(self.group.links)
        self._arrive(sent)

    def pass_time(self, seconds: float) -> None:
        """Run the timers that are due in this time, each when it is."""
        root = self.root
        until = root.now + seconds
        while root.overlay.due_at <= until:
            root.now = max(root.now, root.overlay.due_at)
            began = thread_time()
            root.overlay.tick(root.now)
            sent = self._encoded()
            self.publish_s += thread_time() - began
            self._arrive(sent)
        root.now = until

    def _encoded(self) -> list[tuple[GroupBatch, bytes]]:
        """Return the batches that the root sends now."""
        outputs = [output for output in self.root.take() if isinstance(output, SendBatch)]
        return [(output.batch, encode_frame(output.batch)) for output in outputs]

    def _arrive(self, sent: list[tuple[GroupBatch, bytes]]) -> None:
        """Let batches arrive, and members answer their questions."""
        self.above += sum(len(data) for _, data in sent)
        for last in {batch.last for batch, _ in sent if batch.asks}:
            acks = list(_acks(self.root, last, self._records.closed(self.root, last)))
            began = thread_time()
            _receive(self.root, acks)
            self.acks_s += thread_time() - began


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


def _acks(root: WideRoot, last: int, record: bytes) -> Iterator[tuple[int, bytes]]:
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
            proof ^= auth.prove_claim(group.me, member, last, ACK_CLAIM, claimed)
        members = bytes_of_set((1 << subtree.size) - 1, subtree.size)
        yield child, encode_frame(GroupAck(group.me, group.epoch, last, members, proof))


def _receive(root: WideRoot, acks: list[tuple[int, bytes]]) -> None:
    for child, data in acks:
        decoder = FrameDecoder(version=VERSION_MAX, keep_unknown=True)
        decoder.feed(data)
        (frame,) = decoder.take()
        assert isinstance(frame, GroupAck)
        root.overlay.receive(child, frame, root.now)
    root.take()
