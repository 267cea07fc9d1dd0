"""A disk under a broker's log: it is slow, fills up, fails, loses data that was not synced, and corrupts records.

Records and cursors are stored as the rows and checksums of the real log, so the production code detects a flipped bit
here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from struct import Struct
from typing import Final

from plait_broker.log.records import Damaged, Row, checked_cursor, checked_record, cursor_row, record_row
from plait_broker.outputs import Cursor, Fetch, LogRecord, Persist, Recovered, StoredDocument
from plait_core.events import EventId

from ..timeline import Timeline

_EVENT_ID: Final = Struct(">QQ")
"""Publisher and sequence number, with which an event block begins."""

RECENT: Final = 4096
"""Newest records that refill a broker's duplicate detection."""


@dataclass(slots=True)
class DiskTerms:
    """How a disk behaves; faults change it during a run."""

    sync_s: float = 0.002
    """The longest ordinary sync; each is drawn up to it."""
    read_s: float = 0.001
    slow_s: float = 0.0
    """Added to each sync and read, as on a disk with other load."""
    full: bool = False
    failing: float = 0.0
    """Probability that a sync or a read fails with EIO."""


class Disk:
    """Stable storage of one broker; it outlives the broker's process."""

    def __init__(self, timeline: Timeline, rng: Random, terms: DiskTerms, identity: int = 1) -> None:
        """`identity`: the identity of the log; those of several brokers must differ by more than a few."""
        self.terms = terms
        self.damaged: set[int] = set()
        """Positions of corrupted records, which must never be served."""
        self.served_damage = 0
        self.identity = identity
        """The identity of the log on the disk."""
        self._timeline = timeline
        self._rng = rng
        self._rows: dict[int, Row] = {}
        self._cursors: dict[tuple[str, str], Row] = {}
        self._documents: dict[tuple[int, int], StoredDocument] = {}
        self._events: set[EventId] = set()
        self._latest_us = 0
        self._last = 0
        self._queue: deque[tuple[Persist, Callable[[int, str | None], None]]] = deque()
        self._syncing = False
        self._boot = 0

    @property
    def positions(self) -> list[int]:
        """Positions of the stored records."""
        return list(self._rows)

    @property
    def records(self) -> list[LogRecord]:
        """The stored records, if none is damaged."""
        return [checked_record(row).record for row in self._rows.values()]

    def holds(self, id: EventId) -> bool:
        """Return whether the event of a publisher is stored."""
        return id in self._events

    # --- a running broker ---------------------------------------------------------------------------------------------

    def persist(self, request: Persist, done: Callable[[int, str | None], None]) -> None:
        """Store records in order, grouped with those queued meanwhile, and call `done` when they are stable."""
        self._queue.append((request, done))
        if not self._syncing:
            self._sync()

    def fetch(self, request: Fetch, done: Callable[[int, list[LogRecord], bool, str | None], None]) -> None:
        """Read records."""
        boot = self._boot

        def read() -> None:
            if boot != self._boot:
                return
            if self._fails():
                done(request.ticket, [], False, "the log could not be read: EIO")
            else:
                done(request.ticket, *self._found(request), None)

        self._timeline.after(self._rng.random() * self.terms.read_s + self.terms.slow_s, read)

    def _sync(self) -> None:
        self._syncing = True
        group, boot = len(self._queue), self._boot

        def synced() -> None:
            if boot != self._boot:
                return
            error = "the disk is full" if self.terms.full else "EIO" if self._fails() else None
            finished = [self._queue.popleft() for _ in range(group)]
            for request, _ in finished:
                if error is None:
                    self._store(request)
            self._syncing = False
            if self._queue:
                self._sync()
            for request, done in finished:
                done(request.ticket, error)

        self._timeline.after(self._rng.random() * self.terms.sync_s + self.terms.slow_s, synced)

    def _fails(self) -> bool:
        return bool(self.terms.failing) and self._rng.random() < self.terms.failing

    def _store(self, request: Persist) -> None:
        for record in request.records:
            assert record.position > self._last, "positions rise"
            self._latest_us = max(self._latest_us, record.logged_us)
            self._rows[record.position] = record_row(record, self._last, self._latest_us)
            self._last = record.position
            self._events.add(EventId(*_EVENT_ID.unpack_from(record.block)))
        for key in request.forgotten:
            self._cursors.pop(key, None)
        for cursor in request.cursors:
            self._cursors[cursor.owner, cursor.name] = cursor_row(cursor)
        for document in request.documents:
            self._documents[document.origin, document.number] = document

    def _found(self, request: Fetch) -> tuple[list[LogRecord], bool]:
        found: list[LogRecord] = []
        lost = False
        for position in range(request.position, self._last + 1):
            row = self._rows.get(position)
            if row is None:
                continue
            try:
                record = checked_record(row).record
            except Damaged:
                lost = True
                continue
            self.served_damage += position in self.damaged
            if record.logged_us >= request.since_us:
                found.append(record)
                if len(found) >= request.count:
                    break
        return found, lost

    # --- the end of a process, and the next ---------------------------------------------------------------------------

    def crash(self) -> None:
        """Handle the death of the process or the machine: any prefix of the queued writes may be stable."""
        self._boot += 1
        waiting = [request for request, _ in self._queue]
        self._queue.clear()
        self._syncing = False
        if self.terms.full:
            return
        for request in waiting[: self._rng.randint(0, len(waiting))]:
            self._store(request)

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self._rows.clear()
        self._events.clear()
        self._cursors.clear()
        self._documents.clear()
        self._last = self._latest_us = 0
        self.identity += 1

    def rot(self, count: int) -> list[int]:
        """Flip a bit or cut the end of some stored records. Return their positions."""
        chosen = self._rng.sample(list(self._rows), min(count, len(self._rows)))
        for position in chosen:
            *head, block = self._rows[position]
            at = self._rng.randrange(len(block))
            torn = block[:at] if self._rng.random() < 0.3 else block[:at] + bytes([block[at] ^ 1]) + block[at + 1 :]
            self._rows[position] = (*head, torn)
            self.damaged.add(position)
        return chosen

    def recover(self) -> Recovered:
        """Return the state that a broker finds when it starts."""
        recent: list[LogRecord] = []
        for row in list(self._rows.values())[-RECENT:]:
            try:
                recent.append(checked_record(row).record)
            except Damaged:
                continue
        cursors: tuple[Cursor, ...] = tuple(checked_cursor(row) for row in self._cursors.values())
        documents = tuple(document for document in self._documents.values() if document.frame)
        return Recovered(self._last + 1, cursors, tuple(recent), self.identity, documents)
