"""One child in the tree of a stream group: the batches that it was sent, and a bounded memory of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from plait_core.wire.event_block import PRIORITY_AT
from plait_core.wire.frame_types.group_frames import GroupBatch
from plait_core.wire.group_events import EventBatch, GroupEvent, bytes_of_set, digest, pack_batch

from .group_tree import Subtree

MEMORY_BYTES_MAX: Final = 1 << 20
"""Bytes of the latest batches that are kept for a child: a second of 8 Mbit/s, so that a short failure of a link costs
no retransmission from the root."""

FRAME_BYTES: Final = 256
"""Bytes of a remembered batch besides its events: one that only asks for acks takes memory, too."""


class GroupLink:
    """One child."""

    def __init__(self, subtree: Subtree, root: int, epoch: int, first: int) -> None:
        self.subtree = subtree
        self._root = root
        self._epoch = epoch
        self.priority = 0
        """The highest priority of the events that were sent last."""
        self._last = first - 1
        self._memory: deque[tuple[GroupBatch, float]] = deque()
        """The latest batches, each with the time when it was sent."""
        self._memory_bytes = 0
        self._repaired = -1
        """The last position after which batches were sent again."""

    def send(
        self, batch: EventBatch | None, last: int, now: float, *, asks: bool, age_us: int = 0, apart: int = 0
    ) -> GroupBatch | None:
        """Return the part of a batch for this child, or None if there is nothing for it. `age_us`: the age of the batch
        here. `apart`: the members whose acks are not to be added to those of others."""
        subtree = self.subtree
        events = () if batch is None else _for(subtree, batch.events)
        if not (events or asks):
            return None
        data = b""
        self.priority = max([event.block[PRIORITY_AT] for event in events], default=0)
        if batch is not None and events:
            data = pack_batch(batch._replace(events=events, digests=_others(batch, events)), subtree.size)
        alone = bytes_of_set(subtree.part_of(apart), subtree.size) if apart else b""
        frame = GroupBatch(self._root, self._epoch, self._last, last, data, asks, age_us, alone)
        self._last = last
        self._memory.append((frame, now))
        self._memory_bytes += FRAME_BYTES + len(data)
        while self._memory_bytes > MEMORY_BYTES_MAX:
            self._memory_bytes -= FRAME_BYTES + len(self._memory.popleft()[0].events)
        return frame

    def again(self, up_to: int, now: float) -> list[GroupBatch]:
        """Return the batches after a position with their present ages, or none if they are not remembered.

        A position that is not after the last one returns none: a child asks once for what follows a position. Each
        request costs a megabyte, so one that repeats itself must not be answered.
        """
        if up_to <= self._repaired:
            return []
        found = [(frame, at) for frame, at in self._memory if frame.last > up_to]
        if not found or found[0][0].previous != up_to:
            return []
        self._repaired = up_to
        return [
            replace(frame, waited_us=frame.waited_us + max(0, round((now - at) * 1_000_000))) for frame, at in found
        ]


def _for(subtree: Subtree, events: Sequence[GroupEvent]) -> list[GroupEvent]:
    """Return the events for a subtree, with their destinations there."""
    found = []
    before, part = 0, 0
    for position, delay_us, flags, members, block in events:
        if members != before:  # events that follow each other often have the same destinations
            before, part = members, subtree.part_of(members)
        if part:
            found.append(GroupEvent(position, delay_us, flags, part, block))
    return found


def _others(batch: EventBatch, events: Sequence[GroupEvent]) -> dict[int, bytes]:
    """Return the digests of a batch's events that are not among these."""
    if not batch.signature or len(events) == batch.signed:
        return {}
    others = dict(batch.digests)
    here = {event.position for event in events}
    for event in batch.events:
        if event.position not in here:
            others[event.position] = digest(event.position, event.flags, event.block)
    return others
