"""Compaction: segments become Parquet files by day and hour, a fifth of the size, then roll-ups; old files are deleted.

OUT/records/date=DAY/hour=HOUR/SHARD-FIRST-LAST.parquet holds records. OUT/records.json, replaced in one step, lists the
valid files and the segments in them, so a segment is either compacted or not. Analyses that get OUT read these files
instead of the segments. OUT/rollups/WIDTH/date=DAY/*.parquet holds counts of wider windows, each width computed from
the one before, and kept longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plait_core.telemetry import SCHEMA_VERSION
from plait_core.values import Json

from ..tables.derive_tables import merged
from ..tables.lake import parquet_of, replace
from ..tables.presentation import ids_of, presented
from .batches import read_counts, slices_of
from .columns import FIELDS, chunks, length, of_those
from .counts import SCHEMA as COUNTS
from .counts import wide
from .id_names import names_file
from .inventory import CATALOGUE, CATALOGUE_FORMAT, Inventory, SegmentFile, read_catalogue

FILE_RECORDS: Final = 1 << 20
"""Records of a file, about: many small segments of a slow broker become one file."""

WIDTHS_US: Final = {"10s": 10_000_000, "1min": 60_000_000, "1h": 3_600_000_000}
"""Widths of roll-ups; each is computed from the one before."""

KEPT_DAYS: Final = {"10s": 7, "1min": 90, "1h": 3_650}


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    segments: int
    records: int
    files: int
    forgotten: int


def compact(
    inventory: Inventory, out: Path, *, keep_days: int = 30, now: datetime, delete: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Compacted:  # fmt: skip
    """Compact sealed segments that are not in OUT yet. Delete records of days that ended more than `keep_days` ago."""
    catalogue = read_catalogue(out) or {"format": CATALOGUE_FORMAT, "files": [], "segments": {}}
    known = {(shard, number) for shard, numbers in catalogue["segments"].items() for number in numbers}
    fresh = [
        segment
        for segment in inventory.segments
        if segment.sealed and not segment.compacted and (shard_of(segment), segment.header.number) not in known
    ]
    records = made = 0
    for group in _groups(fresh):
        files = list(_written(group, out))
        _roll_up(group, out)
        _keep_names(group[0], out)
        catalogue["files"] += files
        numbers = catalogue["segments"].setdefault(shard_of(group[0]), [])
        numbers += [segment.header.number for segment in group]
        replace(out / CATALOGUE, json.dumps(catalogue).encode())
        if delete:
            for segment in group:
                Path(segment.path).unlink(missing_ok=True)
        records += sum(segment.records for segment in group)
        made += len(files)
        report(f"{records:,} records in {made:,} files")
    return Compacted(len(fresh), records, made, _forget(out, catalogue, keep_days, now))


def shard_of(segment: SegmentFile) -> str:
    """Return the name of a shard: one incarnation of one broker."""
    return f"{segment.header.broker:016x}-{segment.header.started_us:016d}"


def rollup(out: Path, width: str) -> pa.Table:
    """Return all stored counts of windows of a width."""
    parts = [_read(path) for path in sorted((out / "rollups" / width).glob("date=*/*.parquet"))]
    return merged(pa.concat_tables(parts), WIDTHS_US[width]) if parts else COUNTS.empty_table()


def _groups(segments: list[SegmentFile]) -> Iterator[list[SegmentFile]]:
    group: list[SegmentFile] = []
    for segment in sorted(segments, key=lambda segment: (shard_of(segment), segment.header.number)):
        if group and (
            shard_of(group[0]) != shard_of(segment)
            or sum(held.records for held in group) + segment.records > FILE_RECORDS
        ):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _written(group: list[SegmentFile], out: Path) -> Iterator[Json]:
    pieces = [records for records, _ in chunks(slices_of(group), FILE_RECORDS)]
    if not pieces:
        return
    records = {name: np.concatenate([piece[name] for piece in pieces]) for name in FIELDS}
    hours = records["ts_us"] // 3_600_000_000
    name = f"{shard_of(group[0])}-{group[0].header.number:06d}-{group[-1].header.number:06d}"
    for hour in np.unique(hours).tolist():
        mine = of_those(records, hours == hour)
        path = Path("records") / _place(hour * 3_600_000_000) / f"{name}.parquet"
        columns = {name: wide(column) if column.dtype == np.uint64 else column for name, column in mine.items()}
        columns["broker"] = np.full(length(mine), np.uint64(group[0].header.broker).astype(np.int64))
        replace(out / path, parquet_of(pa.table(columns)))
        yield {
            "path": str(path),
            "broker": f"{group[0].header.broker:016x}",
            "started_us": group[0].header.started_us,
            "number": group[0].header.number,
            "records": length(mine),
            "version": SCHEMA_VERSION,
            "hour": int(hour),
        }


def _keep_names(segment: SegmentFile, out: Path) -> None:
    """Copy the dictionary of ids as it is now."""
    names = names_file(segment)
    if names.is_file():
        replace(out / "names" / f"{shard_of(segment)}.names.jsonl", names.read_bytes())


def _place(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1_000_000, UTC).strftime("date=%Y-%m-%d/hour=%H")


def _roll_up(group: list[SegmentFile], out: Path) -> None:
    """Write roll-ups: the narrowest from records, each wider one from the one before. Repeating this changes
    nothing."""
    width_us = WIDTHS_US["10s"]
    counts = merged(pa.Table.from_batches(read_counts(slices_of(group), width_us), COUNTS), width_us)
    name = f"{shard_of(group[0])}-{group[0].header.number:06d}"
    for width, wide_us in WIDTHS_US.items():
        counts = merged(counts, wide_us)
        days = counts["window_us"].to_numpy() // 86_400_000_000
        for day in np.unique(days).tolist():
            part = counts.filter(pa.array(days == day))
            path = out / "rollups" / width / _place(day * 86_400_000_000).partition("/")[0] / f"{name}.parquet"
            replace(path, parquet_of(presented("counts", part)))


def _read(path: Path) -> pa.Table:
    return ids_of(pq.read_table(path, partitioning=None))


def _forget(out: Path, catalogue: Json, keep_days: int, now: datetime) -> int:
    """Delete old records, first from the catalogue and then from the disk, and old roll-ups. Return the files
    deleted."""
    oldest = int((now - timedelta(days=keep_days)).timestamp()) // 3600
    expired = [file for file in catalogue["files"] if file["hour"] < oldest]
    if expired:
        catalogue["files"] = [file for file in catalogue["files"] if file["hour"] >= oldest]
        replace(out / CATALOGUE, json.dumps(catalogue).encode())
        for file in expired:
            (out / file["path"]).unlink(missing_ok=True)
    for width, days in KEPT_DAYS.items():
        first = (now - timedelta(days=days)).strftime("date=%Y-%m-%d")
        for directory in (out / "rollups" / width).glob("date=*"):
            if directory.name < first:
                _remove(directory.iterdir(), directory)
    return len(expired)


def _remove(files: Iterable[Path], directory: Path) -> None:
    for file in files:
        file.unlink(missing_ok=True)
    directory.rmdir()
