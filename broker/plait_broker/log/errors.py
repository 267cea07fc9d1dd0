"""Errors of the event log, and messages for failures of the disk.

PlaitError
└── LogError             The log cannot be opened. A failed Persist is reported to its ticket instead.
    ├── LogInUse         Another broker holds the directory.
    └── LogTooNew        A later version of Plait wrote it.
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
"""Extended codes of the I/O errors that concern one place on the disk. Others mean a full or absent disk."""

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
    """The directory belongs to another running broker."""

    retryable = True


class LogTooNew(LogError):
    """A later version of Plait wrote this log."""


def error_text(error: Exception) -> str:
    """Return a short message for a client that waits for an acknowledgement."""
    return _WORDS.get(_code(error), str(error) or type(error).__name__)


def is_damage(error: Exception) -> bool:
    """Return whether the structure of the database is broken, so that only a repair helps. A failing disk is not
    damage."""
    return _code(error) in _DAMAGE


def is_unreadable(error: Exception) -> bool:
    """Return whether the data cannot be read and a retry will not help; data around it may still be readable."""
    return is_damage(error) or getattr(error, "sqlite_errorcode", None) in _UNREADABLE


def is_truncated(error: Exception) -> bool:
    """Return whether the file ends where a page should be."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHORT_READ


def is_schema_missing(error: Exception) -> bool:
    """Return whether a table or a column is missing. Use only where the statements are known to be right."""
    return _code(error) == sqlite3.SQLITE_ERROR


def damage(text: str) -> sqlite3.DatabaseError:
    """Return the error that SQLite raises for damage, for damage that it has not noticed."""
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _code(error: Exception) -> int:
    """Return SQLite's primary result code; 0 for an exception without one."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return (code or 0) & 0xFF
