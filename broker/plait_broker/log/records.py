"""Records and cursors as rows, each under its own checksum; pure functions.

The checksum is CRC-32, over the position and the length as well as the content, so that neither a record in another's
place nor a cut one passes. It defends against accident, not malice: who can write the file can recompute any sum
without a key. It finds every burst of up to 32 bits and every flip of up to 3 bits at these lengths, and misses one in
4e9 of anything worse, below SQLite's own checksums of the write-ahead log; it costs 0.1 µs for a small record, where
BLAKE2 costs four times that. CRC-32C would not be better, only faster where there is an instruction for it.

Each record also names how far back the record before it is. So the rows form a chain, and one that vanished, which
leaves no row whose checksum could fail, is missed all the same. SQLite stores the usual distance, 1, in no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error
from typing import Any, Final, TypeAlias
from zlib import crc32

from ..outputs import Cursor, LogRecord, StoredDocument

Row: TypeAlias = tuple[Any, ...]
"""What SQLite gave back. After damage a column may be of any type."""

ROW_BYTES: Final = 32
"""What the file holds for a record beside its block, rounded up: header, times, checksum, share of the page."""

_RECORD: Final = Struct("<qqqqI")
_CURSOR: Final = Struct("<qIIII")
_NUMBERS: Final = Struct("<6q")


class Damaged(Exception):
    """A row that is not what was once written."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """A verified record, with its place in the chain."""

    record: LogRecord
    previous: int
    """Position of the record that was written before it."""
    latest_us: int
    """The latest time of any record up to this one: it ascends even where a restart has set the calendar back."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What the log holds in all; a row of the database that changes with every commit."""

    last_position: int = 0
    latest_us: int = 0
    records: int = 0
    bytes: int = 0


def record_row(record: LogRecord, previous: int, latest_us: int) -> Row:
    """Position, step, time, how far that time lies behind the latest, checksum, block."""
    step, behind_us = record.position - previous, latest_us - record.logged_us
    head = _RECORD.pack(record.position, step, record.logged_us, behind_us, len(record.block))
    return record.position, step, record.logged_us, behind_us, crc32(record.block, crc32(head)), record.block


def checked_record(row: Row) -> StoredState:
    """Raises Damaged unless the row is exactly what `record_row` made."""
    position, step, logged_us, behind_us, checksum, block = row
    try:
        valid = crc32(block, crc32(_RECORD.pack(position, step, logged_us, behind_us, len(block)))) == checksum
    except (error, TypeError) as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    return StoredState(LogRecord(position, logged_us, block), position - step, logged_us + behind_us)


def cursor_row(cursor: Cursor) -> Row:
    """Owner, name, filter, acknowledged, what lies beyond as distances in decimal, checksum."""
    owner, name, filter = cursor.owner.encode(), cursor.name.encode(), cursor.filter.encode()
    distances, before = [], cursor.acknowledged
    for position in cursor.beyond:
        distances.append(b"%d" % (position - before))
        before = position
    beyond = b" ".join(distances)
    return (
        owner,
        name,
        filter,
        cursor.acknowledged,
        beyond,
        _cursor_checksum(owner, name, filter, cursor.acknowledged, beyond),
    )


def checked_cursor(row: Row) -> Cursor:
    """Raises Damaged unless the row is exactly what `cursor_row` made."""
    owner, name, filter, acknowledged, beyond, checksum = row
    try:
        valid = _cursor_checksum(owner, name, filter, acknowledged, beyond) == checksum
    except (error, TypeError) as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    positions, position = [], acknowledged
    for distance in beyond.split():
        position += int(distance)
        positions.append(position)
    return Cursor(name.decode(), owner.decode(), filter.decode(), acknowledged, tuple(positions))


def cursor_key(owner: str, name: str) -> tuple[bytes, bytes]:
    """A durable subscription's key, as in its row."""
    return owner.encode(), name.encode()


def memory_key(origin: int, number: int) -> tuple[bytes, bytes]:
    """What names a memory, as in its row: numbers of 64 bits, which SQLite's own do not hold."""
    return origin.to_bytes(8, "big"), number.to_bytes(8, "big")


def memory_row(memory: StoredDocument) -> Row:
    """Origin, number, frame, checksum."""
    origin, number = memory_key(memory.origin, memory.number)
    return origin, number, memory.frame, crc32(memory.frame, crc32(origin + number))


def checked_memory(row: Row) -> StoredDocument:
    """Raises Damaged unless the row is exactly what `memory_row` made."""
    origin, number, frame, checksum = row
    try:
        valid = len(origin) == len(number) == 8 and crc32(frame, crc32(origin + number)) == checksum
    except TypeError as fault:
        raise Damaged from fault
    if not valid:
        raise Damaged
    return StoredDocument(int.from_bytes(origin, "big"), int.from_bytes(number, "big"), frame)


def tally_row(tally: Tally) -> Row:
    """The tally's numbers and their checksum."""
    numbers = (tally.last_position, tally.latest_us, tally.records, tally.bytes)
    return (*numbers, numbers_checksum(*numbers))


def checked_tally(row: Row) -> Tally:
    """Raises Damaged unless the row is exactly what `tally_row` made."""
    *numbers, checksum = row
    if numbers_checksum(*numbers) != checksum:
        raise Damaged
    return Tally(*numbers)


def numbers_checksum(*numbers: int) -> int:
    """Of up to six numbers; -1, which no checksum is, when one of them is none."""
    try:
        return crc32(_NUMBERS.pack(*numbers, *(0,) * (6 - len(numbers))))
    except error:
        return -1


def _cursor_checksum(owner: bytes, name: bytes, filter: bytes, acknowledged: int, beyond: bytes) -> int:
    sum = crc32(_CURSOR.pack(acknowledged, len(owner), len(name), len(filter), len(beyond)))
    for part in (owner, name, filter, beyond):
        sum = crc32(part, sum)
    return sum
