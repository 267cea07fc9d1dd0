"""The inventory: which segments exist below some directories, and which of them can be read.

A truncated tail is accepted: its broker is still writing, or died. A segment that is damaged, foreign, of a later
version or a copy is skipped and reported; the others are analysed.
"""

from __future__ import annotations

import json
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
from plait_core.values import Json

CHUNK_BYTES: Final = 1 << 20
"""Bytes read at once for a checksum, which bounds memory for segments of any size."""

CATALOGUE: Final = "records.json"
"""The file beside compacted records that lists the valid files and the segments in them."""
CATALOGUE_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A readable segment, or a Parquet file of compacted segments."""

    path: str
    header: SegmentHeader
    records: int
    sealed: bool
    compacted: bool = False

    @property
    def identity(self) -> tuple[int, int, int]:
        """Return a key that is equal for all copies of a segment."""
        return self.header.started_us, self.header.broker, self.header.number


@dataclass(frozen=True, slots=True)
class Finding:
    """A skipped file."""

    path: str
    why: str


@dataclass(slots=True)
class Inventory:
    """The readable segments, in the order of writing."""

    segments: list[SegmentFile] = field(default_factory=list)
    between: tuple[int, int] | None = None
    """The range of time to analyse, in microseconds, without its end."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(segment.records for segment in self.segments)

    def digest(self) -> str:
        """Return a digest that is equal for equal records, so that an analysis need not be repeated."""
        checksum = zlib.crc32(repr(self.between).encode()) if self.between is not None else 0
        for segment in self.segments:
            checksum = zlib.crc32(repr((segment.identity, segment.records)).encode(), checksum)
        return f"{checksum:08x}-{self.records}"


def take_inventory(directories: Iterable[Path | str], *, verify: bool = True) -> Inventory:
    """Search directories recursively. `verify`: check the checksums of sealed segments."""
    found = Inventory()
    best: dict[tuple[int, int, int], SegmentFile] = {}
    compacted: set[tuple[int, int, int]] = set()
    for path in sorted(_candidates(directories, found)):
        if path.endswith(CATALOGUE):
            files, inside = _compacted(Path(path).parent)
            found.segments += files
            compacted |= inside
            continue
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
    found.segments += [best[identity] for identity in sorted(best) if identity not in compacted]
    found.segments.sort(key=lambda segment: (segment.identity, segment.path))
    return found


def _candidates(directories: Iterable[Path | str], found: Inventory) -> Iterator[str]:
    for directory in directories:
        if not os.path.isdir(directory):
            found.findings.append(Finding(str(directory), "it is no directory"))
            continue
        for home, _, names in os.walk(directory):
            yield from (os.path.join(home, name) for name in names if _ours(name))


def _ours(name: str) -> bool:
    return name == CATALOGUE or parse_segment_name(name) is not None


def read_catalogue(directory: Path) -> Json | None:
    """Return the catalogue of compacted records, or None without one."""
    try:
        found = json.loads((directory / CATALOGUE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(found, dict) and found.get("format") == CATALOGUE_FORMAT
    return found if ours else None


def _compacted(directory: Path) -> tuple[list[SegmentFile], set[tuple[int, int, int]]]:
    """Return the files of compacted records, and the identities of the segments in them."""
    catalogue = read_catalogue(directory) or {"files": [], "segments": {}}
    files = [
        SegmentFile(
            str(directory / file["path"]),
            SegmentHeader(int(file["broker"], 16), file["started_us"], file["number"], file["version"]),
            file["records"], sealed=True, compacted=True,
        )
        for file in catalogue["files"]
    ]  # fmt: skip
    inside = set()
    for shard, numbers in catalogue["segments"].items():
        broker, started_us = int(shard[:16], 16), int(shard[17:])
        inside |= {(started_us, broker, number) for number in numbers}
    return files, inside


def examine(path: str, *, verify: bool = True) -> SegmentFile:
    """Examine a segment. Raise SegmentError if it cannot be read. `verify`: check its checksum if it is sealed."""
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
            raise SegmentError(f"its seal counts {seal.records:,} records, the file has {records - 1:,}")
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
