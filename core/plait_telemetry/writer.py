"""Writes a broker's records to segments: one thread, that waits for the disk so that the loop never does.

DIR/broker-NAME/START-NUMBER.seg are the segments, START.names.jsonl says what ids in them mean, and schema-1.json
beside them how to read them. A segment is appended to, sealed with its checksum when it is large or old
enough, and deleted, the oldest first, when all together are beyond their budget. What the disk does not take is lost,
and counted.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from time import monotonic
from typing import Final

from plait_core.telemetry import (
    RECORD_BYTES,
    SCHEMA_VERSION,
    Seal,
    SegmentHeader,
    parse_segment_name,
    schema_document,
    segment_name,
)

from .readers import Readers
from .recorder import Records
from .telemetry import Telemetry

WAKE_S: Final = 0.05
"""Between two looks at the ring: readers of a live segment are so far behind, and the ring holds many times as much."""

RETRY_S: Final = 5.0
"""After the disk refused: a full one is not asked at every look."""

CLASHES_MAX: Final = 1000
"""Numbers tried in vain for a new segment's file."""

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """When a segment ends, and how much is kept."""

    bytes_max: int = 64 << 20
    """A million records: one partition's worth of work for whoever analyses them."""
    age_s_max: float = 60.0
    """So that a quiet broker's records are sealed, and can be compacted, within a minute."""
    budget_bytes: int = 4 << 30
    """Of all segments of a broker: an hour and a half at the highest rate that is not sampled."""


class SegmentWriter:
    """One open segment after the other. Its methods block, and raise OSError."""

    def __init__(
        self, directory: Path, broker: int, started_us: int, limits: SegmentLimits, readers: Readers | None = None
    ) -> None:
        """`readers`: who reads segments from elsewhere, and how far they are."""
        self.directory = directory
        self._readers = readers or Readers(directory)
        self.limits = limits
        self._broker = broker
        self._started_us = started_us
        self._number = 0
        self._file: FileIO | None = None
        self._bytes = 0
        self._checksum = 0
        self._opened_at = 0.0
        self._names = directory / f"{started_us:016d}.names.jsonl"

    def open(self) -> None:
        """Make the directory, with the schema in it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        schema = self.directory / f"schema-{SCHEMA_VERSION}.json"
        schema.write_text(json.dumps(schema_document(), indent=1) + "\n")

    def write(self, pieces: list[memoryview], now: float) -> None:
        """Append records."""
        if self._file is not None and not os.fstat(self._file.fileno()).st_nlink:
            self.abandon()  # somebody has deleted it, perhaps with the directory
        if self._file is None:
            self._begin(now)
        file = self._file
        assert file is not None, "it has just begun"
        for piece in pieces:
            assert not len(piece) % RECORD_BYTES
            self._append(file, piece)
        if self._bytes >= self.limits.bytes_max:
            self.seal()

    def name(self, names: list[dict[str, object]]) -> None:
        """Append what ids mean: before the records that have them."""
        if not self.directory.is_dir():
            self.open()
        with self._names.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(name) + "\n" for name in names))

    def tick(self, now: float) -> None:
        """Seal what is old enough."""
        if self._file is not None and now - self._opened_at >= self.limits.age_s_max:
            self.seal()

    def seal(self) -> None:
        """End the segment; the next record begins another."""
        file, self._file = self._file, None
        if file is None:
            return
        with file:
            records = self._bytes // RECORD_BYTES - 1
            self._write_all(file, Seal(records, self._checksum).pack())
        self._keep_budget()

    def abandon(self) -> None:
        """The disk refused in the middle: what is whole in the segment stays readable, without a seal."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _begin(self, now: float) -> None:
        if not self.directory.is_dir():
            self.open()
        for _ in range(CLASHES_MAX):
            path = self.directory / segment_name(self._started_us, self._number)
            header = SegmentHeader(self._broker, self._started_us, self._number, SCHEMA_VERSION)
            self._number += 1
            try:
                file = FileIO(path, "xb")
            except FileExistsError:
                continue
            self._file, self._bytes, self._checksum, self._opened_at = file, 0, 0, now
            self._append(file, header.pack())
            return
        raise FileExistsError(f"{CLASHES_MAX} names for a segment are taken in {self.directory}")

    def _append(self, file: FileIO, data: bytes | memoryview) -> None:
        self._write_all(file, data)
        self._checksum = zlib.crc32(data, self._checksum)
        self._bytes += len(data)

    @staticmethod
    def _write_all(file: FileIO, data: bytes | memoryview) -> None:
        """A nearly full disk takes a part first, and refuses then."""
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) or 0 :]

    def _keep_budget(self) -> None:
        """Delete segments, as long as they are too many: those that nobody waits for first, then the oldest. Then
        names of which no segment is left."""
        segments = sorted(path for path in self.directory.iterdir() if parse_segment_name(path.name))
        sizes = [(path, path.stat().st_size) for path in segments]
        total = sum(size for _, size in sizes)
        kept = sorted(sizes[:-1], key=lambda each: (not self._readers.read_by_all(each[0].name), each[0])) + sizes[-1:]
        while total > self.limits.budget_bytes and len(kept) > 1:
            path, size = kept.pop(0)
            path.unlink(missing_ok=True)
            self._readers.deleted(path.name)
            total -= size
        starts = {path.name[:16] for path, _ in kept} | {f"{self._started_us:016d}"}
        for names in self.directory.glob("*.names.jsonl"):
            if names.name[:16] not in starts:
                names.unlink(missing_ok=True)


class TelemetryWriter:
    """The thread."""

    def __init__(self, telemetry: Telemetry, segments: SegmentWriter, clock: Callable[[], float] = monotonic) -> None:
        self.lost = 0
        """Records that the disk did not take."""
        self.failing: str | None = None
        """Why it takes none, while it does not."""
        self._telemetry = telemetry
        self._segments = segments
        self._clock = clock
        self._retry_at = 0.0
        self._unnamed: list[dict[str, object]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plait-telemetry", daemon=True)

    def start(self) -> None:
        """Write from now on; OSError when the directory cannot be made."""
        self._segments.open()
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, seal it, and end. It waits for the disk."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(WAKE_S):
            self._turn()
        self._turn()
        try:
            self._segments.seal()
        except OSError as error:
            log.warning("telemetry: the last segment stays without a seal: %s", error.strerror)

    def _turn(self) -> None:
        """Write what has come since the last."""
        ring = self._telemetry.ring
        end = ring.written  # the loop goes on meanwhile
        self._write_some(ring)
        while ring.taken < end:
            self._write_some(ring)

    def _write_some(self, ring: Records) -> None:
        now = self._clock()
        pieces = ring.filled()
        records = sum(map(len, pieces)) // RECORD_BYTES
        try:
            self._attempt(pieces, now)
            self.failing = None
        except OSError as error:
            self.lost += records
            self._refused(error, now)
        for piece in pieces:
            piece.release()
        ring.release(records)

    def _attempt(self, pieces: list[memoryview], now: float) -> None:
        if now < self._retry_at:
            raise OSError(None, self.failing or "the disk refused")
        names = self._telemetry.names
        for _ in range(len(names)):  # the loop may append meanwhile
            self._unnamed.append(names.popleft())
        if self._unnamed:
            self._segments.name(self._unnamed)
            self._unnamed = []
        if pieces:
            self._segments.write(pieces, now)
        self._segments.tick(now)

    def _refused(self, error: OSError, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = now + RETRY_S
            if self.failing is None:
                log.warning("telemetry cannot be written, and is lost: %s", error.strerror)
        self.failing = error.strerror or "the disk refused"
        self._segments.abandon()
