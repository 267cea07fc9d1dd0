"""Records as columns: slices of segments or of compacted files, in chunks for numpy.

A segment is read in blocks that fit a core's cache while its fields are separated. It is read, not mapped: truncating a
mapped file would kill the process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from plait_core.telemetry import RECORD_BYTES, SEGMENT_HEADER_BYTES, record_dtype

Columns = dict[str, np.ndarray]
"""Columns by field name, as narrow as they are written, all of one length."""

FIELDS: Final = tuple(record_dtype().names or ())

BLOCK_RECORDS: Final = 4_096
"""Records of a block, 256 KiB: read at once and scanned once for each field."""

EVER: Final = (-(1 << 63), (1 << 63) - 1)
"""The range of time that includes all records."""


class Slice(NamedTuple):
    """Some records of one segment or compacted file, restricted to a range of time."""

    path: str
    broker: int
    version: int
    first: int
    records: int
    from_us: int = EVER[0]
    to_us: int = EVER[1]


def chunks(slices: Iterable[Slice], most: int, fields: Collection[str] = FIELDS) -> Iterator[tuple[Columns, int]]:
    """Yield chunks of at most `most` records with their broker's id. Only the requested fields are read.

    A segment that its broker deleted meanwhile yields nothing.
    """
    for piece in slices:
        dated = (piece.from_us, piece.to_us) != EVER
        needed = [name for name in FIELDS if name in fields or (dated and name == "ts_us")]
        read = _of_parquet if piece.path.endswith(".parquet") else _of_segment
        try:
            for columns in read(piece, most, needed):
                if dated:
                    times = columns["ts_us"]
                    columns = of_those(columns, (times >= piece.from_us) & (times < piece.to_us))
                if length(columns):
                    yield columns, piece.broker
        except FileNotFoundError:
            continue


def length(columns: Columns) -> int:
    """Return the number of records."""
    return len(next(iter(columns.values())))


def of_those(columns: Columns, which: np.ndarray) -> Columns:
    """Return the records that a mask selects."""
    return columns if which.all() else {name: column[which] for name, column in columns.items()}


def _of_segment(piece: Slice, most: int, needed: Collection[str]) -> Iterator[Columns]:
    dtype = record_dtype(piece.version)
    block = np.empty(BLOCK_RECORDS, dtype)
    into = block.view(np.uint8).data
    with open(piece.path, "rb", buffering=0) as file:
        file.seek(SEGMENT_HEADER_BYTES + piece.first * RECORD_BYTES)
        for first in range(0, piece.records, most):
            count = min(most, piece.records - first)
            columns = {name: np.empty(count, dtype[name]) for name in needed}
            done = 0
            while done < count:
                here = min(BLOCK_RECORDS, count - done)
                count_read = file.readinto(into[: here * RECORD_BYTES]) // RECORD_BYTES
                for name, column in columns.items():
                    column[done : done + count_read] = block[name][:count_read]
                done += count_read
                if count_read < here:  # truncated: by hand, or by a disk that loses data
                    yield {name: column[:done] for name, column in columns.items()}
                    return
            yield columns


def _of_parquet(piece: Slice, most: int, needed: Collection[str]) -> Iterator[Columns]:
    dtype = record_dtype(piece.version)
    with pq.ParquetFile(piece.path) as file:
        whole = _constants(file.metadata, piece.records, needed)
        table = file.read(columns=[name for name in needed if name not in whole], use_threads=False)
    for name in table.column_names:
        whole[name] = table[name].slice(piece.first, piece.records).to_numpy()
    for name, column in whole.items():
        narrow = dtype[name]
        whole[name] = column.view(narrow) if column.itemsize == narrow.itemsize else column.astype(narrow)
    for first in range(0, piece.records, most):
        yield {name: column[first : first + most] for name, column in whole.items()}


def _constants(metadata: pq.FileMetaData, records: int, needed: Collection[str]) -> Columns:
    """Return columns whose value is constant by the file's statistics: they need not be read."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    found = {}
    for place, name in enumerate(metadata.schema.names):
        statistics = [group.column(place).statistics for group in groups] if name in needed else []
        ends = {end for each in statistics if each and each.has_min_max for end in (each.min, each.max)}
        if len(ends) == 1 and all(each and each.null_count == 0 for each in statistics):
            found[name] = np.full(records, ends.pop())
    return found
