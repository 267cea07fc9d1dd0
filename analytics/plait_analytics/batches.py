"""Records as Arrow batches: slices of segments in, columns out, the same for both engines.

Ids become signed (no engine has unsigned ones everywhere), and each record gets its bucket, so that no engine's own
logarithm decides about it. Slices are packed into as many parts as there are workers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from plait_core.telemetry import RECORD_BYTES, SEGMENT_HEADER_BYTES, record_dtype

from .counts import buckets_of, counted, merged_batch
from .inventory import SegmentFile
from .pieces import pieces_of

BATCH_RECORDS: Final = 65_536
"""4 MiB of a segment at once: large enough that the cost of a batch vanishes, small enough for a cache."""

COUNTED_RECORDS: Final = 1 << 15
"""2 MiB counted at once: what a core's own cache holds."""

PIECED_RECORDS: Final = 1 << 18
"""16 MiB looked at together for single events: the fewer of these are cut in two, the fewer rows there are."""

HELD_ROWS_MAX: Final = 1 << 17
"""Rows of counts that a worker holds back to add up."""

_COUNTED: Final = frozenset(record_dtype().names or ()) - {"published_us", "sequence", "hops"}
"""Fields that counts are made of."""

EVER: Final = (-(1 << 63), (1 << 63) - 1)
"""From when to before when, where nobody says."""

_LONG: Final = {"ts_us", "published_us", "publisher", "sequence", "subject", "delay_us", "bound_us", "bytes", "items"}
_RENAMED: Final = {"size": "bytes", "count": "items"}
"""What other names SQL has for them."""

COLUMNS: Final = ("broker", *(_RENAMED.get(name, name) for name in record_dtype().names or ()), "bucket")
_FIELDS: Final = {column: name for name, column in _RENAMED.items()}
SCHEMA: Final = pa.schema([(name, pa.int64() if name in _LONG or name == "broker" else pa.int32()) for name in COLUMNS])


class Slice(NamedTuple):
    """Some records of one segment, or of one file of compacted ones; of these, those of some time."""

    path: str
    broker: int
    version: int
    first: int
    records: int
    from_us: int = EVER[0]
    to_us: int = EVER[1]


def slices_of(
    segments: Iterable[SegmentFile], records_max: int = 1 << 20, between: tuple[int, int] = EVER
) -> list[Slice]:
    """All records of these segments, of some time."""
    return [
        Slice(
            segment.path,
            segment.header.broker,
            segment.header.version,
            first,
            min(records_max, segment.records - first),
            *between,
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
    for records, broker in chunks(slices, BATCH_RECORDS):
        yield batch_of(records, broker, schema)


def read_counts(slices: Iterable[Slice], window_us: int) -> Iterator[pa.RecordBatch]:
    """The records counted: a chunk, then chunks together, so that few rows leave the worker."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for records, broker in chunks(slices, COUNTED_RECORDS, _COUNTED):
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


def read_pieces(slices: Iterable[Slice]) -> Iterator[pa.RecordBatch]:
    """What the records say of single events."""
    for records, broker in chunks(slices, PIECED_RECORDS):
        yield from pieces_of(records, broker)


def chunks(
    slices: Iterable[Slice], most: int, fields: Collection[str] | None = None
) -> Iterator[tuple[np.ndarray, int]]:
    """Records as they lie in files. A segment that its broker has deleted meanwhile has none any more."""
    for piece in slices:
        try:
            records = _compacted(piece, fields) if piece.path.endswith(".parquet") else _mapped(piece)
        except FileNotFoundError:
            continue
        for first in range(0, len(records), most):
            chunk = np.asarray(records[first : first + most])
            if (piece.from_us, piece.to_us) != EVER:
                chunk = chunk[(chunk["ts_us"] >= piece.from_us) & (chunk["ts_us"] < piece.to_us)]
            if len(chunk):
                yield chunk, piece.broker


def _mapped(piece: Slice) -> np.ndarray:
    offset, dtype = SEGMENT_HEADER_BYTES + piece.first * RECORD_BYTES, record_dtype(piece.version)
    return np.memmap(piece.path, dtype=dtype, mode="r", offset=offset, shape=(piece.records,))


def _compacted(piece: Slice, fields: Collection[str] | None) -> np.ndarray:
    """Records of a file of columns, as they were; of fields that are not asked for nothing is known."""
    records = np.zeros(piece.records, record_dtype(piece.version))
    wanted = [name for name in records.dtype.names or () if fields is None or name in fields]
    with pq.ParquetFile(piece.path) as file:
        table = file.read(columns=wanted, use_threads=False)
    for name in table.column_names:
        records[name] = table[name].to_numpy()[piece.first : piece.first + piece.records]
    return records


def batch_of(records: np.ndarray, broker: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """Records as columns: those of the schema."""
    arrays = []
    for field in schema:
        if field.name == "broker":
            column = np.full(len(records), np.uint64(broker).astype(np.int64))
        elif field.name == "bucket":
            column = buckets_of(records["kind"], records["delay_us"], records["count"])
        else:
            column = records[_FIELDS.get(field.name, field.name)]
            column = column.view(np.int64) if column.dtype == np.uint64 else column
        kind = np.int64 if field.type == pa.int64() else np.int32
        arrays.append(pa.array(np.ascontiguousarray(column, dtype=kind)))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
