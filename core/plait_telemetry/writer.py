"""Write a broker's records to segments, in a thread of its own, so that the loop never waits for the disk.

DIR/broker-NAME/START-NUMBER.seg are the segments, START.names.jsonl has the names of ids in them, and schema-1.json
describes their layout. A segment is appended to, sealed with its checksum when it is large or old enough, and deleted,
the oldest first, when all together exceed their budget. Records that the disk refuses are dropped and counted.
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
"""Seconds between two reads of the ring: the delay of readers of a live segment. The ring holds many times as much."""

RETRY_S: Final = 5.0
"""Seconds between attempts after the disk refused: a full disk is not retried at every turn."""

CLASHES_MAX: Final = 1000
"""Numbers tried for a new segment's file before giving up."""

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SegmentLimits:
    """The size and age at which a segment ends, and the space for all of them."""

    bytes_max: int = 64 << 20
    """A million records: one partition's worth of work for an analysis."""
    age_s_max: float = 60.0
    """A quiet broker's records are thereby sealed, and can be compacted, within a minute."""
    budget_bytes: int = 4 << 30
    """Space of all segments of a broker: an hour and a half at the highest rate that is not sampled."""


class SegmentWriter:
    """One open segment after the other. Methods block, and raise OSError."""

    def __init__(
        self, directory: Path, broker: int, started_us: int, limits: SegmentLimits, readers: Readers | None = None
    ) -> None:
        """`readers`: the progress of remote readers."""
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
        """Create the directory, with the schema in it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        schema = self.directory / f"schema-{SCHEMA_VERSION}.json"
        schema.write_text(json.dumps(schema_document(), indent=1) + "\n")

    def write(self, pieces: list[memoryview], now: float) -> None:
        """Append records."""
        if self._file is not None and not os.fstat(self._file.fileno()).st_nlink:
            self.abandon()  # the file was deleted, perhaps with its directory
        if self._file is None:
            self._begin(now)
        file = self._file
        assert file is not None, "_begin has just opened it"
        for piece in pieces:
            assert not len(piece) % RECORD_BYTES
            self._append(file, piece)
        if self._bytes >= self.limits.bytes_max:
            self.seal()

    def name(self, names: list[dict[str, object]]) -> None:
        """Append names of ids. This precedes the records that contain the ids."""
        if not self.directory.is_dir():
            self.open()
        with self._names.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(name) + "\n" for name in names))

    def tick(self, now: float) -> None:
        """Seal the segment if it is old enough."""
        if self._file is not None and now - self._opened_at >= self.limits.age_s_max:
            self.seal()

    def seal(self) -> None:
        """Seal and close the segment. The next record begins another."""
        file, self._file = self._file, None
        if file is None:
            return
        with file:
            records = self._bytes // RECORD_BYTES - 1
            self._write_all(file, Seal(records, self._checksum).pack())
        self._keep_budget()

    def abandon(self) -> None:
        """Close the segment without a seal, after a failed write. Its whole records stay readable."""
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
        """Write all bytes. A nearly full disk first accepts a part, and refuses then."""
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) or 0 :]

    def _keep_budget(self) -> None:
        """Delete segments until they fit the budget: first those that all readers have read, then the oldest.

        Then delete the names of ids that no segment contains.
        """
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
    """The writer thread."""

    def __init__(self, telemetry: Telemetry, segments: SegmentWriter, clock: Callable[[], float] = monotonic) -> None:
        self.lost = 0
        """Records that the disk refused."""
        self.failing: str | None = None
        """The reason why writing fails now, or None."""
        self._telemetry = telemetry
        self._segments = segments
        self._clock = clock
        self._retry_at = 0.0
        self._unwritten_names: list[dict[str, object]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plait-telemetry", daemon=True)

    def start(self) -> None:
        """Start the thread; raise OSError if the directory cannot be created."""
        self._segments.open()
        self._thread.start()

    def stop(self) -> None:
        """Write all records, seal the segment, and end the thread. This waits for the disk."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(WAKE_S):
            self._turn()
        self._turn()
        try:
            self._segments.seal()
        except OSError as error:
            log.warning("telemetry: the last segment has no seal: %s", error.strerror)

    def _turn(self) -> None:
        """Write the records since the last turn."""
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
            self._unwritten_names.append(names.popleft())
        if self._unwritten_names:
            self._segments.name(self._unwritten_names)
            self._unwritten_names = []
        if pieces:
            self._segments.write(pieces, now)
        self._segments.tick(now)

    def _refused(self, error: OSError, now: float) -> None:
        if now >= self._retry_at:
            self._retry_at = now + RETRY_S
            if self.failing is None:
                log.warning("telemetry cannot be written; records are lost: %s", error.strerror)
        self.failing = error.strerror or "the disk refused"
        self._segments.abandon()
