"""Durable subscriptions: cursors in the broker's log that outlive clients and brokers.

Every event that a durable subscription matches is staged, stored, and only then delivered and confirmed. A subscription
that keeps up gets entries from memory when they are stored; one that fell behind, or was away, reads the log from its
cursor on. A window bounds the unacknowledged deliveries, so nothing is dropped for slowness.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import inf
from typing import Final, NamedTuple

from plait_core.events import EventId
from plait_core.filters import Filter
from plait_core.wire import Confirm, EventFrame, Publish, encode_frame
from plait_core.wire.frame_types.envelope_frames import Signed
from plait_core.wire.frame_types.session_frames import Start

from ...context import WallClock
from ...outputs import Fetch, LogRecord, Output, Persist, Recovered, StoredDocument
from ...settings import LiveSettings
from ..sessions import DurableSubscription, Subscription

CURSOR_DELAY_S: Final = 0.1
"""Cursors that no request waits for are stored together, this long after the first."""


RETRY_S: Final = 1.0
"""Time from a failure of the disk to the next attempt: full or broken disks do not recover faster."""


class Entry(NamedTuple):
    """One event of the log, in memory."""

    position: int
    logged_us: int
    frame: EventFrame
    delay_us: int
    """Its accumulated delay when it was logged; 0 for an entry that was read from the log."""


class WaitingRequest(NamedTuple):
    """A request to answer when its changes are stored."""

    session: int
    request: int
    undo: Callable[[float], None] | None = None
    """Undoes the request's changes if they could not be stored."""


class StagedWrites(NamedTuple):
    """The content of one Persist."""

    entries: list[Entry]
    matched: list[list[DurableSubscription]]
    durables: list[DurableSubscription]
    waiting: list[WaitingRequest]
    forgotten: list[tuple[str, str]]
    documents: dict[tuple[int, int], Signed | None]
    """Other brokers' documents by origin and number; None deletes one."""


class DurableSubscriptions:
    """All durable subscriptions, and the protocol side of the log. The files are the server's (`log/`)."""

    def __init__(self, settings: LiveSettings, recovered: Recovered, clock: WallClock) -> None:
        self._settings = settings
        self._clock = clock
        # Records that could not be stored leave holes, so a cursor may lie beyond the log's end. Later positions must
        # not fall behind it.
        places = [cursor.last_position + 1 for cursor in recovered.cursors]
        self.next_position = max(recovered.next_position, *places) if places else recovered.next_position
        self.stored = self.next_position - 1
        """Last position that is stored or will never be."""
        self._by_key: dict[tuple[str, str], DurableSubscription] = {}
        self._tail: OrderedDict[int, Entry] = OrderedDict()
        self._tail_from = self.next_position
        """First position from which on the tail holds every stored entry."""
        self._stage = StagedWrites([], [], [], [], [], {})
        self._unstored: dict[tuple[int, int], int] = {}
        """By publisher and sequence number, the positions of events that are staged and neither stored nor lost."""
        self._unstored_documents: dict[tuple[int, int], Signed | None] = {}
        """Documents of other brokers that could not be stored, to be tried again."""
        self._dirty: dict[DurableSubscription, None] = {}
        self._flush_at: float | None = None
        self._tickets = 0
        self._pending: dict[int, StagedWrites] = {}
        self._fetches: dict[int, tuple[DurableSubscription, int, int, int]] = {}
        """By ticket: subscription, first position, and the last stored position at that time."""
        self._retry_at: dict[DurableSubscription, float] = {}
        """When to read again for subscriptions whose Fetch failed."""
        self._to_fetch: list[Fetch] = []
        self._failing = False
        self.uncounted: dict[DurableSubscription, None] = {}
        """Subscriptions whose backlog is to be counted from the log."""
        self.first_position = 1
        """First position that retention has left in the log, as far as it is known."""
        self.due_at = inf
        """When `take` or `retry` has something to do; -inf: at once."""

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def idle(self) -> bool:
        """Whether everything is stored, except cursors that the log has just failed to store."""
        if self._pending or self._stage.entries or self._stage.waiting:
            return False
        return self._failing or not self._dirty

    def flush_now(self, now: float) -> None:
        """Store at once what waits to be stored, since the broker stops."""
        self._failing = False
        if self._flush_at is not None:
            self._flush_by(now, anew=True)

    def all(self) -> list[DurableSubscription]:
        """Return all of them, attached or not."""
        return list(self._by_key.values())

    def find(self, owner: str, name: str) -> DurableSubscription | None:
        """Return a durable subscription by its principal and name."""
        return self._by_key.get((owner, name))

    def add(self, durable: DurableSubscription) -> None:
        """Add a durable subscription, and match it against the entries that were staged before it was there."""
        assert (durable.owner, durable.name) not in self._by_key
        self._by_key[durable.owner, durable.name] = durable
        for stage in (*self._pending.values(), self._stage):
            for at, entry in enumerate(stage.entries):
                if entry.position > durable.acknowledged and durable.filter.matches(entry.frame.attributes()):
                    stage.matched[at] = [*stage.matched[at], durable]

    def has(self, durable: DurableSubscription) -> bool:
        """Return whether a durable subscription exists still."""
        return self._by_key.get((durable.owner, durable.name)) is durable

    def new_ticket(self) -> int:
        """Return the ticket of a read of the log."""
        self._tickets += 1
        return self._tickets

    def fetch_first_since(self, since_us: int) -> int:
        """Read the first record from a time on; return the ticket of the answer."""
        ticket = self.new_ticket()
        self._to_fetch.append(Fetch(ticket, 1, 1, since_us))
        self.due_at = -inf
        return ticket

    def place(self, start: Start, start_at: int) -> int:
        """Return the cursor before a start position; for a time, that before the whole log."""
        places = {Start.NEW: self.next_position - 1, Start.POSITION: max(0, min(start_at, self.next_position) - 1)}
        return places.get(start, 0)

    def seek(self, durable: DurableSubscription, place: int) -> int:
        """Move a cursor; return the number of events that it passes over."""
        discarded = durable.backlog.events if place >= self.stored else durable.backlog.remove_before(place + 1)
        durable.acknowledged, durable.since_us = min(durable.acknowledged, place), 0
        durable.beyond.clear()
        durable.move_to(place)
        self.rewind(durable)
        self.count_backlog(durable)
        return discarded

    def count_backlog(self, durable: DurableSubscription) -> None:
        """Count the backlog of a durable subscription from the log."""
        durable.backlog.clear(range(durable.acknowledged + 1, self.stored + 1))
        if not durable.backlog.complete:
            self.uncounted[durable] = None

    def trimmed(self, first_position: int) -> int:
        """Note that the log has deleted what is before a position; return the number of deliveries that this lost."""
        self.first_position = first_position
        return sum(durable.backlog.remove_before(first_position) for durable in self._by_key.values())

    def forget(self, durable: DurableSubscription, waiting: WaitingRequest) -> None:
        """Remove a durable subscription, and answer the request when that is stored."""
        self._drop(durable)
        self._stage.forgotten.append((durable.owner, durable.name))
        self._stage.waiting.append(waiting)
        self.due_at = -inf

    def withdraw(self, durable: DurableSubscription, now: float) -> None:
        """Remove a durable subscription that could not be stored. A Persist that still names it is undone later."""
        assert durable.subscription is None, "it is detached first"
        self._drop(durable)
        if any(durable in stage.durables for stage in self._pending.values()):
            self._stage.forgotten.append((durable.owner, durable.name))
            self._flush_by(now + CURSOR_DELAY_S)

    def _drop(self, durable: DurableSubscription) -> None:
        del self._by_key[durable.owner, durable.name]
        self._dirty.pop(durable, None)
        self._retry_at.pop(durable, None)
        self.uncounted.pop(durable, None)

    def store_document(self, key: tuple[int, int], document: Signed | None) -> None:
        """Store another broker's document beyond this broker's life; None deletes it."""
        self._unstored_documents.pop(key, None)
        self._stage.documents[key] = document
        self.due_at = -inf

    def attach(self, durable: DurableSubscription, subscription: Subscription) -> None:
        """Attach a durable subscription to a client."""
        assert durable.subscription is None
        durable.subscription = subscription
        self.rewind(durable)

    def rewind(self, durable: DurableSubscription) -> None:
        """Read on from the cursor, so that unacknowledged deliveries are sent again."""
        durable.in_flight.clear()
        durable.next_position = durable.acknowledged + 1
        durable.caught_up = durable.subscription is not None and durable.next_position > self.stored

    def detach(self, durable: DurableSubscription, now: float) -> None:
        """Detach a durable subscription from its client."""
        self._catch_up(durable)
        self.touch(durable, now)
        durable.subscription = None
        durable.caught_up = False

    def _catch_up(self, durable: DurableSubscription) -> None:
        """Move a cursor to the end of the log if everything up to there is settled."""
        if durable.caught_up and not durable.in_flight:
            durable.advance(self.stored)

    def remember_filter(self, durable: DurableSubscription, next_filter: Filter) -> None:
        """Keep the filter of a durable subscription for its backlog, because another follows."""
        self._catch_up(durable)
        durable.remember_filter(next_filter, self.next_position - 1)

    def touch(self, durable: DurableSubscription, now: float, waiting: WaitingRequest | None = None) -> None:
        """Store its cursor: at once if a request waits for that, else within CURSOR_DELAY_S."""
        self._dirty[durable] = None
        if durable.held:
            durable.seen_us = self._clock.wall_us(now)
        if waiting is not None:
            self._stage.waiting.append(waiting)
            self.due_at = -inf
        elif self._flush_at is None:
            self._flush_by(now + CURSOR_DELAY_S)

    def _flush_by(self, at: float, *, anew: bool = False) -> None:
        """Store what is staged at this time, unless a time is set already. `anew`: replace that time."""
        if self._flush_at is None or anew:
            self._flush_at = at
        self.due_at = min(self.due_at, at)

    def sent_up_to(self, durable: DurableSubscription) -> int:
        """Return the last position that a durable subscription has passed."""
        return self.stored if durable.caught_up else durable.next_position - 1

    # --- storing ------------------------------------------------------------------------------------------------------

    def log(self, frame: EventFrame, delay_us: int, logged_us: int, matched: list[DurableSubscription]) -> int:
        """Stage an event for the log, and return its position."""
        self.due_at = -inf
        position = self.next_position
        self.next_position += 1
        self._stage.entries.append(Entry(position, logged_us, frame, delay_us))
        self._stage.matched.append(matched)
        self._unstored[frame.publisher, frame.sequence] = position
        return position

    def take(self, now: float) -> list[Output]:
        """Return what the server is to store and to read."""
        outputs: list[Output] = []
        stage = self._stage
        due = self._flush_at is not None and now >= self._flush_at
        if due or stage.waiting or stage.entries or stage.documents:
            self._flush_at = None
            if due:
                for key, document in self._unstored_documents.items():
                    stage.documents.setdefault(key, document)
                self._unstored_documents.clear()
            stage.durables.extend(self._dirty)
            self._dirty.clear()
            self._tickets += 1
            self._pending[self._tickets] = stage
            self._stage = StagedWrites([], [], [], [], [], {})
            outputs.append(_persist(self._tickets, stage))
        if self._to_fetch:
            outputs += self._to_fetch
            self._to_fetch = []
        self._update_due()
        return outputs

    def _update_due(self) -> None:
        """Set `due_at` when nothing is staged."""
        self.due_at = min(self._retry_at.values(), default=inf)
        if self._flush_at is not None:
            self.due_at = min(self.due_at, self._flush_at)

    def persisted(self, ticket: int, stored: bool, now: float) -> StagedWrites:
        """Note that a Persist was carried out or failed, and return its content. Stored entries enter the tail."""
        stage = self._pending.pop(ticket)
        self._failing = not stored
        for entry in stage.entries:
            self._unstored.pop((entry.frame.publisher, entry.frame.sequence), None)
        if stage.entries:
            self.stored = stage.entries[-1].position
        if stored:
            for durable in stage.durables:
                durable.in_log = True
            for entry in stage.entries:
                self._tail[entry.position] = entry
            while len(self._tail) > self._settings.current.durable_tail:
                position, _ = self._tail.popitem(last=False)
                self._tail_from = position + 1
        else:
            for durable in stage.durables:
                if self._by_key.get((durable.owner, durable.name)) is durable:
                    self.touch(durable, now + RETRY_S - CURSOR_DELAY_S)
            newer = [stage.documents for stage in (*self._pending.values(), self._stage)]
            unstored = {key: what for key, what in stage.documents.items() if not any(key in one for one in newer)}
            if unstored:
                self._unstored_documents.update(unstored)
                self._flush_by(now + RETRY_S)
            if stage.forgotten:
                self._stage.forgotten.extend(key for key in stage.forgotten if key not in self._by_key)
                self._flush_by(now + RETRY_S)
        return stage

    def unstored(self, frame: EventFrame) -> int | None:
        """Return an event's position in the log while it is staged and neither stored nor lost."""
        return self._unstored.get((frame.publisher, frame.sequence))

    def position_of(self, id: EventId) -> int | None:
        """Return an event's position in the log while it is in the tail or staged."""
        staged = (entry for stage in (*self._pending.values(), self._stage) for entry in stage.entries)
        for entry in (*self._tail.values(), *staged):
            if entry.frame.id == id:
                return entry.position
        return None

    # --- reading ------------------------------------------------------------------------------------------------------

    def readable(self, durable: DurableSubscription) -> tuple[list[Entry], int] | None:
        """Return entries from its next position on, matching or not, and the last position that they cover. None: they
        are being fetched from the log."""
        if durable.fetching:
            return None
        if durable.next_position >= self._tail_from and not durable.since_us:
            found: list[Entry] = []
            for position in range(durable.next_position, self.stored + 1):
                entry = self._tail.get(position)
                if entry is not None:
                    found.append(entry)
                    if len(found) >= self._settings.current.durable_fetch:
                        return found, position
            return found, self.stored
        durable.fetching = True
        self._tickets += 1
        self._fetches[self._tickets] = (durable, durable.next_position, durable.since_us, self.stored)
        self.due_at = -inf
        self._to_fetch.append(
            Fetch(self._tickets, durable.next_position, self._settings.current.durable_fetch, durable.since_us)
        )
        return None

    def fetched(self, ticket: int, records: Sequence[LogRecord]) -> tuple[DurableSubscription, list[Entry], int]:
        """Return the subscription of a Fetch, its entries, and the last position that they cover."""
        durable, position, since_us, stored = self._fetches.pop(ticket)
        durable.fetching = False
        if (position, since_us) != (durable.next_position, durable.since_us):  # it was attached anew or moved since
            return durable, [], durable.next_position - 1
        entries = [entry_of(record) for record in records if record.position <= self.stored]
        last = records[-1].position if records else 0
        up_to = min(max(stored, last) if len(records) < self._settings.current.durable_fetch else last, self.stored)
        if durable.since_us:  # every position before that time is settled
            durable.since_us = 0
            durable.move_to(entries[0].position - 1 if entries else up_to)
        return durable, entries, up_to

    def fetch_failed(self, ticket: int, now: float) -> None:
        """Try a failed Fetch again after RETRY_S. Nothing is lost."""
        durable = self._fetches.pop(ticket)[0]
        self._retry_at[durable] = now + RETRY_S
        self.due_at = min(self.due_at, now + RETRY_S)

    def retry(self, now: float) -> list[DurableSubscription]:
        """Return the subscriptions whose failed Fetch is to be tried again now."""
        due = [durable for durable, at in self._retry_at.items() if at <= now]
        for durable in due:
            del self._retry_at[durable]
            durable.fetching = False
        return due


def entry_of(record: LogRecord) -> Entry:
    """Return the entry of a record that was read from the log."""
    return Entry(record.position, record.logged_us, Publish(Confirm.NONE, record.block), 0)


def _persist(ticket: int, stage: StagedWrites) -> Persist:
    return Persist(
        ticket,
        tuple(LogRecord(entry.position, entry.logged_us, entry.frame.block) for entry in stage.entries),
        tuple(durable.cursor() for durable in dict.fromkeys(stage.durables)),
        tuple(stage.forgotten),
        tuple(
            StoredDocument(*key, b"" if document is None else encode_frame(document))
            for key, document in stage.documents.items()
        ),
    )
