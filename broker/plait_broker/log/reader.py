"""Read the log: verified records in order, past damaged ones; a missing record is always noticed."""

from __future__ import annotations

import sqlite3
from typing import Final

from ..outputs import LogRecord
from .errors import is_unreadable
from .records import Damaged, Row, StoredState, checked_record

SELECT_RECORDS: Final = """
    SELECT position, step, logged_us, behind_us, checksum, block FROM record
    WHERE position BETWEEN ? AND ? ORDER BY position LIMIT ?
"""
_NEWEST: Final = "SELECT position, length(block) FROM record WHERE position <= ? ORDER BY position DESC LIMIT ?"


class RecordReader:
    """Reads through one connection, in one thread at a time."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.damaged = 0
        """Damaged rows read; a row counts each time."""
        self.broken = False
        """Whether SQLite itself found damage: the structure of the file is broken."""

    def read(self, position: int, count: int, *, last: int, since_us: int = 0) -> tuple[list[LogRecord], bool]:
        """Return the records of a Fetch, `last` being the newest position, and whether one of them is lost."""
        walk = Walk(self, self.first_since(position, since_us, last) if since_us else position, last)
        found: list[LogRecord] = []
        while len(found) < count and (kept := walk.take(count - len(found))):
            found += [one.record for one in kept if not since_us or one.record.logged_us >= since_us]
        return found, walk.lost

    def recent(self, count: int, bytes_max: int, *, last: int) -> list[LogRecord]:
        """Return the newest records, ascending."""
        first = last + 1
        for position, length in self._rows(_NEWEST, (last, count)):
            bytes_max -= length or 0
            if bytes_max < 0 or position > first:
                break
            first = position
        records, _ = self.read(first, count, last=last)
        return records

    def first_since(self, position: int, since_us: int, last: int) -> int:
        """Return a position such that each record from `position` up to it is older than `since_us`. By bisection, not
        by scan."""
        first = self.at_or_after(position, last)
        if first is None or first.latest_us >= since_us:
            return position
        older, newer = first.record.position, last + 1
        while older + 1 < newer:
            middle = (older + newer) // 2
            probe = self.at_or_after(middle, last)
            if probe is None or probe.latest_us >= since_us or probe.record.position >= newer:
                newer = middle
            else:
                older = probe.record.position
        return newer

    def at_or_after(self, position: int, last: int) -> StoredState | None:
        """Return the first verified record from a position on."""
        return next(iter(Walk(self, position, last).take(1)), None)

    def verified(self, position: int, count: int, last: int) -> list[StoredState]:
        """Return the readable and valid ones of the next `count` rows, ascending."""
        found: list[StoredState] = []
        for row in self._rows(SELECT_RECORDS, (position, last, count)):
            try:
                kept = checked_record(row)
            except Damaged:
                self.damaged += 1
                continue
            if kept.record.position >= position:
                found.append(kept)
                position = kept.record.position + 1
        return found

    def _rows(self, statement: str, parameters: tuple[int, ...]) -> list[Row]:
        """Return all rows, or those before the first unreadable one."""
        rows: list[Row] = []
        try:
            rows.extend(self._connection.execute(statement, parameters))
        except sqlite3.Error as error:
            if not is_unreadable(error):
                raise
            self.damaged += 1
            self.broken = True
        return rows


class Walk:
    """Follows the chain of records. `lost` is set once a record after the starting position is missing."""

    def __init__(self, reader: RecordReader, position: int, last: int) -> None:
        self._reader = reader
        self._reached = position - 1
        self._last = last
        self.lost = False

    def take(self, count: int) -> list[StoredState]:
        """Return up to `count` next records; none only at the end. Every pass of the loop ends it or advances."""
        if self._reached >= self._last:
            return []
        # One alone as a second attempt: a read that runs into a damaged page fails as a whole.
        found = self._reader.verified(self._reached + 1, count, self._last) or self._reader.verified(
            self._reached + 1, 1, self._last
        )
        if not found:
            beyond = self._beyond_damage(self._reached + 1)
            found = self._reader.verified(beyond, count, self._last) if beyond <= self._last else []
            if not found:
                self.lost, self._reached = True, self._last
                return []
        for kept in found:
            self.lost = self.lost or kept.previous > self._reached
            assert kept.record.position > self._reached, "the chain ascends"
            self._reached = kept.record.position
        return found

    def _beyond_damage(self, position: int) -> int:
        """Return the next readable position: double the step, then bisect, because a page holds many records."""
        damaged, readable, leap = position, position + 1, 1
        while readable <= self._last and not self._reader.verified(readable, 1, self._last):
            damaged, leap = readable, leap * 2
            readable += leap
        readable = min(readable, self._last + 1)
        while damaged + 1 < readable:
            middle = (damaged + readable) // 2
            if self._reader.verified(middle, 1, self._last):
                readable = middle
            else:
                damaged = middle
        return readable
