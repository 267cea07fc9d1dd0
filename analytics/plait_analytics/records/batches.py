"""Records as Arrow batches, for both engines.

Ids become signed, since unsigned ones are not available in every engine. Each record gets its bucket here, so that it
does not depend on an engine's logarithm. Slices are packed into as many parts as there are workers.
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
"""Records of a slice, 16 MiB: small enough that one part for each core is about equally large."""

BATCH_RECORDS: Final = 65_536
"""Records of a batch, 4 MiB: large enough to amortise the cost of a batch, small enough for a cache."""

COUNTED_RECORDS: Final = 1 << 16
"""Records counted at once: more leave fewer rows to add up, fewer fit a core's cache."""

PIECED_RECORDS: Final = 1 << 18
"""Records examined together for single events, 16 MiB: larger chunks split fewer events."""

HELD_ROWS_MAX: Final = 1 << 17
"""Rows of counts that a worker merges before it emits them."""

_LONG: Final = {"ts_us", "published_us", "publisher", "sequence", "subject", "delay_us", "bound_us", "bytes", "items"}
_RENAMED: Final = {"size": "bytes", "count": "items"}
"""SQL names of fields whose own names are SQL keywords or functions."""

COLUMNS: Final = ("broker", *(_RENAMED.get(name, name) for name in FIELDS), "bucket")
_FIELDS: Final = {column: name for name, column in _RENAMED.items()}
_BUCKET: Final = ("kind", "delay_us", "count")
"""The fields that a bucket is computed from."""
SCHEMA: Final = pa.schema([(name, pa.int64() if name in _LONG or name == "broker" else pa.int32()) for name in COLUMNS])
WEIGHTS: Final = pa.schema([SCHEMA.field("weight")])


def slices_of(
    segments: Iterable[SegmentFile], records_max: int = SLICE_RECORDS, between: tuple[int, int] = EVER
) -> list[Slice]:
    """Return slices of all records of these segments in a range of time. A compacted file is one slice."""
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
    """Distribute slices over `parts` parts of about as many records, in order."""
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
    """Yield the records of slices in batches."""
    schema = pa.schema([SCHEMA.field(name) for name in columns])
    for records, broker in chunks(slices, BATCH_RECORDS, fields_of(schema.names)):
        yield batch_of(records, broker, schema)


def read_counts(slices: Iterable[Slice], window_us: int) -> Iterator[pa.RecordBatch]:
    """Yield partial counts of slices, merged over chunks so that few rows leave the worker."""
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
    """Yield event fragments of slices, for the events that a sampling of one in `weight` keeps."""
    for records, broker in chunks(slices, PIECED_RECORDS, PIECED_FIELDS):
        yield from fragments_of(records, broker, weight)


def read_weights(slices: Iterable[Slice]) -> Iterator[pa.RecordBatch]:
    """Yield the greatest weight of each chunk: the sampling of the broker that kept the fewest records."""
    for records, _ in chunks(slices, BATCH_RECORDS, ["weight"]):
        yield pa.RecordBatch.from_arrays([pa.array([int(records["weight"].max())], pa.int32())], schema=WEIGHTS)


def batch_of(records: Columns, broker: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Return records as an Arrow batch with the columns of the schema."""
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
    """Return the record fields that these columns need."""
    found = {_FIELDS.get(name, name) for name in columns}
    found |= set(_BUCKET) if "bucket" in found else {"kind"}  # one column at least, so that the length is known
    return found - {"broker", "bucket"}
