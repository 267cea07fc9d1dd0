"""Records as Arrow batches: slices of segments in, columns out, the same for both engines.

Ids become signed (no engine has unsigned ones everywhere), and each record gets its bucket, so that no engine's own
logarithm decides about it. Slices are packed into as many parts as there are workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from .columns import EVER, FIELDS, Columns, Slice, chunks, length
from .counts import COUNTED, buckets_of, counted, merged_batch, wide
from .event_fragments import PIECED_FIELDS, fragments_of
from .inventory import SegmentFile

SLICE_RECORDS: Final = 1 << 18
"""16 MiB of a segment: small enough that as many parts as there are cores are about equal."""

BATCH_RECORDS: Final = 65_536
"""4 MiB of a segment at once: large enough that the cost of a batch vanishes, small enough for a cache."""

COUNTED_RECORDS: Final = 1 << 16
"""Counted at once: the more, the fewer rows are left to add up; the fewer, the more of it a core's cache holds."""

PIECED_RECORDS: Final = 1 << 18
"""16 MiB looked at together for single events: the fewer of these are cut in two, the fewer rows there are."""

HELD_ROWS_MAX: Final = 1 << 17
"""Rows of counts that a worker holds back to add up."""

_LONG: Final = {"ts_us", "published_us", "publisher", "sequence", "subject", "delay_us", "bound_us", "bytes", "items"}
_RENAMED: Final = {"size": "bytes", "count": "items"}
"""What other names SQL has for them."""

COLUMNS: Final = ("broker", *(_RENAMED.get(name, name) for name in FIELDS), "bucket")
_FIELDS: Final = {column: name for name, column in _RENAMED.items()}
_BUCKET: Final = ("kind", "delay_us", "count")
"""What a bucket is computed from."""
SCHEMA: Final = pa.schema([(name, pa.int64() if name in _LONG or name == "broker" else pa.int32()) for name in COLUMNS])
WEIGHTS: Final = pa.schema([SCHEMA.field("weight")])


def slices_of(
    segments: Iterable[SegmentFile], records_max: int = SLICE_RECORDS, between: tuple[int, int] = EVER
) -> list[Slice]:
    """All records of these segments, of some time. A compacted file is one: its columns are read as a whole."""
    return [
        Slice(
            segment.path,
            segment.header.broker,
            segment.header.version,
            first,
            segment.records if segment.compacted else min(records_max, segment.records - first),
            *between,
        )
        for segment in segments
        for first in range(0, segment.records, segment.records if segment.compacted else records_max)
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
    for records, broker in chunks(slices, BATCH_RECORDS, fields_of(schema.names)):
        yield batch_of(records, broker, schema)


def read_counts(slices: Iterable[Slice], window_us: int) -> Iterator[pa.RecordBatch]:
    """The records counted: a chunk, then chunks together, so that few rows leave the worker."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for records, broker in chunks(slices, COUNTED_RECORDS, COUNTED):
        for batch in counted(records, broker, window_us):
            held.append(batch)
            rows += batch.num_rows
        if rows > HELD_ROWS_MAX:
            held = [merged_batch(held)]
            if held[0].num_rows > HELD_ROWS_MAX // 2:
                yield from held
                held = []
            rows = sum(batch.num_rows for batch in held)
    if held:
        yield merged_batch(held)


def read_pieces(slices: Iterable[Slice], weight: int) -> Iterator[pa.RecordBatch]:
    """What the records say of single events, of those that a sampling of one of `weight` keeps."""
    for records, broker in chunks(slices, PIECED_RECORDS, PIECED_FIELDS):
        yield from fragments_of(records, broker, weight)


def read_weights(slices: Iterable[Slice]) -> Iterator[pa.RecordBatch]:
    """The greatest weight of each chunk: how the broker that kept the fewest records has sampled."""
    for records, _ in chunks(slices, BATCH_RECORDS, ["weight"]):
        yield pa.RecordBatch.from_arrays([pa.array([int(records["weight"].max())], pa.int32())], schema=WEIGHTS)


def batch_of(records: Columns, broker: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Records as columns: those of the schema."""
    arrays = []
    for field in schema:
        if field.name == "broker":
            column = np.full(length(records), np.uint64(broker).astype(np.int64))
        elif field.name == "bucket":
            column = buckets_of(*(wide(records[name]) for name in _BUCKET))
        else:
            column = records[_FIELDS.get(field.name, field.name)]
        column = column.view(np.int64) if column.dtype == np.uint64 else column
        arrays.append(pa.array(column.astype(np.int64 if field.type == pa.int64() else np.int32, copy=False)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fields_of(columns: Iterable[str]) -> set[str]:
    """What has to be read for these."""
    found = {_FIELDS.get(name, name) for name in columns}
    found |= set(_BUCKET) if "bucket" in found else {"kind"}  # of something, so that they have a length
    return found - {"broker", "bucket"}
