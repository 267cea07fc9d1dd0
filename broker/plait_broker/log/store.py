"""The log's database: its schema and its transactions. One connection writes; any number may read.

`synchronous=FULL`, because an acknowledgement must survive a power cut: SQLite waits for the disk at each commit. With
NORMAL it would wait at checkpoints only; commits would survive a crash of the broker, but not a power cut.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import token_bytes
from struct import error as struct_error
from typing import Final
from zlib import crc32

from ..outputs import Cursor, Persist, StoredDocument
from .errors import LogError, LogTooNew, damage, is_schema_missing, is_unreadable
from .reader import SELECT_RECORDS
from .records import (
    ROW_BYTES,
    Damaged,
    Row,
    StoredState,
    Tally,
    checked_cursor,
    checked_document,
    checked_tally,
    cursor_key,
    cursor_row,
    document_key,
    document_row,
    numbers_checksum,
    record_row,
    tally_row,
)

SCHEMA_VERSION: Final = 2

SECRET_BYTES: Final = 32
"""Size of the key that proves the log's identity: an Ed25519 key."""

BUSY_S: Final = 5.0
"""Time that SQLite waits for a lock; only a person with a SQLite shell can hold one."""

WAL_BYTES_KEPT: Final = 16 << 20
"""Size to which the write-ahead log is cut back after a burst: four checkpoints' worth."""

FREE_PAGES_KEPT: Final = 256
"""Empty pages (1 MiB) left in the file for the next records."""

VACUUM_PAGES: Final = 128
"""Pages freed at once: each may have to be moved, so this writes half a megabyte between two commits."""

_CREATE_IDENTITY: Final = "CREATE TABLE IF NOT EXISTS identity (secret BLOB NOT NULL, checksum INTEGER NOT NULL)"
_CREATE_DOCUMENTS: Final = """CREATE TABLE IF NOT EXISTS document (origin BLOB NOT NULL, number BLOB NOT NULL,
    frame BLOB NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (origin, number)) WITHOUT ROWID"""
_SCHEMA: Final = (
    "CREATE TABLE version (version INTEGER NOT NULL, checksum INTEGER NOT NULL)",
    """CREATE TABLE record (position INTEGER PRIMARY KEY, step INTEGER NOT NULL, logged_us INTEGER NOT NULL,
        behind_us INTEGER NOT NULL, checksum INTEGER NOT NULL, block BLOB NOT NULL)""",
    """CREATE TABLE cursor (owner BLOB NOT NULL, name BLOB NOT NULL, filter BLOB NOT NULL,
        acknowledged INTEGER NOT NULL, beyond BLOB NOT NULL, earlier BLOB NOT NULL, seen_us INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (owner, name)) WITHOUT ROWID""",
    _CREATE_IDENTITY,
    """CREATE TABLE tally (last_position INTEGER NOT NULL, latest_us INTEGER NOT NULL, records INTEGER NOT NULL,
        bytes INTEGER NOT NULL, checksum INTEGER NOT NULL)""",
    _CREATE_DOCUMENTS,
)
_INSERT: Final = "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?)"
"""Replacing, because a flipped bit may have put another row at this position."""
SELECT_CURSORS: Final = "SELECT owner, name, filter, acknowledged, beyond, earlier, seen_us, checksum FROM cursor"
SELECT_DOCUMENTS: Final = "SELECT origin, number, frame, checksum FROM document"
_OLDEST: Final = "SELECT position, length(block) FROM record ORDER BY position LIMIT ?"
_TALLY: Final = "last_position, latest_us, records, bytes, checksum"
_SET_TALLY: Final = f"INSERT OR REPLACE INTO tally (rowid, {_TALLY}) VALUES (1, ?, ?, ?, ?, ?)"  # noqa: S608 constants
_COUNT: Final = "SELECT count(*), coalesce(sum(length(block)), 0) FROM record"


class CommitRefused(Exception):
    """One Persist cannot be stored, while the others of its batch can."""


class Batch:
    """The content of one transaction: many Persists, each of them completely or not at all."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.records: list[Row] = []
        self.cursors: dict[tuple[bytes, bytes], Row | None] = {}
        """The last row of each durable subscription; None deletes it."""
        self.documents: dict[tuple[bytes, bytes], Row | None] = {}
        """The last row of each document of another broker; None deletes it."""

    def add(self, persist: Persist) -> None:
        """Add a Persist; raise CommitRefused and add nothing if a value cannot be represented in the database."""
        last, latest_us, rows, size = self.tally.last_position, self.tally.latest_us, [], 0
        try:
            for record in persist.records:
                if record.position <= last:
                    raise CommitRefused(f"position {record.position} does not follow {last}")
                latest_us = max(latest_us, record.logged_us)
                rows.append(record_row(record, last, latest_us))
                last, size = record.position, size + len(record.block) + ROW_BYTES
            cursors = {cursor_key(owner, name): None for owner, name in persist.forgotten} | {
                cursor_key(cursor.owner, cursor.name): cursor_row(cursor) for cursor in persist.cursors
            }
            documents = {
                document_key(document.origin, document.number): document_row(document) if document.frame else None
                for document in persist.documents
            }
        except (struct_error, TypeError, ValueError) as error:
            raise CommitRefused(f"it cannot be stored: {error}") from error
        self.records += rows
        self.cursors |= cursors
        self.documents |= documents
        self.tally = Tally(last, latest_us, self.tally.records + len(rows), self.tally.bytes + size)

    def follow(self, kept: StoredState) -> None:
        """Add a record with its distance from another database, so that a record missing before it is still noticed."""
        self.records.append(record_row(kept.record, kept.previous, kept.latest_us))
        size = self.tally.bytes + len(kept.record.block) + ROW_BYTES
        self.tally = Tally(kept.record.position, kept.latest_us, self.tally.records + 1, size)


class Store:
    """The writing side of the database, for one thread at a time."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self.path = path
        self.first_position = 1
        """Position before which `trim` has deleted everything."""
        self.connection = connect(path)
        try:
            self._prepare(fsync)
            self.tally = self._read_tally()
            self.secret = read_secret(self.connection) or self._draw_secret()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self, fsync: bool) -> None:
        new = not self.connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
        if new:
            self.connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        else:
            self._check_version()  # before anything is written
        (mode,) = self.connection.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != b"wal":
            raise LogError(
                f"SQLite cannot keep a write-ahead log in {self.path.parent}",
                hint="the event log needs a local disk, not a network file system",
            )
        self.connection.execute("PRAGMA synchronous=FULL" if fsync else "PRAGMA synchronous=NORMAL")
        self.connection.execute("PRAGMA secure_delete=OFF")
        self.connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES_KEPT}")
        if new:
            self._create()
        else:
            self.connection.execute(_CREATE_DOCUMENTS)  # an older one has none

    def _create(self) -> None:
        with self._transaction():
            for statement in _SCHEMA:
                self.connection.execute(statement)
            self.connection.execute(
                "INSERT INTO version VALUES (?, ?)", (SCHEMA_VERSION, numbers_checksum(SCHEMA_VERSION))
            )
            self._store_tally(Tally())

    def _check_version(self) -> None:
        """Raise LogTooNew for a later version. Only a version with a valid checksum counts: a flipped bit is no reason
        to refuse."""
        for version, checksum in self.connection.execute("SELECT version, checksum FROM version"):
            if checksum == numbers_checksum(version) and version > SCHEMA_VERSION:
                raise LogTooNew(
                    f"the event log in {self.path.parent} has format {version}, and this broker knows {SCHEMA_VERSION}",
                    hint="run the version of Plait that wrote it, or give this broker another data directory",
                )

    def _read_tally(self) -> Tally:
        """Return the stored tally; count again if it is damaged."""
        for row in self.connection.execute(f"SELECT {_TALLY} FROM tally WHERE rowid = 1").fetchall():  # noqa: S608
            try:
                return checked_tally(row)
            except Damaged:
                break
        records, size = self.connection.execute(_COUNT).fetchone()
        return Tally(0, 0, records, size + records * ROW_BYTES)

    def _draw_secret(self) -> bytes:
        drawn = token_bytes(SECRET_BYTES)
        self.set_secret(drawn)
        return drawn

    def set_secret(self, secret: bytes) -> None:
        """Set the log's identity: its positions then continue those of the log with that secret."""
        with self._transaction():
            self.connection.execute(_CREATE_IDENTITY)
            self.connection.execute(
                "INSERT OR REPLACE INTO identity (rowid, secret, checksum) VALUES (1, ?, ?)", (secret, crc32(secret))
            )
        self.secret = secret

    def check_form(self) -> None:
        """Raise sqlite3.Error if a table or a column is missing."""
        for statement in (_OLDEST, SELECT_RECORDS, SELECT_CURSORS, SELECT_DOCUMENTS):
            self.connection.execute(f"EXPLAIN {statement}", (0,) * statement.count("?")).fetchall()

    def check_structure(self) -> None:
        """Raise sqlite3.DatabaseError if SQLite finds an error in the file; this reads all of it."""
        ((found,),) = self.connection.execute("PRAGMA quick_check(1)").fetchall()
        text: str = found.decode(errors="replace")
        if text != "ok":
            raise damage(text.removeprefix("*** in database main ***").strip().replace("\n", " "))

    def commit(self, batch: Batch) -> None:
        """Store all of a batch, or raise the error and store nothing."""
        with self._transaction():
            self.connection.executemany(_INSERT, batch.records)
            for key, row in batch.cursors.items():
                if row is None:
                    self.connection.execute("DELETE FROM cursor WHERE owner = ? AND name = ?", key)
                else:
                    self.connection.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            for key, row in batch.documents.items():
                if row is None:
                    self.connection.execute("DELETE FROM document WHERE origin = ? AND number = ?", key)
                else:
                    self.connection.execute("INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?)", row)
            self._store_tally(batch.tally)
        self.tally = batch.tally

    def adopt(self, last_position: int, latest_us: int) -> None:
        """Mark positions up to this one as assigned, whether their records exist or not."""
        tally = replace(
            self.tally,
            last_position=max(self.tally.last_position, last_position),
            latest_us=max(self.tally.latest_us, latest_us),
        )
        if tally != self.tally:
            with self._transaction():
                self._store_tally(tally)
            self.tally = tally

    def trim(self, excess_bytes: int, expired_before: int, *, records_max: int, bytes_max: int) -> int:
        """Delete the oldest records while bytes are in excess or positions expired, in one small step; return their
        number."""
        cut, count, size = 0, 0, 0
        for position, length in self.connection.execute(_OLDEST, (records_max,)).fetchall():
            if (size >= excess_bytes and position >= expired_before) or size >= bytes_max:
                break
            if not cut < position <= self.tally.last_position:
                raise damage("the oldest records are out of order")
            cut, count, size = position, count + 1, size + (length or 0) + ROW_BYTES
        if not count:
            return 0
        tally = replace(self.tally, records=max(self.tally.records - count, 0), bytes=max(self.tally.bytes - size, 0))
        with self._transaction():
            self.connection.execute("DELETE FROM record WHERE position <= ?", (cut,))
            self._store_tally(tally)
        self.tally = tally
        self.first_position = cut + 1
        return count

    def shrink(self) -> bool:
        """Free a few empty pages if there are many; return whether it did."""
        (pages,) = self.connection.execute("PRAGMA page_count").fetchone()
        (free,) = self.connection.execute("PRAGMA freelist_count").fetchone()
        if free <= max(FREE_PAGES_KEPT, pages // 4):
            return False
        # As a script, which steps through rows without columns: `execute` would stop after the first page.
        self.connection.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")
        return True

    def close(self) -> None:
        """Close; with the last connection SQLite merges the write-ahead log into the database."""
        self.connection.close()

    def _store_tally(self, tally: Tally) -> None:
        self.connection.execute(_SET_TALLY, tally_row(tally))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:  # after some errors SQLite has rolled back by itself
                self.connection.execute("ROLLBACK")
            raise


def connect(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """Return a connection that trusts nothing in the file, and returns text as bytes."""
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes
    connection.execute("PRAGMA trusted_schema=OFF")
    connection.execute("PRAGMA cell_size_check=ON")
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


def read_secret(connection: sqlite3.Connection) -> bytes | None:
    """Return the key of the log's identity, or None if it is missing or damaged."""
    try:
        rows = connection.execute("SELECT secret, checksum FROM identity WHERE rowid = 1").fetchall()
    except sqlite3.DatabaseError as error:
        if not (is_unreadable(error) or is_schema_missing(error)):
            raise
        return None
    for secret, checksum in rows:
        if isinstance(secret, bytes) and len(secret) == SECRET_BYTES and crc32(secret) == checksum:
            return secret
    return None


def read_cursors(connection: sqlite3.Connection) -> tuple[list[Cursor], int]:
    """Return all durable subscriptions in order, and the number of damaged or unreadable rows."""
    cursors: list[Cursor] = []
    damaged = 0
    rows: list[Row] = []
    try:
        rows.extend(connection.execute(SELECT_CURSORS))
    except sqlite3.DatabaseError as error:
        if not is_unreadable(error):
            raise
        damaged += 1
    for row in rows:
        try:
            cursors.append(checked_cursor(row))
        except Damaged:
            damaged += 1
    return cursors, damaged


def read_documents(connection: sqlite3.Connection) -> list[StoredDocument]:
    """Return all valid documents of other brokers; these brokers resend missing ones when they connect."""
    documents: list[StoredDocument] = []
    rows: list[Row] = []
    try:
        rows.extend(connection.execute(SELECT_DOCUMENTS))
    except sqlite3.DatabaseError as error:
        if not (is_unreadable(error) or is_schema_missing(error)):
            raise
    for row in rows:
        with suppress(Damaged):
            documents.append(checked_document(row))
    return documents
