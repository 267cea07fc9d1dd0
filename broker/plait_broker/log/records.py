"""Records and cursors as rows, each with its own checksum; pure functions.

The checksum is CRC-32 over position, length and content, so neither a misplaced record nor a truncated one passes. It
detects accidents, not malice: anyone who can write the file can recompute a checksum without a key. At these lengths it
finds every burst of up to 32 bits and every flip of up to 3 bits. Of larger errors it misses one in 4e9; below it are
SQLite's own checksums of the write-ahead log. It costs 0.1 µs for a small record; BLAKE2 costs four times that. CRC-32C
would not be better, only faster where the processor has an instruction for it.

Each record also contains the distance to the record before it. So the rows form a chain, and a row that has vanished,
whose checksum cannot fail, is noticed all the same. SQLite stores the usual distance, 1, in no bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from struct import Struct, error
from typing import Any, Final, TypeAlias
from zlib import crc32

from ..outputs import Cursor, LogRecord, StoredDocument

Row: TypeAlias = tuple[Any, ...]
"""Values that SQLite returned. After damage a column may have any type."""

ROW_BYTES: Final = 32
"""Bytes of a record in the file in addition to its block, rounded up: header, times, checksum, share of the page."""

_RECORD: Final = Struct("<qqqqI")
_CURSOR: Final = Struct("<qqIIIII")
_NUMBERS: Final = Struct("<6q")


class Damaged(Exception):
    """A row that differs from the one written."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A verified record, with its place in the chain."""

    record: LogRecord
    previous: int
    """Position of the record written before it."""
    latest_us: int
    """The latest time of any record up to this one: it ascends even where a restart has set the clock back."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Totals of the log: a row of the database that changes with every commit."""

    last_position: int = 0
    latest_us: int = 0
    records: int = 0
    bytes: int = 0


def record_row(record: LogRecord, previous: int, latest_us: int) -> Row:
    """Return position, step, time, distance of that time from the latest, checksum, block."""
    step, behind_us = record.position - previous, latest_us - record.logged_us
    head = _RECORD.pack(record.position, step, record.logged_us, behind_us, len(record.block))
    return record.position, step, record.logged_us, behind_us, crc32(record.block, crc32(head)), record.block


def checked_record(row: Row) -> StoredState:
    """Return a verified record; raise Damaged unless the row is exactly what `record_row` made."""
    position, step, logged_us, behind_us, checksum, block = row
    try:
        valid = crc32(block, crc32(_RECORD.pack(position, step, logged_us, behind_us, len(block)))) == checksum
    except (error, TypeError) as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    return StoredState(LogRecord(position, logged_us, block), position - step, logged_us + behind_us)


def cursor_row(cursor: Cursor) -> Row:
    """Return owner, name, filter, acknowledged, `beyond` as distances in decimal, earlier filters as JSON, time of the
    last connection, checksum."""
    distances, before = [], cursor.acknowledged
    for position in cursor.beyond:
        distances.append(b"%d" % (position - before))
        before = position
    earlier = json.dumps(cursor.earlier, separators=(",", ":")).encode() if cursor.earlier else b""
    texts = cursor.owner.encode(), cursor.name.encode(), cursor.filter.encode(), b" ".join(distances), earlier
    owner, name, filter, beyond, _ = texts
    checksum = _cursor_checksum(cursor.acknowledged, cursor.seen_us, texts)
    return owner, name, filter, cursor.acknowledged, beyond, earlier, cursor.seen_us, checksum


def checked_cursor(row: Row) -> Cursor:
    """Return a verified cursor; raise Damaged unless the row is exactly what `cursor_row` made."""
    owner, name, filter, acknowledged, beyond, earlier, seen_us, checksum = row
    try:
        valid = _cursor_checksum(acknowledged, seen_us, (owner, name, filter, beyond, earlier)) == checksum
    except (error, TypeError) as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    positions, position = [], acknowledged
    for distance in beyond.split():
        position += int(distance)
        positions.append(position)
    filters = tuple((up_to, text) for up_to, text in json.loads(earlier)) if earlier else ()
    return Cursor(name.decode(), owner.decode(), filter.decode(), acknowledged, tuple(positions), filters, seen_us)


def cursor_key(owner: str, name: str) -> tuple[bytes, bytes]:
    """Return a durable subscription's key, as in its row."""
    return owner.encode(), name.encode()


def document_key(origin: int, number: int) -> tuple[bytes, bytes]:
    """Return a document's key, as in its row: numbers of 64 bits, which exceed SQLite's own."""
    return origin.to_bytes(8, "big"), number.to_bytes(8, "big")


def document_row(document: StoredDocument) -> Row:
    """Return origin, number, frame, checksum."""
    origin, number = document_key(document.origin, document.number)
    return origin, number, document.frame, crc32(document.frame, crc32(origin + number))


def checked_document(row: Row) -> StoredDocument:
    """Return a verified document; raise Damaged unless the row is exactly what `document_row` made."""
    origin, number, frame, checksum = row
    try:
        valid = len(origin) == len(number) == 8 and crc32(frame, crc32(origin + number)) == checksum
    except TypeError as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    return StoredDocument(int.from_bytes(origin, "big"), int.from_bytes(number, "big"), frame)


def tally_row(tally: Tally) -> Row:
    """Return the tally's numbers and their checksum."""
    numbers = (tally.last_position, tally.latest_us, tally.records, tally.bytes)
    return (*numbers, numbers_checksum(*numbers))


def checked_tally(row: Row) -> Tally:
    """Return a verified tally; raise Damaged unless the row is exactly what `tally_row` made."""
    *numbers, checksum = row
    if numbers_checksum(*numbers) != checksum:
        raise Damaged
    return Tally(*numbers)


def numbers_checksum(*numbers: int) -> int:
    """Return the checksum of up to six numbers; -1, which no checksum is, if a value is no number."""
    try:
        return crc32(_NUMBERS.pack(*numbers, *(0,) * (6 - len(numbers))))
    except error:
        return -1


def _cursor_checksum(acknowledged: int, seen_us: int, texts: tuple[bytes, ...]) -> int:
    sum = crc32(_CURSOR.pack(acknowledged, seen_us, *map(len, texts)))
    for text in texts:
        sum = crc32(text, sum)
    return sum
