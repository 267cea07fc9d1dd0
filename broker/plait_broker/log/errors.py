"""What can be wrong with the event log, and how a failure of the disk is put into words.

PlaitError
└── LogError             the log cannot be opened; a failure of one Persist is told to its ticket instead
    ├── LogInUse         another broker holds the directory
    └── LogTooNew        a later version of Plait wrote it
"""

from __future__ import annotations

import sqlite3

from plait_core.errors import PlaitError

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG}
"""A length that a flipped bit made too big is damage as well: no statement of ours makes one."""

_UNREADABLE = {
    sqlite3.SQLITE_IOERR_READ,
    sqlite3.SQLITE_IOERR_SHORT_READ,
    sqlite3.SQLITE_IOERR_DATA,
    sqlite3.SQLITE_IOERR_CORRUPTFS,
}
"""Extended codes: of the I/O errors, those of a place on the disk. Others come of a disk that is full or away."""

_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk reports an I/O error",
    sqlite3.SQLITE_READONLY: "the disk is read-only",
    sqlite3.SQLITE_CORRUPT: "the log is damaged",
    sqlite3.SQLITE_NOTADB: "the log is damaged",
    sqlite3.SQLITE_TOOBIG: "the log is damaged",
    sqlite3.SQLITE_BUSY: "the log is locked by another program",
}


class LogError(PlaitError):
    """The event log cannot be used."""


class LogInUse(LogError):
    """The directory belongs to another broker that is running."""

    retryable = True


class LogTooNew(LogError):
    """A later version of Plait wrote this log."""


def in_words(error: Exception) -> str:
    """A short text for whoever waits for an acknowledgement."""
    return _WORDS.get(_code(error), str(error) or type(error).__name__)


def is_damage(error: Exception) -> bool:
    """The structure of the database is broken: nothing but a repair helps. A disk that fails is no such thing."""
    return _code(error) in _DAMAGE


def is_unreadable(error: Exception) -> bool:
    """What was asked for cannot be read, and asking again will not help; what lies around it may still be read."""
    return is_damage(error) or getattr(error, "sqlite_errorcode", None) in _UNREADABLE


def is_cut(error: Exception) -> bool:
    """The file ends where a page should be."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHORT_READ


def is_garbled(error: Exception) -> bool:
    """A table or a column is missing: to be asked only where the statements are known to be right."""
    return _code(error) == sqlite3.SQLITE_ERROR


def damage(text: str) -> sqlite3.DatabaseError:
    """What SQLite would raise, had it seen this itself."""
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an exception that has none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return (code or 0) & 0xFF
