"""Durable subscriptions: places in the broker's log that outlive clients and brokers.

Every event that some durable subscription matches is staged, stored, and only then delivered and confirmed. One that
keeps up is served from memory as records come back stored; one that fell behind, or came back, reads the log from its
place on. What is sent but not acknowledged is bounded by a window, so nothing is ever dropped for slowness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plait_core.events import EventId
from plait_core.filters import Filter
from plait_core.wire import Confirm, EventFrame, Publish

from ..outputs import Cursor, Fetch, LogRecord, Output, Persist, Recovered, StoredDocument
from ..settings import BrokerSettings
from .subscriptions import Subscription

CURSOR_DELAY_S: Final = 0.1
"""Acknowledgements that nobody waits for are stored together, this long after the first."""


RETRY_S: Final = 1.0
"""After a failure of the disk, the next attempt: full or broken disks do not recover faster."""


class Entry(NamedTuple):
    """One event of the log, in memory."""

    position: int
    logged_us: int
    frame: EventFrame
    delay_us: int
    """The delay that it had accumulated when it was logged; 0 for one that is read back."""


@dataclass(slots=True, eq=False)
class DurableSubscription:
    """One durable subscription, attached to a session or not."""

    number: int
    owner: str
    name: str
    filter: Filter
    acknowledged: int
    """All up to this position is dealt with."""
    beyond: set[int] = field(default_factory=set)
    """Positions above it that are dealt with as well."""
    routing: bytes = b""
    """What its client has deposited to test tags with. Not in the log: after a restart it is sent more, until its
    client is back."""
    next_position: int = 0
    """Where to go on reading; of no meaning while it keeps up."""
    since_us: int = 0
    since: float = 0.0
    """When it was opened, or its filter changed last, by the broker's own clock; 0 before this broker started."""
    in_flight: set[int] = field(default_factory=set)
    subscription: Subscription | None = None
    keeps_up: bool = False
    """Everything stored was sent or did not match, so that new entries go straight to it."""
    fetching: bool = False
    kept: bool = False
    """Whether the log knows of it: one that it never stored is undone when storing it fails."""

    def reads_on(self, window: int) -> bool:
        """Whether more of the log could be sent to it now."""
        return not self.keeps_up and not self.fetching and self.pending < window

    @property
    def pending(self) -> int:
        """What the window bounds: positions above the place that were sent, settled or not."""
        return len(self.in_flight) + len(self.beyond)

    def cursor(self) -> Cursor:
        return Cursor(self.name, self.owner, self.filter.text, self.acknowledged, tuple(sorted(self.beyond)))

    def settle(self, positions: Iterable[int], up_to: int, sent_up_to: int) -> list[int]:
        """Deal with positions; those that were in flight. `sent_up_to` is the last that this one has gone past."""
        done = {p for p in positions if p in self.in_flight} | {p for p in self.in_flight if p <= up_to}
        self.in_flight -= done
        self.beyond |= done
        self.advance(sent_up_to)
        return sorted(done)

    def advance(self, sent_up_to: int) -> None:
        """Move the place up to before the first that is still in flight."""
        place = min(self.in_flight) - 1 if self.in_flight else sent_up_to
        if place > self.acknowledged:
            self.acknowledged = place
            self.beyond = {p for p in self.beyond if p > place}


class WaitingRequest(NamedTuple):
    """A request that is done when something is stored."""

    session: int
    request: int
    undo: Callable[[float], None] | None = None
    """Takes back what the request has done already, should that not be stored."""


class StagedWrites(NamedTuple):
    """What one ticket stores."""

    entries: list[Entry]
    matched: list[list[DurableSubscription]]
    durables: list[DurableSubscription]
    waiting: list[WaitingRequest]
    forgotten: list[tuple[str, str]]
    memories: dict[tuple[int, int], bytes]


class DurableSubscriptions:
    """All durable subscriptions and the log's protocol side. The log itself is the face's (`log.py`)."""

    def __init__(self, settings: BrokerSettings, recovered: Recovered) -> None:
        self.settings = settings
        # A place may lie beyond the log's end, where records that could not be stored left holes: what comes next must
        # not fall behind it.
        places = [cursor.acknowledged + 1 for cursor in recovered.cursors]
        self.next_position = max(recovered.next_position, *places) if places else recovered.next_position
        self.stored = self.next_position - 1
        """The last position that is stored, or never will be."""
        self._by_key: dict[tuple[str, str], DurableSubscription] = {}
        self._tail: OrderedDict[int, Entry] = OrderedDict()
        self._tail_from = self.next_position
        """From here on the tail has everything that is stored."""
        self._stage = StagedWrites([], [], [], [], [], {})
        self._late: dict[tuple[int, int], bytes] = {}
        """Memories of other brokers that could not be stored, to be tried again."""
        self._dirty: dict[DurableSubscription, None] = {}
        self._flush_at: float | None = None
        self._tickets = 0
        self._pending: dict[int, StagedWrites] = {}
        self._fetches: dict[int, tuple[DurableSubscription, int, int]] = {}
        """By ticket: for whom, from what position on, and what was stored then."""
        self._again: dict[DurableSubscription, float] = {}
        """When to read again for those that could not be served."""
        self._to_fetch: list[Fetch] = []
        self._failing = False

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def idle(self) -> bool:
        """Whether everything given is stored, but for places that the log has just failed to store."""
        if self._pending or self._stage.entries or self._stage.waiting:
            return False
        return self._failing or not self._dirty

    def hurry(self, now: float) -> None:
        """The broker is stopping: what could not be stored is tried once more, now."""
        self._failing = False
        if self._flush_at is not None:
            self._flush_at = now

    def all(self) -> list[DurableSubscription]:
        return list(self._by_key.values())

    def find(self, owner: str, name: str) -> DurableSubscription | None:
        return self._by_key.get((owner, name))

    def add(self, durable: DurableSubscription) -> None:
        """Keep a durable subscription from now on. What is on its way to the log was matched before it was there."""
        assert (durable.owner, durable.name) not in self._by_key
        self._by_key[durable.owner, durable.name] = durable
        for stage in (*self._pending.values(), self._stage):
            for at, entry in enumerate(stage.entries):
                if entry.position > durable.acknowledged and durable.filter.matches(entry.frame.attributes()):
                    stage.matched[at] = [*stage.matched[at], durable]

    def forget(self, durable: DurableSubscription, waiting: WaitingRequest) -> None:
        """Give a durable subscription up; the request waits until that is stored."""
        self._drop(durable)
        self._stage.forgotten.append((durable.owner, durable.name))
        self._stage.waiting.append(waiting)

    def withdraw(self, durable: DurableSubscription, now: float) -> None:
        """One that could not be stored was never there; what may still be stored of it is deleted again."""
        assert durable.subscription is None, "whoever has taken it up is told first"
        self._drop(durable)
        if any(durable in stage.durables for stage in self._pending.values()):
            self._stage.forgotten.append((durable.owner, durable.name))
            self._flush_at = self._flush_at or now + CURSOR_DELAY_S

    def _drop(self, durable: DurableSubscription) -> None:
        del self._by_key[durable.owner, durable.name]
        self._dirty.pop(durable, None)
        self._again.pop(durable, None)

    def remember(self, key: tuple[int, int], frame: bytes) -> None:
        """Keep what another broker has told, beyond this broker's life; nothing: no more."""
        self._late.pop(key, None)
        self._stage.memories[key] = frame

    def attach(self, durable: DurableSubscription, subscription: Subscription) -> None:
        """A client takes it up."""
        assert durable.subscription is None
        durable.subscription = subscription
        self.rewind(durable)

    def rewind(self, durable: DurableSubscription) -> None:
        """Go on from its place: what was sent and not acknowledged comes again."""
        durable.in_flight.clear()
        durable.next_position = durable.acknowledged + 1
        durable.keeps_up = durable.next_position > self.stored

    def detach(self, durable: DurableSubscription, now: float) -> None:
        """Its client is gone."""
        if durable.keeps_up and not durable.in_flight:
            durable.advance(self.stored)
        durable.subscription = None
        durable.keeps_up = False
        self.touch(durable, now)

    def touch(self, durable: DurableSubscription, now: float, waiting: WaitingRequest | None = None) -> None:
        """Its place is to be stored: soon, or now if a request waits for that."""
        self._dirty[durable] = None
        if waiting is not None:
            self._stage.waiting.append(waiting)
        elif self._flush_at is None:
            self._flush_at = now + CURSOR_DELAY_S

    def sent_up_to(self, durable: DurableSubscription) -> int:
        """The last position that a durable subscription has gone past."""
        return self.stored if durable.keeps_up else durable.next_position - 1

    # --- storing ------------------------------------------------------------------------------------------------------

    def log(self, frame: EventFrame, delay_us: int, logged_us: int, matched: list[DurableSubscription]) -> int:
        """Stage an event; its position."""
        position = self.next_position
        self.next_position += 1
        self._stage.entries.append(Entry(position, logged_us, frame, delay_us))
        self._stage.matched.append(matched)
        return position

    def take(self, now: float) -> list[Output]:
        """What the face is to store and to read."""
        asked: list[Output] = []
        stage = self._stage
        due = self._flush_at is not None and now >= self._flush_at
        if due or stage.waiting or stage.entries or stage.memories:
            self._flush_at = None
            if due:
                stage.memories.update({key: what for key, what in self._late.items() if key not in stage.memories})
                self._late.clear()
            stage.durables.extend(self._dirty)
            self._dirty.clear()
            self._tickets += 1
            self._pending[self._tickets] = stage
            self._stage = StagedWrites([], [], [], [], [], {})
            asked.append(_persist(self._tickets, stage))
        if self._to_fetch:
            asked += self._to_fetch
            self._to_fetch = []
        return asked

    def next_deadline(self) -> float | None:
        if self._flush_at is None and not self._again:
            return None
        due = [*self._again.values()] if self._flush_at is None else [self._flush_at, *self._again.values()]
        return min(due, default=None)

    def persisted(self, ticket: int, stored: bool, now: float) -> StagedWrites:
        """A ticket came back. Its entries are in the tail when they are stored, and are nowhere when not."""
        stage = self._pending.pop(ticket)
        self._failing = not stored
        if stage.entries:
            self.stored = stage.entries[-1].position
        if stored:
            for durable in stage.durables:
                durable.kept = True
            for entry in stage.entries:
                self._tail[entry.position] = entry
            while len(self._tail) > self.settings.durable_tail:
                position, _ = self._tail.popitem(last=False)
                self._tail_from = position + 1
        else:
            for durable in stage.durables:
                if self._by_key.get((durable.owner, durable.name)) is durable:
                    self.touch(durable, now + RETRY_S - CURSOR_DELAY_S)
            newer = [stage.memories for stage in (*self._pending.values(), self._stage)]
            late = {key: what for key, what in stage.memories.items() if not any(key in one for one in newer)}
            if late:
                self._late.update(late)
                self._flush_at = self._flush_at or now + RETRY_S
            if stage.forgotten:
                self._stage.forgotten.extend(key for key in stage.forgotten if key not in self._by_key)
                self._flush_at = self._flush_at or now + RETRY_S
        return stage

    def position_of(self, id: EventId) -> int | None:
        """Where an event is in the log, if that was a short while ago or is still to be."""
        staged = (entry for stage in (*self._pending.values(), self._stage) for entry in stage.entries)
        for entry in (*self._tail.values(), *staged):
            if entry.frame.id == id:
                return entry.position
        return None

    # --- reading ------------------------------------------------------------------------------------------------------

    def readable(self, durable: DurableSubscription) -> tuple[list[Entry], int] | None:
        """Entries from its place on, matching or not, and up to where they are all; None: they are being fetched."""
        if durable.fetching:
            return None
        if durable.next_position >= self._tail_from and not durable.since_us:
            found: list[Entry] = []
            for position in range(durable.next_position, self.stored + 1):
                entry = self._tail.get(position)
                if entry is not None:
                    found.append(entry)
                    if len(found) >= self.settings.durable_fetch:
                        return found, position
            return found, self.stored
        durable.fetching = True
        self._tickets += 1
        self._fetches[self._tickets] = (durable, durable.next_position, self.stored)
        self._to_fetch.append(
            Fetch(self._tickets, durable.next_position, self.settings.durable_fetch, durable.since_us)
        )
        return None

    def fetched(self, ticket: int, records: Sequence[LogRecord]) -> tuple[DurableSubscription, list[Entry], int]:
        """Records for a durable subscription, and the position up to which they are all that there are."""
        durable, position, stored = self._fetches.pop(ticket)
        durable.fetching = False
        if position != durable.next_position:  # it was taken up anew since
            return durable, [], durable.next_position - 1
        entries = [entry_of(record) for record in records if record.position <= self.stored]
        last = records[-1].position if records else 0
        up_to = min(max(stored, last) if len(records) < self.settings.durable_fetch else last, self.stored)
        if durable.since_us:  # what lies before that time is dealt with, in every later reading too
            durable.since_us = 0
            durable.acknowledged = max(durable.acknowledged, entries[0].position - 1 if entries else up_to)
        return durable, entries, up_to

    def not_fetched(self, ticket: int, now: float) -> None:
        """The log could not be read: nothing is lost, and it is tried again."""
        durable, _, _ = self._fetches.pop(ticket)
        self._again[durable] = now + RETRY_S

    def due_again(self, now: float) -> list[DurableSubscription]:
        """Those to be served again now."""
        due = [durable for durable, at in self._again.items() if at <= now]
        for durable in due:
            del self._again[durable]
            durable.fetching = False
        return due


def entry_of(record: LogRecord) -> Entry:
    """A record as it is delivered."""
    return Entry(record.position, record.logged_us, Publish(Confirm.NONE, record.block), 0)


def _persist(ticket: int, stage: StagedWrites) -> Persist:
    return Persist(
        ticket,
        tuple(LogRecord(entry.position, entry.logged_us, entry.frame.block) for entry in stage.entries),
        tuple(durable.cursor() for durable in dict.fromkeys(stage.durables)),
        tuple(stage.forgotten),
        tuple(StoredDocument(*key, frame) for key, frame in stage.memories.items()),
    )
