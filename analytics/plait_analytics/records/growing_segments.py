"""Segments that still grow: a shard for each incarnation of a broker, and the position read in it.

A shard is identified by broker and start time, not by directory, so copies and moved directories are not read twice. A
position is a segment number and the records read of that segment. All segments of a shard but the newest are complete:
a broker ends one before it begins the next, and a dead broker writes no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from plait_core.telemetry import (
    RECORD_BYTES,
    SCHEMAS,
    SEGMENT_HEADER_BYTES,
    SegmentError,
    SegmentHeader,
    parse_segment_name,
    record_dtype,
)

from .columns import Slice
from .inventory import examine

SHARDS_MAX: Final = 10_000
"""Shards whose positions are kept; beyond it the oldest are forgotten."""

STEPS: Final = 40
"""Steps of the binary search by time: from an hour to the microsecond, from a year to a few seconds."""

Position = tuple[int, int]
"""A position: the number of a segment and the records read of it."""


class Stretch(NamedTuple):
    """Unread records of one segment of a shard."""

    number: int
    piece: Slice


@dataclass(slots=True)
class GrowingSegment:
    """A shard: the segments of one incarnation of one broker."""

    name: str
    segments: dict[int, str] = field(default_factory=dict)
    """Paths by number."""


class GrowingSegments:
    """The shards below some directories. Each skipped file is reported once."""

    def __init__(self, directories: Iterable[str], report: Callable[[str], None]) -> None:
        self._directories = list(directories)
        self._report = report
        self._headers: dict[str, SegmentHeader | None] = {}
        self._complete: dict[str, int] = {}
        self._reported: set[str] = set()

    def scan(self) -> dict[str, GrowingSegment]:
        """Return the shards that exist now."""
        found: dict[str, GrowingSegment] = {}
        for path in self._paths():
            header = self._header(path)
            if header is None:
                continue
            name = f"{header.broker:016x}-{header.started_us:016d}"
            segments = found.setdefault(name, GrowingSegment(name)).segments
            known = segments.get(header.number)
            if known is None or _size(path) > _size(known):
                segments[header.number] = path
        return found

    def unread(self, shard: GrowingSegment, place: Position, until: Position | None = None) -> list[Stretch]:
        """Return the unread records of a shard after a position, up to `until` or the end."""
        stretches = []
        newest = max(shard.segments)
        for number in sorted(shard.segments):
            if number < place[0] or (until is not None and number > until[0]):
                continue
            read = place[1] if number == place[0] else 0
            if until is not None and number == until[0]:
                records = until[1]
            else:
                records = self._records(shard.segments[number], read, complete=number != newest)
            if records > read:
                header = self._headers[shard.segments[number]]
                assert header is not None, "a shard has headers for its segments"
                piece = Slice(shard.segments[number], header.broker, header.version, read, records - read)
                stretches.append(Stretch(number, piece))
        missing = min(shard.segments) - place[0] - 1
        if missing > 0 and place != (0, 0):
            self._report_once(f"{shard.name}: {missing} segments were deleted before they were read")
        return stretches

    def _paths(self) -> Iterator[str]:
        for directory in self._directories:
            if not os.path.isdir(directory):
                self._report_once(f"{directory}: it does not exist")
                continue
            for home, _, names in os.walk(directory):
                yield from (os.path.join(home, name) for name in sorted(names) if parse_segment_name(name) is not None)

    def _header(self, path: str) -> SegmentHeader | None:
        if path in self._headers:
            return self._headers[path]
        try:
            with open(path, "rb") as file:
                data = file.read(SEGMENT_HEADER_BYTES)
        except OSError:
            return None
        if len(data) < SEGMENT_HEADER_BYTES:
            return None  # its broker has not written the header yet
        try:
            header: SegmentHeader | None = SegmentHeader.parse(data)
            if header is not None and header.version not in SCHEMAS:
                raise SegmentError(f"it is of schema version {header.version}, which is not known here")
        except SegmentError as error:
            self._report_once(f"left out: {path}: {error.message}")
            header = None
        self._headers[path] = header
        return header

    def _records(self, path: str, read: int, *, complete: bool) -> int:
        """Return how many records a segment has. A damaged one has none, unless reading it began before it was
        sealed."""
        if path in self._complete:
            return self._complete[path]
        try:
            segment = examine(path, verify=not read)
        except OSError:
            return 0  # deleted meanwhile
        except SegmentError as error:
            self._report_once(f"left out: {path}: {error.message}")
            self._complete[path] = 0
            return 0
        if complete or segment.sealed:
            self._complete[path] = segment.records
        return segment.records

    def _report_once(self, text: str) -> None:
        if text not in self._reported and len(self._reported) < SHARDS_MAX:
            self._reported.add(text)
            self._report(text)


def chosen(unread: Mapping[str, list[Stretch]], most: int | None) -> dict[str, list[Slice]]:
    """Choose about `most` of the unread records, the earliest by time.

    This keeps the brokers at the same time. Reading one broker far ahead would make the records of the others late.
    """
    everything = {name: [stretch.piece for stretch in stretches] for name, stretches in unread.items()}
    if most is None or sum(piece.records for pieces in everything.values() for piece in pieces) <= most:
        return everything
    low = min(_time(pieces[0], 0) for pieces in everything.values() if pieces)
    high = max(_time(pieces[-1], pieces[-1].records - 1) for pieces in everything.values() if pieces) + 1
    for _ in range(STEPS):
        middle = (low + high) // 2
        if sum(sum(map(len_of, _before(pieces, middle))) for pieces in everything.values()) <= most:
            low = middle
        else:
            high = middle
    found = {name: taken for name, pieces in everything.items() if (taken := _before(pieces, low))}
    if found:
        return found
    first = min((name for name in everything if everything[name]), key=lambda name: _time(everything[name][0], 0))
    piece = everything[first][0]
    return {first: [piece._replace(records=min(piece.records, most))]}


def len_of(piece: Slice) -> int:
    return piece.records


def _before(pieces: list[Slice], time_us: int) -> list[Slice]:
    """Return the slices up to a time. Records are nearly ordered by time."""
    found = []
    for piece in pieces:
        low, high = 0, piece.records
        if _time(piece, piece.records - 1) < time_us:
            found.append(piece)
            continue
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if _time(piece, middle) < time_us else (low, middle)
        if low:
            found.append(piece._replace(records=low))
        break
    return found


def _time(piece: Slice, record: int) -> int:
    with open(piece.path, "rb") as file:
        data = os.pread(file.fileno(), RECORD_BYTES, SEGMENT_HEADER_BYTES + (piece.first + record) * RECORD_BYTES)
    return int(np.frombuffer(data, record_dtype(piece.version))["ts_us"][0]) if len(data) == RECORD_BYTES else 0


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
