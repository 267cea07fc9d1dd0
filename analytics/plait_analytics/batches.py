"""Records as Arrow batches: slices of segments in, columns out, the same for both engines.

Ids become signed (no engine has unsigned ones everywhere), and each record gets its bucket, so that no engine's own
logarithm decides about it. Slices are packed into as many parts as there are workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from plait_core.telemetry import RECORD_BYTES, SEGMENT_HEADER_BYTES, Kind, record_dtype

from .counts import counted
from .inventory import SegmentFile

BATCH_RECORDS: Final = 65_536
"""4 MiB of a segment at once: large enough that the cost of a batch vanishes, small enough for a cache."""

COUNTED_RECORDS: Final = 1 << 15
"""2 MiB counted at once: what a core's own cache holds."""

_LONG: Final = {"ts_us", "published_us", "publisher", "sequence", "subject", "delay_us", "bound_us", "bytes", "items"}
_RENAMED: Final = {"size": "bytes", "count": "items"}
"""What other names SQL has for them."""

COLUMNS: Final = ("broker", *(_RENAMED.get(name, name) for name in record_dtype().names or ()), "bucket")
_FIELDS: Final = {column: name for name, column in _RENAMED.items()}
SCHEMA: Final = pa.schema([(name, pa.int64() if name in _LONG or name == "broker" else pa.int32()) for name in COLUMNS])


class Slice(NamedTuple):
    """Some records of one segment."""

    path: str
    broker: int
    version: int
    first: int
    records: int


def slices_of(segments: Iterable[SegmentFile], records_max: int = 1 << 20) -> list[Slice]:
    """All records of these segments."""
    return [
        Slice(
            segment.path,
            segment.header.broker,
            segment.header.version,
            first,
            min(records_max, segment.records - first),
        )
        for segment in segments
        for first in range(0, segment.records, records_max)
    ]


def packed(slices: Sequence[Slice], parts: int) -> list[list[Slice]]:
    """The same in so many parts, each with about as many records, in order."""
    assert parts > 0
    share = -(-sum(piece.records for piece in slices) // parts) or 1
    found: list[list[Slice]] = [[]]
    held = 0
    for piece in slices:
        if held >= share and len(found) < parts:
            found.append([])
            held = 0
        found[-1].append(piece)
        held += piece.records
    return found


def read_slices(slices: Iterable[Slice], columns: Iterable[str] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """The records, batch by batch."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    for records, broker in _chunks(slices, BATCH_RECORDS):
        yield batch_of(records, broker, schema)


def read_counts(slices: Iterable[Slice], window_us: int) -> Iterator[pa.RecordBatch]:
    """The records counted, batch by batch."""
    for records, broker in _chunks(slices, COUNTED_RECORDS):
        yield counted(records, broker, buckets_of(records), window_us)


def _chunks(slices: Iterable[Slice], most: int) -> Iterator[tuple[np.ndarray, int]]:
    """A segment that its broker has deleted meanwhile has none any more."""
    for piece in slices:
        offset = SEGMENT_HEADER_BYTES + piece.first * RECORD_BYTES
        dtype = record_dtype(piece.version)
        try:
            records = np.memmap(piece.path, dtype=dtype, mode="r", offset=offset, shape=(piece.records,))
        except FileNotFoundError:
            continue
        for first in range(0, len(records), most):
            yield np.asarray(records[first : first + most]), piece.broker


def batch_of(records: np.ndarray, broker: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Records as columns: those of the schema."""
    arrays = []
    for field in schema:
        if field.name == "broker":
            column = np.full(len(records), np.uint64(broker).astype(np.int64))
        elif field.name == "bucket":
            column = buckets_of(records)
        else:
            column = records[_FIELDS.get(field.name, field.name)]
            column = column.view(np.int64) if column.dtype == np.uint64 else column
        kind = np.int64 if field.type == pa.int64() else np.int32
        arrays.append(pa.array(np.ascontiguousarray(column, dtype=kind)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def buckets_of(records: np.ndarray) -> np.ndarray:
    """Of each record's delay; of a match, of the time for one of its events."""
    delays = records["delay_us"].astype(np.int64)
    matches = records["kind"] == int(Kind.MATCH)
    if matches.any():
        delays[matches] //= np.maximum(records["count"][matches], 1)
    found: np.ndarray = np.floor(8 * np.log2(np.maximum(delays, 1))).astype(np.int32)
    return found
