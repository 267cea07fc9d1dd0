"""One broker's place in a stream group: a member, and a relay for the brokers below it.

Batches come from one parent, in order: each names the one before it. After a hole the broker takes no further batch. It
asks the parent for the missing ones. If these are not remembered, the root gets no acks from here, and serves the
members below the hole by their own streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.wire import EventFrame, Forward
from plait_core.wire.frame_types.group_frames import GroupBatch, GroupOpen
from plait_core.wire.group_events import DELAY_US_MAX, EventBatch, GroupMember, unpack_batch

from ..transport.reliable_stream import EARLY_BYTES_MAX, EARLY_MAX, ReceivedEvent
from .group_acks import POSITIONS_MAX, GroupAcks
from .group_link import GroupLink
from .group_record import MemberRecord
from .group_tree import children_of

JUMP_MAX: Final = 1 << 20
"""Positions between two batches for one broker. Each question is for all, so there are far fewer."""

GROUP: Final = 1 << 63
"""Set in the positions of a group's events, so that they differ from those of a stream."""


class GroupBranch:
    """One broker's place in one group."""

    def __init__(self, open: GroupOpen, parent: int, members: Sequence[GroupMember], now: float) -> None:
        self.opened_at = now
        self.root = open.root
        self.epoch = open.epoch
        self.parent = parent
        self.path = open.path
        """The brokers that an event passes: from the root to the parent."""
        self.members = members
        self.size = members[0].size
        self.after = members[0].after
        """The position in its own stream from the root whose events come before those of the group."""
        self.follows = (open.after_epoch, open.after_position) if members[0].follows else None
        """The group whose events come first, and its last position."""
        children = children_of([member.id for member in members], [member.size for member in members])
        self.links = {child.broker: GroupLink(child, self.root, self.epoch, self.epoch) for child in children}
        self.acks = GroupAcks((1 << self.size) - 1)
        self.last = open.epoch - 1
        """The broker has all of its events up to this position."""
        self.left = False
        """Whether the root serves this broker by its own stream again. It relays as before."""
        self.repairing = False
        """Whether batches are missing, and the parent was asked for them."""
        self.held: list[ReceivedEvent] = []
        """Events that came before those which precede them."""
        self._held_bytes = 0
        self._record = MemberRecord(open.epoch)
        self._open: deque[int] = deque()
        """Positions that this broker has not acknowledged yet, ascending."""
        self._taken: set[int] = set()
        self._questions: deque[tuple[int, bytes]] = deque()
        """Positions that are to be acked, with the record of this broker's events up to there."""

    def takes(self, batch: GroupBatch) -> bool:
        """Return whether a batch is the next one. It ends a repair."""
        if batch.last < self.last or (batch.last == self.last and not batch.asks):
            return False
        if batch.previous != self.last or batch.last - self.last > JUMP_MAX:
            return False
        self.repairing = False
        return True

    def misses(self, batch: GroupBatch) -> bool:
        """Return whether batches before this one are missing, and the parent was not asked for them. It begins a
        repair."""
        if batch.previous <= self.last or self.repairing:
            return False
        self.repairing = True
        return True

    def read(self, batch: GroupBatch) -> EventBatch | None:
        """Return the events of a batch, or None if it has none. Raise FrameError."""
        if not batch.events:
            return None
        read = unpack_batch(batch.events, self.size, batch.last)
        if read.first <= self.last:
            raise FrameError(FrameFault.FIELD, "a batch with positions that it cannot have")
        for event in read.events:
            EventFrame(event.block)  # also those of others: a neighbour would take the fault for one of this broker
        return read

    def advance(self, batch: GroupBatch, read: EventBatch | None, age_us: int, now: float) -> list[ReceivedEvent]:
        """Take the next batch, which has this age here. Return the events for this broker, in order; `held` has them if
        they must wait."""
        self.last = batch.last
        found = []
        for position, delay_us, flags, members, block in () if read is None else read.events:
            if members & 1 and not self.left:
                delay_us = min(delay_us + age_us, DELAY_US_MAX)
                frame = Forward(0, delay_us, flags, self.path, (), block)
                found.append(ReceivedEvent(self.root, GROUP | position, frame, flags, delay_us, self.path, now))
                self._open.append(position)
                self._record.add(position)
        if batch.asks and not self.left:
            self._ask(batch.last)
        return found

    def _ask(self, up_to: int) -> None:
        """Note a question. While too many wait, the oldest is dropped: an ack of a later one is one of it, too."""
        questions = self._questions
        if questions and questions[-1][0] == up_to:
            return
        questions.append((up_to, self._record.up_to(up_to)))
        if len(questions) > POSITIONS_MAX:
            questions.popleft()

    def hold(self, events: Sequence[ReceivedEvent]) -> None:
        """Keep events until those before them have come. Too many are dropped: the root sends them again."""
        self.held += events
        self._held_bytes += sum(len(event.frame.block) for event in events)
        if len(self.held) > EARLY_MAX or self._held_bytes > EARLY_BYTES_MAX:
            self.leave()

    def release(self) -> list[ReceivedEvent]:
        """Remove and return the events that have waited."""
        held, self.held, self._held_bytes = self.held, [], 0
        return held

    def leave(self) -> None:
        """Take no events of this group any more: the root serves this broker by its own stream."""
        self.left = True
        dropped = {event.position ^ GROUP for event in self.release()}
        if dropped:
            self._open = deque(position for position in self._open if position not in dropped)
        self._questions.clear()

    def acknowledge(self, position: int) -> None:
        """Note that this broker has charge of an event. It may be of another group."""
        waiting = self._open
        if not self.epoch <= position <= self.last:
            return
        if waiting and waiting[0] == position:
            waiting.popleft()
            while waiting and waiting[0] in self._taken:
                self._taken.discard(waiting.popleft())
        elif waiting and waiting[0] < position:
            self._taken.add(position)

    def is_open(self, position: int) -> bool:
        """Return whether an event is not acknowledged yet."""
        first = self._open[0] if self._open else self.last + 1
        return first <= position <= self.last and position not in self._taken

    def answers(self) -> list[tuple[int, bytes]]:
        """Remove and return the positions that this broker can ack now, with the record of its events up to there."""
        found = []
        while self._questions and (not self._open or self._open[0] > self._questions[0][0]):
            found.append(self._questions.popleft())
        return found
