"""The event log: carries out the protocol's Persist and Fetch on a directory of its own.

    high_water_mark.py  the lock of the directory, and the highest position assigned
    repair.py           opening the database, and repairing it if it is damaged
    store.py            its schema and its transactions     records.py   rows with checksums
    writer.py           the thread that commits in groups   reader.py    verified records in order
    errors.py           errors

One thread writes and one reads, through a connection each: in SQLite's WAL mode neither waits for the other.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final, TypeAlias

from ..outputs import Fetch, LogRecord, Persist, Recovered
from ..overlay.security.identity import incarnation_key_of, incarnation_of
from .errors import LogError, LogInUse, LogTooNew, error_text
from .high_water_mark import HighWaterMark
from .reader import RecordReader
from .repair import DATABASE, open_store
from .store import Store, connect, read_cursors, read_documents
from .writer import CLOSED, LogWriter, Retention, Stored

__all__ = ["EventLog", "LogError", "LogInUse", "LogStats", "LogTooNew", "Retention"]

RECENT_RECORDS: Final = 65_536
"""Newest records given to a starting broker: the duplicate window of sixteen busy publishers."""

RECENT_BYTES_MAX: Final = 64 << 20
"""Their blocks together: less than a second to read."""

FETCHES_MAX: Final = 16_384
"""Queued Fetches: more than one for each durable subscription that a broker may have."""

MARK: Final = "log.mark"

Fetched: TypeAlias = Callable[[int, list[LogRecord], bool, str | None], None]
"""Called with a ticket, its records, whether some are lost, and an error after which the Fetch may be retried. Called
in the reader's thread."""


def _wall_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class LogStats:
    """Figures for metrics. Counters start at 0 when the log is opened."""

    records: int
    bytes: int
    """Size of the records, as retention counts them."""
    last_position: int
    commits: int
    commits_failed: int
    records_stored: int
    records_trimmed: int
    records_damaged: int
    """Reads of a damaged record; none was served."""
    persists_refused: int
    """Persists refused because the queue was full."""
    last_commit_s: float
    queue_items: int
    queue_bytes: int
    failing: str | None
    """Reason why the last transaction failed, or None after one that succeeded."""

    @property
    def records_per_commit(self) -> float:
        """The average size of a group."""
        return self.records_stored / self.commits if self.commits else 0.0


class EventLog:
    """An open log. Its methods never wait for the disk, except `open`, `recover` and `close`."""

    def __init__(
        self, path: Path, mark: HighWaterMark, store: Store, writer: LogWriter, notices: tuple[str, ...]
    ) -> None:
        """Use `open` instead."""
        self.notices = notices
        """Repairs and losses, for the operator; usually empty."""
        self._path = path
        self._mark = mark
        self._store = store
        self._writer = writer
        self._connection = connect(path, reading=True)
        self._reader = RecordReader(self._connection)
        self._recovery_damaged = 0
        self._fetches: SimpleQueue[tuple[Fetch, Fetched] | None] = SimpleQueue()
        self._fetcher = threading.Thread(target=self._serve, name="plait-log-reader", daemon=True)
        self._closing = threading.Lock()
        self._closed = False
        writer.start()
        self._fetcher.start()

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        retention: Retention | None = None,
        fsync: bool = True,
        wall_us: Callable[[], int] = _wall_us,
    ) -> EventLog:
        """Open a directory, create it if needed, repair its database if needed, and report repairs in `notices`.

        `fsync=False` risks the acknowledged events of the last seconds before a power cut: for tests. Raise LogInUse,
        LogTooNew, or LogError if the disk fails.
        """
        home = Path(directory).absolute()
        try:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark = HighWaterMark(home / MARK)
        except OSError as error:
            raise _cannot_open(home, error) from error
        try:
            store, notices = open_store(home, mark.marked, fsync=fsync)
            try:
                mark.advance(store.tally.last_position)
                mark.trust()
                mark.sync()
                writer = LogWriter(store, mark, retention or Retention(), wall_us)
                log = cls(home / DATABASE, mark, store, writer, tuple(notices))
            except BaseException:
                store.close()
                raise
        except (OSError, sqlite3.Error) as error:
            mark.close()
            raise _cannot_open(home, error) from error
        except BaseException:
            mark.close()
            raise
        for notice in notices:
            logging.getLogger(__name__).error("%s", notice)
        return log

    def recover(self, recent: int = RECENT_RECORDS, recent_bytes_max: int = RECENT_BYTES_MAX) -> Recovered:
        """Return the state for a starting broker. Damaged durable subscriptions are reported in `notices`."""
        last = self._writer.last_position
        try:
            with closing(connect(self._path, reading=True)) as connection:
                cursors, damaged = read_cursors(connection)
                documents = read_documents(connection)
                reader = RecordReader(connection)
                records = reader.recent(recent, recent_bytes_max, last=last)
        except sqlite3.Error as error:
            raise _cannot_open(self._path.parent, error) from error
        self._recovery_damaged = reader.damaged + damaged
        if damaged:
            self.notices += (f"{damaged} durable subscriptions were damaged and are forgotten",)
        # A position whose Persist failed may still have been acknowledged, so it is not assigned again either.
        highest = max([last, *(cursor.last_position for cursor in cursors)])
        secret = self._store.secret
        log = incarnation_of(incarnation_key_of(secret))
        return Recovered(highest + 1, tuple(cursors), tuple(records), log, tuple(documents), secret)

    def persist(self, persist: Persist, done: Stored) -> None:
        """Store all of it or nothing, then call `done(ticket, error)`; calls keep the order of requests, including
        failed ones."""
        with self._closing:
            if not self._closed:
                self._writer.submit(persist, done)
                return
        done(persist.ticket, CLOSED)

    def fetch(self, fetch: Fetch, done: Fetched) -> None:
        """Read records, then call `done(ticket, records, lost, error)`."""
        with self._closing:
            refused = CLOSED if self._closed else "too many reads of the log are queued" if self._too_many() else None
            if refused is None:
                self._fetches.put((fetch, done))
                return
        done(fetch.ticket, [], False, refused)

    @property
    def first_position(self) -> int:
        """The position before which retention has deleted everything since the log was opened."""
        return self._writer.first_position

    def stats(self) -> LogStats:
        """Return the present figures."""
        writer, tally = self._writer, self._store.tally
        return LogStats(
            records=tally.records,
            bytes=tally.bytes,
            last_position=writer.last_position,
            commits=writer.commits,
            commits_failed=writer.commits_failed,
            records_stored=writer.records_stored,
            records_trimmed=writer.records_trimmed,
            records_damaged=self._reader.damaged + self._recovery_damaged,
            persists_refused=writer.persists_refused,
            last_commit_s=writer.last_commit_s,
            queue_items=writer.queue_items,
            queue_bytes=writer.queue_bytes,
            failing=writer.failing,
        )

    def close(self) -> None:
        """Finish the queued requests and release the directory. Later calls do nothing."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._fetches.put(None)
        self._fetcher.join()
        self._connection.close()
        self._writer.close()
        self._store.close()
        self._mark.sync()
        self._mark.close()

    def _too_many(self) -> bool:
        return self._fetches.qsize() >= FETCHES_MAX

    def _serve(self) -> None:
        while (request := self._fetches.get()) is not None:
            fetch, done = request
            records, lost, error = self._read(fetch)
            try:
                done(fetch.ticket, records, lost, error)
            except Exception:
                logging.getLogger(__name__).exception("the callback of a Fetch raised")

    def _read(self, fetch: Fetch) -> tuple[list[LogRecord], bool, str | None]:
        last, broken = self._writer.last_position, self._reader.broken
        try:
            records, lost = self._reader.read(fetch.position, fetch.count, last=last, since_us=fetch.since_us)
        except Exception as error:
            return [], False, error_text(error)
        if self._reader.broken and not broken:
            self._mark.suspect()
        return records, lost, None


def _cannot_open(directory: Path, error: Exception) -> LogError:
    return LogError(
        f"the event log in {directory} cannot be opened: {error_text(error)}",
        hint="the directory must be writable and its disk must have some room",
    )
