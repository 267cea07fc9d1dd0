"""The writer: one thread that commits in groups, and deletes the oldest records between two commits.

Requests that queue during one transaction form the next. So the slower the disk, the larger the groups, and a single
event still waits for one commit only. A transaction that fails fails for every request in it, because each was promised
all or nothing. The next one is tried as usual, so a disk that has room again is used at once.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import Final, NamedTuple, TypeAlias

from ..outputs import Persist
from .errors import error_text, is_damage
from .high_water_mark import HighWaterMark
from .reader import RecordReader
from .records import Tally
from .store import Batch, CommitRefused, Store

Stored: TypeAlias = Callable[[int, str | None], None]
"""Called with a ticket and, if it is not stored, the reason. Called in the writer's thread, in the order of
requests."""

QUEUE_ITEMS_MAX: Final = 65_536
"""Queued Persists: the unconfirmed events of one session, or six seconds of 10,000/s on a disk that stalls."""

QUEUE_BYTES_MAX: Final = 64 << 20
"""Bytes of their blocks: one second of a fast disk, and affordable memory."""

GROUP_RECORDS_MAX: Final = 4096
"""Records of one transaction: about 10 ms of work, so that the first does not wait long for the last."""

GROUP_BYTES_MAX: Final = 8 << 20
"""Bytes of one transaction: two checkpoints' worth, about 20 ms of a fast disk."""

TRIM_RECORDS: Final = 1024
TRIM_BYTES: Final = 8 << 20
"""Oldest records deleted between two commits: some milliseconds of work. Twice the additions of the last commit if that
is more, so that deletion keeps up."""

TRIM_SLACK: Final = 64
"""Trimming for size continues until a 64th is free, so that it runs now and then and not after every commit."""

CHECK_INTERVAL_S: Final = 1.0
"""Time between two checks of ages and empty pages, and before a failed trim is retried."""

BEHIND: Final = "the log is behind: too much waits to be stored"
CLOSED: Final = "the log is closed"


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of the log. The oldest records are deleted first, whether they were read or not."""

    bytes_max: int = 1 << 30
    """Size of the records. The files are larger by up to a third, and by 20 MiB of write-ahead log."""
    age_s_max: float = 7 * 86_400.0
    """Kafka's default: long enough for a subscriber to be away over a weekend."""


class _Waiting(NamedTuple):
    persist: Persist
    done: Stored
    size: int
    refused: str | None


class LogWriter:
    """Owns the store from `start` to `close`. The counters are for metrics; each is written by one thread."""

    def __init__(self, store: Store, mark: HighWaterMark, retention: Retention, wall_us: Callable[[], int]) -> None:
        self.commits = 0
        self.commits_failed = 0
        self.records_stored = 0
        self.records_trimmed = 0
        self.persists_refused = 0
        self.last_commit_s = 0.0
        self.failing: str | None = None
        """Reason why the last transaction failed; None once one succeeds."""
        self.last_position = store.tally.last_position
        """Position of the newest stored record, for readers."""
        self.first_position = 1
        """Position before which everything was deleted since the log was opened."""
        self.queue_items = 0
        self.queue_bytes = 0
        self._store = store
        self._mark = mark
        self._retention = retention
        self._wall_us = wall_us
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._added = Tally()
        """Size of the last commit."""
        self._trimming = self._shrinking = False
        self._check_at = 0.0
        self._expired_before = 0
        """Records below this position were too old at the last check."""
        self._thread = threading.Thread(target=self._run, name="plait-log-writer", daemon=True)

    def start(self) -> None:
        """Start to commit."""
        self._thread.start()

    def submit(self, persist: Persist, done: Stored) -> None:
        """Queue a Persist, or its refusal, in order; never block."""
        size = sum(len(record.block) for record in persist.records)
        with self._changed:
            refused = self._refusal(size)
            if refused is None:
                self.queue_items += 1
                self.queue_bytes += size
                self._queue.append(_Waiting(persist, done, size, None))
            else:
                self.persists_refused += 1
                self._queue.append(_Waiting(Persist(persist.ticket), done, 0, refused))  # releases the records
            self._changed.notify()

    def close(self) -> None:
        """Store the queued requests, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _refusal(self, size: int) -> str | None:
        if self._closing:
            return CLOSED
        full = self.queue_items >= QUEUE_ITEMS_MAX or self.queue_bytes + size > QUEUE_BYTES_MAX
        return BEHIND if full and self.queue_items else None  # a single request is never too large

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        more = False
        while True:
            group, closing = self._next_group(0.0 if more else CHECK_INTERVAL_S)
            if group:
                self._carry_out(group)
            elif closing:
                return
            more = self._make_room()

    def _next_group(self, patience_s: float) -> tuple[list[_Waiting], bool]:
        with self._changed:
            if not self._queue and not self._closing and patience_s:
                self._changed.wait(patience_s)
            group: list[_Waiting] = []
            records = size = 0
            while self._queue and records < GROUP_RECORDS_MAX and size < GROUP_BYTES_MAX:
                waiting = self._queue.popleft()
                group.append(waiting)
                records, size = records + max(len(waiting.persist.records), 1), size + waiting.size
            return group, self._closing

    def _carry_out(self, group: list[_Waiting]) -> None:
        outcomes = self._committed(group)
        with self._changed:
            self.queue_items -= sum(waiting.refused is None for waiting in group)
            self.queue_bytes -= sum(waiting.size for waiting in group)
        for waiting, outcome in zip(group, outcomes, strict=True):
            try:
                waiting.done(waiting.persist.ticket, outcome)
            except Exception:
                logging.getLogger(__name__).exception("the callback of a Persist raised")

    def _committed(self, group: list[_Waiting]) -> list[str | None]:
        """Store a group; return None or the reason of a failure for each request."""
        began, before = perf_counter(), self._store.tally
        batch = Batch(before)
        outcomes = [waiting.refused or _added(batch, waiting.persist) for waiting in group]
        if not (batch.records or batch.cursors or batch.documents):
            return outcomes
        try:
            self._store.commit(batch)
        except Exception as error:
            self._note_damage(error)
            self.commits_failed += 1
            self.failing = error_text(error)
            return [outcome or self.failing for outcome in outcomes]
        self.last_position = batch.tally.last_position
        self._mark.advance(self.last_position)
        self._added = Tally(records=len(batch.records), bytes=batch.tally.bytes - before.bytes)
        self.commits += 1
        self.records_stored += len(batch.records)
        self.last_commit_s = perf_counter() - began
        self.failing = None
        return outcomes

    # --- retention ----------------------------------------------------------------------------------------------------

    def _make_room(self) -> bool:
        """Make one small step towards the limits of retention; return whether another is due."""
        try:
            if monotonic() >= self._check_at:
                self._check_at = monotonic() + CHECK_INTERVAL_S
                self._expired_before = self._first_young()
                self._shrinking = True
            trimmed = self._trim()
            self._shrinking = (self._shrinking or trimmed > 0) and self._store.shrink()
            return trimmed > 0 or self._shrinking
        except sqlite3.Error as error:
            self._note_damage(error)
            return False

    def _trim(self) -> int:
        excess = self._store.tally.bytes - self._retention.bytes_max
        self._trimming = excess > (-self._retention.bytes_max // TRIM_SLACK if self._trimming else 0)
        if not self._trimming and not self._expired_before:
            return 0
        trimmed = self._store.trim(
            excess + self._retention.bytes_max // TRIM_SLACK if self._trimming else 0,
            self._expired_before,
            records_max=max(TRIM_RECORDS, 2 * self._added.records),
            bytes_max=max(TRIM_BYTES, 2 * self._added.bytes),
        )
        if not trimmed:
            self._trimming, self._expired_before = False, 0
        self.records_trimmed += trimmed
        self.first_position = max(self.first_position, self._store.first_position)
        return trimmed

    def _first_young(self) -> int:
        """Return the first position that is not too old; 0 if none is too old."""
        if not self._store.tally.records:
            return 0
        oldest_us = self._wall_us() - int(self._retention.age_s_max * 1_000_000)
        young = RecordReader(self._store.connection).first_since(1, oldest_us, self.last_position)
        return young if young > 1 else 0

    def _note_damage(self, error: Exception) -> None:
        if is_damage(error):
            self._mark.suspect()


def _added(batch: Batch, persist: Persist) -> str | None:
    try:
        batch.add(persist)
    except CommitRefused as refusal:
        return str(refusal)
    return None
