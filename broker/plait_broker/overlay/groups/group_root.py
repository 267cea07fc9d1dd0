"""The root's end of a stream group: numbering, batches, and what each member has acked.

All events for members have one numbering. Each names its destinations by a bit set of the tree. Those of one turn, or
of several that follow each other closely, form a batch with one signature. A few times a second, a batch asks all
members for acks of everything up to it. An ack proves which events the member got (`group_record.py`), and the root
knows which those should be. After a sum of acks that is wrong, its members are asked to ack each by itself
(`spoiled_acks.py`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from operator import xor
from struct import Struct
from typing import Final, NamedTuple

from plait_core.wire.frame_types.group_frames import GroupAck, GroupBatch
from plait_core.wire.group_events import (
    BATCH_EVENTS_MAX,
    DELAY_US_MAX,
    EventBatch,
    GroupEvent,
    claim,
    digest,
    set_of_bytes,
)

from ..security.identity import Forged
from ..security.message_auth import MessageAuth
from ..transport.reliable_stream import ACK_EVENTS, ACK_S, Unacked
from .group_link import GroupLink
from .group_record import RootRecords
from .group_tree import GroupTree, bits_of
from .spoiled_acks import SpoiledAcks

GAP_S: Final = 0.002
"""Least time between two batches, unless one is full. A signature costs the root more than publishing five events, and
each member verifies it: at most 500 a second. An event after a pause leaves at once. In a stream of 2,000 events a
second, one waits 1 ms on average. With a gap of 1 ms an event costs a third more time and half more bytes there, and
4 ms would double the wait for a quarter of both (`python -m plait_lab.bench --only wide`)."""

ASKED_S: Final = 0.02
"""Least time between two questions for acks, be it for an event whose publisher waits."""

PATIENCE_S: Final = 2.0
"""A member that has not acked for so long, while it was asked, is served by its own stream again: ten acks."""

EVENTS_MAX: Final = 16_384
BYTES_MAX: Final = 16 << 20
"""Unacked events of a group, and their bytes. Members that keep it above these are served by their own streams."""

SLOW: Final = 0.25
"""The share of these from which on members that hold up most of the others are served by their own streams. It is below
the share from which on publishers wait (`FULL`), so that one slow member holds up nobody."""

SLOW_S: Final = 2 * ACK_S
"""Time after a question from which on a member without an ack is slow: two questions of a busy root."""

PART_BYTES: Final = 16 << 10
"""Bytes of the events that one batch has: on a slow link, control frames wait while it is written. A larger event is a
batch by itself."""

EVENT_BYTES: Final = 16
"""Bytes of an event in a batch besides its block and its destinations."""

ACK_CLAIM: Final = 0xFF
"""The kind of the MAC of a member's ack. No event has these flags."""

_EPOCH: Final = Struct(">Q")


def ack_claim(epoch: int, record: bytes) -> bytes:
    """Return what a member's MAC covers besides the position: the epoch, and the record of its events up to there."""
    return _EPOCH.pack(epoch) + record


class Kept(NamedTuple):
    """An event that not all of its destinations have acked."""

    position: int
    members: int
    unacked: Unacked


@dataclass(slots=True)
class Question:
    """A position up to which members are asked for acks."""

    records: list[bytes]
    """By index, the record of each member up to there."""
    members: int
    """The bit set of the members that have not acked a position from there on."""
    at: float
    """When they were asked."""


class GroupRoot:
    """One group, from its opening until all is acked."""

    def __init__(self, me: int, tree: GroupTree, epoch: int, message_auth: MessageAuth) -> None:
        self.me = me
        self.tree = tree
        self.epoch = epoch
        self.next = epoch
        """The next position. Epochs and positions are times in microseconds, so no two groups of a root share one."""
        self.active = tree.everyone
        """The members that are served by the group."""
        self.links = {child.broker: GroupLink(child, me, epoch, epoch) for child in tree.children}
        self.kept: deque[Kept] = deque()
        self.kept_bytes = 0
        self._message_auth = message_auth
        self._unsent: list[Kept] = []
        """The events of the next batch."""
        self._unsent_bytes = 0
        self._batch_at = -inf
        """When the last batch with events was sent."""
        self._records = RootRecords(epoch, len(tree.ids))
        self._acked = [epoch - 1] * len(tree.ids)
        self._questions: OrderedDict[int, Question] = OrderedDict()
        self._unasked = 0
        self.ask_at = inf
        """When to ask for acks."""
        self._asked_at = -inf
        self.spoiled = SpoiledAcks()

    @property
    def last(self) -> int:
        """The last position."""
        return self.next - 1

    @property
    def filling(self) -> float:
        """Return the unacked events, as a share of the bound."""
        return max(len(self.kept) / EVENTS_MAX, self.kept_bytes / BYTES_MAX)

    @property
    def pending(self) -> bool:
        """Whether events wait for the next batch."""
        return bool(self._unsent)

    @property
    def send_at(self) -> float:
        """When to call `batches`: for events that wait, or else to ask for acks. A question waits for the events: it is
        for all of them."""
        if not self._unsent:
            return self.ask_at
        is_full = len(self._unsent) >= BATCH_EVENTS_MAX or self._unsent_bytes >= PART_BYTES
        return -inf if is_full else self._batch_at + GAP_S

    def add(self, unacked: Unacked, members: int, now: float, *, urgent: bool) -> int:
        """Append an event for these members. Return its position. `urgent`: its publisher waits for acks."""
        position = self.next
        self.next += 1
        kept = Kept(position, members, unacked)
        self._unsent.append(kept)
        self.kept.append(kept)
        block_bytes = len(unacked[0].block)
        self._unsent_bytes += block_bytes
        self.kept_bytes += block_bytes
        self._records.add(members)
        self._unasked += 1
        at = now + ACK_S
        if urgent or self._unasked >= ACK_EVENTS:
            at = max(now, self._asked_at + ASKED_S)
        self.ask_at = min(self.ask_at, at)
        return position

    def ask(self, now: float) -> None:
        """Ask for acks with the next batch."""
        if self.kept:
            self.ask_at = now

    def batches(self, now: float) -> Iterator[tuple[int, GroupBatch]]:
        """Return what to send to each child: all events that wait, and a question if it is time for one."""
        asks, apart = now >= self.ask_at, 0
        if asks:
            apart = self.spoiled.apart(now)
            before = self._questions.get(self.last)
            members, at = (self.active, now) if before is None else (before.members, before.at)
            self._questions[self.last] = Question(self._records.all(), members, at)
            self._unasked, self.ask_at, self._asked_at = 0, inf, now
        if self._unsent:
            self._batch_at = now
        parts = list(self._parts(self._take_unsent(now))) or [[]]
        for part in parts:
            batch = self._signed(part) if part else None
            last = part[-1].position if part else self.last
            for child, link in self.links.items():
                asked = asks and part is parts[-1]
                frame = link.send(batch, last, now, asks=asked, apart=apart if asked else 0)
                if frame is not None:
                    yield child, frame

    def receive_ack(self, child: int, ack: GroupAck, now: float = 0.0) -> list[tuple[int, int]]:
        """Take acks of members below a child. Return the members by index, each with the position up to which it had
        acked before. Raise Forged if all of them are false; `spoiled` has those that are, and that are new to it."""
        link, question = self.links.get(child), self._questions.get(ack.up_to)
        if link is None or question is None:
            return []
        subtree = link.subtree
        indexes = [subtree.start + at for at in bits_of(set_of_bytes(ack.members, subtree.size))]
        expected = self._expected(indexes, ack.up_to, question.records)
        if not ack.apart:
            right = indexes if reduce(xor, expected, 0) == ack.proof else []
        elif len(proofs := ack.proofs) == len(indexes):
            right = [index for index, mac, proof in zip(indexes, expected, proofs, strict=True) if mac == proof]
        else:
            raise Forged("acks of a stream group without a MAC for each member")
        if len(right) < len(indexes):
            ignored = self.spoiled.wrong & ~self.active
            wrong = [index for index in set(indexes).difference(right) if not ignored >> index & 1]
            if wrong:
                self._find_wrong(child, ack, sorted(wrong), now)
            if wrong and not right:
                raise Forged("acks of a stream group that its members did not make")
        elif not indexes and ack.proof:
            raise Forged("acks of a stream group of no members")
        return self._take(right, ack.up_to)

    def _expected(self, indexes: Iterable[int], up_to: int, records: Sequence[bytes]) -> list[int]:
        """Return the MACs that members make up to a position."""
        ids, epoch, prove = self.tree.ids, self.epoch, self._message_auth.prove_claim
        return [prove(ids[at], ids[at], up_to, ACK_CLAIM, ack_claim(epoch, records[at])) for at in indexes]

    def _find_wrong(self, child: int, ack: GroupAck, wrong: list[int], now: float) -> None:
        """Note members whose acks are wrong. Ask the members of a wrong sum again, each by itself: no more often than a
        busy root asks anyway."""
        if ack.apart or len(wrong) == 1:
            self.spoiled.note_wrong(wrong)
        elif self.spoiled.suspect(child, sum(1 << index for index in wrong), now):
            self.ask_at = min(self.ask_at, max(now, self._asked_at + ACK_S))

    def _take(self, indexes: list[int], up_to: int) -> list[tuple[int, int]]:
        """Note right acks of members."""
        members = sum(1 << index for index in indexes)
        for asked_up_to, asked in self._questions.items():
            if asked_up_to <= up_to:
                asked.members &= ~members
        news = []
        for index in indexes:
            before = self._acked[index]
            if before < up_to:
                self._acked[index] = up_to
                if self.active >> index & 1:
                    news.append((index, before))
        self.settle()
        return news

    def remove(self, index: int) -> list[Kept]:
        """Remove a member. Return the events that it has not acked."""
        acked = self._acked[index]
        self.active &= ~(1 << index)
        return [kept for kept in self.kept if kept.position > acked and kept.members >> index & 1]

    def settle(self) -> None:
        """Drop what all members have acked."""
        floor = min((self._acked[index] for index in bits_of(self.active)), default=self.last)
        while self.kept and self.kept[0].position <= floor:
            self.kept_bytes -= len(self.kept.popleft().unacked[0].block)
        for up_to in [up_to for up_to in self._questions if up_to <= floor]:
            del self._questions[up_to]

    def acked_up_to(self, index: int) -> int:
        """Return the position up to which a member has acked."""
        return self._acked[index]

    def late(self, now: float) -> int:
        """Return the members that have not answered in time, that hold up the others, or for which too much is kept."""
        late = 0
        for question in self._questions.values():
            if now >= question.at + PATIENCE_S:
                late |= question.members
        if len(self.kept) > EVENTS_MAX or self.kept_bytes > BYTES_MAX:
            first = self.kept[0].position
            late |= sum(1 << index for index in bits_of(self.active) if self._acked[index] < first)
        return (late | self._slow(now)) & self.active

    @property
    def due_at(self) -> float:
        """When to send a batch, or to look for members that are late."""
        open_at = next((question.at for question in self._questions.values() if question.members & self.active), inf)
        return min(self.send_at, open_at + (SLOW_S if self._slow(inf) else PATIENCE_S))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _slow(self, now: float) -> int:
        """Return the members that hold up the others: the group fills, and most members have answered what these have
        not. If most have not, the events are too many for all, and their publishers should wait."""
        if self.filling < SLOW:
            return 0
        for question in self._questions.values():
            open = question.members & self.active
            if open:
                few = 2 * open.bit_count() <= self.active.bit_count()
                return open if few and now >= question.at + SLOW_S else 0
        return 0

    def _take_unsent(self, now: float) -> list[GroupEvent]:
        """Remove and return the events of the next batch. Their ages include the time that they have waited for it."""
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        found = []
        for position, members, (frame, flags, delay_us, published_at, _) in unsent:
            waited_us = max(0, round((now - published_at) * 1_000_000))
            found.append(GroupEvent(position, min(delay_us + waited_us, DELAY_US_MAX), flags, members, frame.block))
        return found

    def _parts(self, unsent: list[GroupEvent]) -> Iterator[list[GroupEvent]]:
        """Return events in parts that each fit one batch."""
        part: list[GroupEvent] = []
        size = 0
        for event in unsent:
            event_bytes = EVENT_BYTES + len(self.tree.ids) // 8 + len(event.block)
            if part and (len(part) == BATCH_EVENTS_MAX or size + event_bytes > PART_BYTES):
                yield part
                part, size = [], 0
            part.append(event)
            size += event_bytes
        if part:
            yield part

    def _signed(self, events: list[GroupEvent]) -> EventBatch:
        first = events[0].position
        signature = b""
        if self._message_auth.strict:
            digests = [digest(event.position, event.flags, event.block) for event in events]
            signature = self._message_auth.sign_batch(claim(self.me, self.epoch, first, digests))
        return EventBatch(first, len(events), signature, events, {})
