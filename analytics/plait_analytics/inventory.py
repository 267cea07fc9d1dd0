"""Which segments there are below some directories, and which of them can be read.

A torn tail is no finding: its broker has not finished writing, or died. A segment that is damaged, foreign, of a future
version or a copy of another is left out and reported by name; it never stops the analysis of the others.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from plait_core.telemetry import (
    RECORD_BYTES,
    SCHEMAS,
    SEGMENT_HEADER_BYTES,
    SegmentError,
    SegmentHeader,
    parse_seal,
    parse_segment_name,
)

CHUNK_BYTES: Final = 1 << 20
"""Read at once while checksums are computed: memory stays small, however large a segment is."""


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment that can be read."""

    path: str
    header: SegmentHeader
    records: int
    sealed: bool

    @property
    def identity(self) -> tuple[int, int, int]:
        """The same for every copy of it."""
        return self.header.started_us, self.header.broker, self.header.number


@dataclass(frozen=True, slots=True)
class Finding:
    """A file that is left out."""

    path: str
    why: str


@dataclass(slots=True)
class Inventory:
    """What there is, in the order of writing."""

    segments: list[SegmentFile] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    def digest(self) -> str:
        """The same for the same records: what was computed from them need not be computed again."""
        checksum = 0
        for segment in self.segments:
            checksum = zlib.crc32(repr((segment.identity, segment.records)).encode(), checksum)
        return f"{checksum:08x}-{self.records}"


def take_inventory(directories: Iterable[Path | str], *, verify: bool = True) -> Inventory:
    """Look through directories and all below them. `verify`: compare sealed segments with their checksums."""
    found = Inventory()
    best: dict[tuple[int, int, int], SegmentFile] = {}
    for path in sorted(_candidates(directories, found)):
        try:
            segment = examine(path, verify=verify)
        except SegmentError as error:
            found.findings.append(Finding(path, error.message))
            continue
        except OSError as error:
            found.findings.append(Finding(path, error.strerror or "it cannot be read"))
            continue
        known = best.get(segment.identity)
        if known is None:
            best[segment.identity] = segment
            continue
        longer, copy = (segment, known) if segment.records > known.records else (known, segment)
        best[segment.identity] = longer
        found.findings.append(Finding(copy.path, f"it is a copy of {longer.path}"))
    found.segments = [best[identity] for identity in sorted(best)]
    return found


def _candidates(directories: Iterable[Path | str], found: Inventory) -> Iterator[str]:
    for directory in directories:
        if not os.path.isdir(directory):
            found.findings.append(Finding(str(directory), "it is no directory"))
            continue
        for home, _, names in os.walk(directory):
            yield from (os.path.join(home, name) for name in names if parse_segment_name(name) is not None)


def examine(path: str, *, verify: bool = True) -> SegmentFile:
    """A segment as it is now; SegmentError when it cannot be read. `verify`: compare its checksum, if it is sealed."""
    with open(path, "rb") as file:
        header = SegmentHeader.parse(file.read(SEGMENT_HEADER_BYTES))
        if header.version not in SCHEMAS:
            raise SegmentError(f"it is of schema version {header.version}, and {max(SCHEMAS)} is the last known here")
        size = os.fstat(file.fileno()).st_size
        records = size // RECORD_BYTES - 1
        if not records:
            return SegmentFile(path, header, 0, sealed=False)
        file.seek(records * RECORD_BYTES)
        seal = parse_seal(file.read(RECORD_BYTES))
        if seal is None:
            return SegmentFile(path, header, records, sealed=False)
        if seal.records != records - 1 or size % RECORD_BYTES:
            raise SegmentError(f"its seal says {seal.records:,} records, and it has {records - 1:,}")
        if verify:
            file.seek(0)
            if _checksum(file, records * RECORD_BYTES) != seal.checksum:
                raise SegmentError("its checksum is wrong: it is damaged")
        return SegmentFile(path, header, records - 1, sealed=True)


def _checksum(file: BinaryIO, left: int) -> int:
    checksum = 0
    while left:
        data = file.read(min(CHUNK_BYTES, left))
        if not data:
            break
        checksum = zlib.crc32(data, checksum)
        left -= len(data)
    return checksum
