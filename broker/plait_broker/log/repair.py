"""Open the database, and repair it if it is damaged: copy what can be read, and set the damaged file aside.

The copy is complete before the damaged database is touched. So a disk that fills up in between, or a broker that is
killed, loses nothing. The next start finds either the damaged database, or no database and a complete copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from errno import ENOSPC
from pathlib import Path
from typing import Final

from ..outputs import Persist
from .errors import is_damage, is_schema_missing, is_truncated
from .high_water_mark import Marked
from .reader import RecordReader, Walk
from .records import StoredState
from .store import Batch, Store, connect, read_cursors, read_documents, read_secret

DATABASE: Final = "log.db"
REPAIRED: Final = "repaired.db"
SUFFIXES: Final = ("", "-wal", "-shm")

CHECKED_BYTES_MAX: Final = 256 << 20
"""A larger database is not checked at each start, because the check reads all of it: half a second for this much when
cached. Its records have checksums; damage to its structure shows when it is read, and then the next start checks it."""

ASIDE_MAX: Final = 3
"""Damaged databases that are kept. The oldest is deleted, so that a failing disk does not fill up with them."""

SALVAGE_RECORDS: Final = 1024
"""Records copied in one transaction."""

POSITION_MAX: Final = 2**63 - 1


def open_store(directory: Path, marked: Marked, *, fsync: bool) -> tuple[Store, list[str]]:
    """Return the checked database, with positions that are never assigned twice, and notices for the operator."""
    notices: list[str] = []
    if not (directory / DATABASE).exists() and (directory / REPAIRED).exists():
        notices += [f"a repair that was cut short is finished; the damaged database is in {_put_in_place(directory)}"]
    try:
        store, lost = _open_checked(directory, marked, fsync=fsync)
    except sqlite3.DatabaseError as error:
        if not _is_broken(error):
            raise
        saved = _repair(directory)
        aside = _put_in_place(directory)
        notices += [f"the log's database was damaged ({error}): it was moved to {aside}; {saved}"]
        store, lost = _open_checked(directory, marked, fsync=fsync)
    return store, notices + lost


def _open_checked(directory: Path, marked: Marked, *, fsync: bool) -> tuple[Store, list[str]]:
    """Return the database; raise sqlite3.DatabaseError if it is damaged."""
    sync_files(directory)
    store = Store(directory / DATABASE, fsync=fsync)
    try:
        store.check_form()
        if marked.suspect or store.path.stat().st_size <= CHECKED_BYTES_MAX:
            store.check_structure()
        return store, _settle_positions(store, marked)
    except BaseException:
        store.close()
        raise


def sync_files(directory: Path) -> None:
    """Sync files that a killed broker may have left in memory: recovered data must not vanish later."""
    for path in (directory / f"{DATABASE}-wal", directory / DATABASE, directory, directory.parent):
        if path.exists():
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(file)
            finally:
                os.close(file)


def _is_broken(error: sqlite3.DatabaseError) -> bool:
    """Return whether the file needs a repair. A disk that cannot be read needs the operator instead: it may be readable
    again later."""
    return is_damage(error) or is_schema_missing(error) or is_truncated(error)


def _settle_positions(store: Store, marked: Marked) -> list[str]:
    """Adopt the highest position known to the records or the mark. A log that is shorter than its mark has lost its
    end."""
    newest = _newest(store)
    store.adopt(newest.record.position if newest else 0, newest.latest_us if newest else 0)
    known = store.tally.last_position
    store.adopt(marked.last_position, 0)
    if known < marked.last_position:
        return [
            f"the log ends at record {known}, but {marked.last_position} was stored: its end was damaged and is lost"
        ]
    return []


def _newest(store: Store) -> StoredState | None:
    """Return the newest valid record, if it is among the last few rows."""
    reader = RecordReader(store.connection)
    rows = store.connection.execute("SELECT position FROM record ORDER BY position DESC LIMIT 16").fetchall()
    found = (reader.verified(position, 1, position) for (position,) in rows)
    return next((kept[0] for kept in found if kept), None)


def _repair(directory: Path) -> str:
    """Make a new database of every readable and valid record and cursor, or nothing if there is no room."""
    _discard_repaired(directory)
    try:
        with closing(Store(directory / REPAIRED, fsync=True)) as store:
            cursors, records = (_attempt(directory / DATABASE, store, copy) for copy in (_copy_cursors, _copy_records))
            _attempt(directory / DATABASE, store, _copy_identity)
        if (directory / f"{REPAIRED}-wal").exists():
            raise OSError(ENOSPC, os.strerror(ENOSPC))  # closing folds it into the database, if there is room
    except BaseException:
        _discard_repaired(directory)
        raise
    return f"{records} records and {cursors} durable subscriptions were saved from it"


def _discard_repaired(directory: Path) -> None:
    for suffix in SUFFIXES:
        (directory / f"{REPAIRED}{suffix}").unlink(missing_ok=True)


def _put_in_place(directory: Path) -> Path:
    """Move the damaged database aside, the main file first, and put the repaired one in its place."""
    taken = sorted(int(path.suffix[1:]) for path in directory.glob("damaged.*") if path.suffix[1:].isdigit())
    for number in taken[: max(len(taken) - ASIDE_MAX + 1, 0)]:
        shutil.rmtree(directory / f"damaged.{number}")
    aside = directory / f"damaged.{taken[-1] + 1 if taken else 1}"
    aside.mkdir(mode=0o700)
    for suffix in SUFFIXES:
        path = directory / f"{DATABASE}{suffix}"
        if path.exists():
            path.rename(aside / path.name)
    sync_files(directory)
    (directory / REPAIRED).rename(directory / DATABASE)
    sync_files(directory)
    return aside


def _attempt(damaged: Path, store: Store, copy: Callable[[sqlite3.Connection, Store], int]) -> int:
    try:
        with closing(connect(damaged)) as connection:
            return copy(connection, store)
    except sqlite3.DatabaseError as error:
        if not _is_broken(error):
            raise
        return 0


def _copy_identity(connection: sqlite3.Connection, store: Store) -> int:
    """Copy the log's identity. Without it the log gets a new one, and clients are notified of a loss that may not
    exist."""
    secret = read_secret(connection)
    if secret is not None:
        store.set_secret(secret)
    return 1


def _copy_cursors(connection: sqlite3.Connection, store: Store) -> int:
    cursors, _ = read_cursors(connection)
    batch = Batch(store.tally)
    batch.add(Persist(0, cursors=tuple(cursors), documents=tuple(read_documents(connection))))
    store.commit(batch)
    return len(cursors)


def _copy_records(connection: sqlite3.Connection, store: Store) -> int:
    walk, copied = Walk(RecordReader(connection), 1, POSITION_MAX), 0
    while kept := walk.take(SALVAGE_RECORDS):
        batch = Batch(store.tally)
        for one in kept:
            batch.follow(one)
        store.commit(batch)
        copied += len(kept)
    return copied
