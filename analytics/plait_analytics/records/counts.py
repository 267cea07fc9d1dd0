"""Counts: one row for each window, broker, kind, entity and bucket, with sums, minima and maxima.

This is the only pass over all records. All tables but those of single events follow from its rows, which are a thousand
times fewer. Rows with one key add up to one row (`MERGING`), across batches, workers, segments and windows, so roll-ups
are made of roll-ups. `counted` computes them with numpy in a worker; `COUNTING` is the equivalent SQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import FULL, LATE, TO_BROKER, RecordKind

from ..tables.sql_dialect import POSTPONED
from .columns import FIELDS, Columns, length, of_those

NONE: Final = 1 << 32
"""The minimum over no values: greater than all values of a record."""

_BUCKETED: Final = (int(RecordKind.DELIVERY), int(RecordKind.LINK), int(RecordKind.MATCH))
_TIMED: Final = np.isin(np.arange(256), _BUCKETED)
_MATCHED: Final = (int(RecordKind.PUBLISH), int(RecordKind.ARRIVAL))
_MARKS: Final = LATE | TO_BROKER | FULL

KEY: Final = ("window_us", "broker", "kind", "entity", "reason", "marks", "bucket", "cell")
SUMS: Final = ("records", "weight", "bytes", "items", "expected", "delay_us", "bound_us", "busy", "bounded")
LEAST: Final = ("delay_min", "bound_min")
MOST: Final = (
    "delay_max", "bound_max", "bytes_max", "items_max", "expected_max", "subject_max", "weight_max", "ts_max"
)  # fmt: skip

COLUMNS: Final = {
    "entity": "the publisher of a publication; 0 for a match or queue; else the record's subject",
    "reason": "the reason of a drop",
    "marks": "the flags for late, for copies instead of deliveries, and for full lanes",
    "bucket": "the delay's bucket; for an event 1 if it matched here, plus 2 if it was sent elsewhere",
    "cell": "the cell of a published event, if there is an event space; else 0",
    "records": "number of records",
    "weight": "number of events that they stand for",
    "bytes": "bytes, weighted like the next two",
    "items": "sum of their counts",
    "expected": "sum of expected deliveries",
    "delay_us": "sum over records",
    "bound_us": "sum over records",
    "busy": "samples with waiting bytes",
    "bounded": "weight of records with a bound",
    "delay_min": "minimum",
    "bound_min": f"minimum over records with a bound, else {NONE}",
    **dict.fromkeys(MOST, "maximum"),
}

_NARROW: Final = {"kind", "reason", "marks", "bucket"}
_NARROW_BITS: Final = 16
"""Bits for each narrow column in a packed key; a record has a byte for each."""
_ONE: Final = np.ones(1, np.int64)
_NOUGHT: Final = np.zeros(1, np.int64)
SCHEMA: Final = pa.schema(
    [(name, pa.int32() if name in _NARROW else pa.int64()) for name in (*KEY, *SUMS, *LEAST, *MOST)]
)

COUNTED: Final = frozenset(FIELDS) - {"published_us", "sequence", "hops"}
"""The record fields that counts are made of."""

_VALUES: Final = (*SUMS, *LEAST, *MOST)
_RARE: Final = int(RecordKind.LINK)
"""Kinds from this one on are samples, a few a second; kinds below it belong to events."""
_OF_RARE: Final = (
    "bound_us", "busy", "delay_min", "delay_max", "bytes_max", "items_max", "expected_max", "subject_max"
)  # fmt: skip
"""Values that only samples have; no table uses them of events."""

_SOURCES: Final = {
    "weight": "weight", "bytes": "bytes * weight", "items": "items * weight", "expected": "expected * weight",
    "delay_us": "delay_us", "bound_us": "bound_us", "busy": "case when bytes > 0 then 1 else 0 end",
    "bounded": "case when bound_us > 0 then weight else 0 end",
    "delay_min": "delay_us", "bound_min": f"case when bound_us > 0 then bound_us else {NONE} end",
    "delay_max": "delay_us", "bound_max": "bound_us", "bytes_max": "bytes", "items_max": "items",
    "expected_max": "expected", "subject_max": "subject", "weight_max": "weight", "ts_max": "ts_us",
    "records": "1",
}  # fmt: skip


def _aggregates(sources: dict[str, str]) -> str:
    terms = [f"cast(sum(cast({sources[name]} as bigint)) as bigint) as {name}" for name in SUMS]
    terms += [f"min(cast({sources[name]} as bigint)) as {name}" for name in LEAST]
    terms += [f"max(cast({sources[name]} as bigint)) as {name}" for name in MOST]
    return ", ".join(terms)


_SOURCES_SAMPLED: Final = {
    name: f"case when kind >= {_RARE} then {source} else 0 end" if name in _OF_RARE else source
    for name, source in _SOURCES.items()
}
_IN: Final = {kinds: f"kind in ({', '.join(map(str, kinds))})" for kinds in (_BUCKETED, _MATCHED)}

COUNTING: Final = f"""
select ts_us - ts_us % {POSTPONED} as window_us, broker, kind,
  case when kind = {int(RecordKind.PUBLISH)} then publisher
    when kind in ({int(RecordKind.MATCH)}, {int(RecordKind.QUEUE)}) then 0 else subject end as entity,
  reason, flags & {_MARKS} as marks,
  case when {_IN[_BUCKETED]} then bucket
    when {_IN[_MATCHED]} then (case when expected > 0 then 1 else 0 end) + (case when items > 0 then 2 else 0 end)
    else 0 end as bucket,
  case when kind = {int(RecordKind.PUBLISH)} then subject else 0 end as cell,
  {_aggregates(_SOURCES_SAMPLED)}
from records group by 1, 2, 3, 4, 5, 6, 7, 8"""
"""SQL over the view `records`."""

MERGING: Final = f"""
select window_us - window_us % {POSTPONED} as window_us, {", ".join(KEY[1:])},
  {_aggregates({name: name for name in (*SUMS, *LEAST, *MOST)})}
from counts group by 1, 2, 3, 4, 5, 6, 7, 8"""
"""SQL over the view `counts`: merge counts into windows of the same or a greater width, one row for each key."""


def counted(records: Columns, broker: int, window_us: int) -> Iterator[pa.RecordBatch]:
    """Yield counts of records of one broker. A key may have several rows, which add up."""
    rare = records["kind"] >= _RARE
    parts = (of_those(records, ~rare), of_those(records, rare)) if rare.any() else (records,)
    for part in parts:
        if length(part):
            yield _counted(part, broker, window_us)


def _counted(records: Columns, broker: int, window_us: int) -> pa.RecordBatch:
    """Count records of one kind of rate. Constant columns are computed once, at length one: most columns are
    constant."""
    fields = ("kind", "weight", "bound_us", "delay_us", "size", "count", "expected", "ts_us", "flags")
    kind, weight, bound, delay, size, items, expected, time, flags = (wide(_settled(records[name])) for name in fields)
    values = {
        "records": _ONE, "weight": weight, "bytes": size * weight, "items": items * weight,
        "expected": expected * weight, "delay_us": delay, "bounded": np.where(bound > 0, weight, 0),
        "bound_min": np.where(bound > 0, bound, NONE), "bound_max": bound, "weight_max": weight, "ts_max": time,
    }  # fmt: skip
    if kind[0] >= _RARE:
        values |= {
            "bound_us": bound, "busy": (size > 0).astype(np.int64), "delay_min": delay, "delay_max": delay,
            "bytes_max": size, "items_max": items, "expected_max": expected, "subject_max": wide(records["subject"]),
        }  # fmt: skip
    else:
        values |= dict.fromkeys(_OF_RARE, _NOUGHT)
    key = {
        "window_us": time // window_us * window_us if _spread(time, window_us) else time[:1] - time[:1] % window_us,
        "broker": np.full(1, np.uint64(broker).astype(np.int64)), "kind": kind,
        "entity": _entity(kind, records), "reason": wide(_settled(records["reason"])), "marks": flags & _MARKS,
        "bucket": _places(kind, expected, items, delay), "cell": _cells(kind, records),
    }  # fmt: skip
    return _summed(key, values, length(records))


def _spread(time: np.ndarray, window_us: int) -> bool:
    return bool(time.min() // window_us != time.max() // window_us)


def _entity(kind: np.ndarray, records: Columns) -> np.ndarray:
    published = kind == int(RecordKind.PUBLISH)
    whose = np.where(published, wide(records["publisher"]), wide(records["subject"]))
    of_none = (kind == int(RecordKind.MATCH)) | (kind == int(RecordKind.QUEUE))
    return np.where(of_none, 0, whose) if of_none.any() else whose


def _cells(kind: np.ndarray, records: Columns) -> np.ndarray:
    subject = wide(records["subject"])
    located = (kind == int(RecordKind.PUBLISH)) & (subject != 0)
    return np.where(located, subject, 0) if located.any() else _NOUGHT


def _places(kind: np.ndarray, expected: np.ndarray, items: np.ndarray, delay: np.ndarray) -> np.ndarray:
    """Return the column `bucket`: a delay bucket, or for an event where it matched."""
    met = np.where(kind <= max(_MATCHED), (expected > 0) + 2 * (items > 0).astype(np.int64), 0)
    timed = _TIMED[kind]
    return np.where(timed, buckets_of(kind, delay, items), met) if timed.any() else met


def merged_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Merge counts of one width into one batch."""
    whole = pa.Table.from_batches(batches, schema=SCHEMA)
    column = {name: wide(_settled(whole[name].to_numpy())) for name in SCHEMA.names}
    return _summed({name: column[name] for name in KEY}, {name: column[name] for name in _VALUES}, whole.num_rows)


def _summed(key: Columns, values: Columns, rows: int) -> pa.RecordBatch:
    """Return sums, minima and maxima of values by key. Constant columns may have length one."""
    assert rows
    key = {name: _settled(part) for name, part in key.items()}
    order, starts = runs_of(_packed({name: part for name, part in key.items() if len(part) > 1}), rows)
    lengths = np.diff(starts, append=rows)
    first = order[starts]
    made = {name: part[first] if len(part) > 1 else np.repeat(part, len(first)) for name, part in key.items()}
    known: dict[tuple[int, bool], np.ndarray] = {}  # several values may share a column
    for name, part in values.items():
        if len(part) == 1:
            made[name] = part * lengths if name in SUMS else np.repeat(part, len(first))
        elif name in SUMS:
            if (id(part), True) not in known:
                running = np.cumsum(part[order])
                known[id(part), True] = np.diff(running[starts + lengths - 1], prepend=0)
            made[name] = known[id(part), True]
        else:
            made[name] = (np.minimum if name in LEAST else np.maximum).reduceat(part[order], starts)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(made[field.name].astype(np.int32) if field.name in _NARROW else made[field.name])
            for field in SCHEMA
        ],
        schema=SCHEMA,
    )


def _settled(part: np.ndarray) -> np.ndarray:
    return part[:1] if part[0] == part[-1] and part.min() == part.max() else part


def _packed(key: Columns) -> list[np.ndarray]:
    """Pack the narrow columns of a key into one number."""
    together = None
    for place, name in enumerate(sorted(_NARROW & set(key))):
        part = key[name] << (_NARROW_BITS * place)
        together = part if together is None else together | part
    return [*([together] if together is not None else []), *(key[name] for name in key if name not in _NARROW)]


def runs_of(parts: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return an order in which equal keys are adjacent, and the start of each run of equal keys.

    It sorts hashes that hold their row's number in the low bits, several times as fast as an argsort. Keys with
    colliding hashes may interleave and then form several runs.
    """
    bits = rows.bit_length()
    mixed = np.zeros(rows, np.uint64)
    for part in parts:
        mixed = (mixed ^ part.view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    low = np.uint64((1 << bits) - 1)
    mixed = np.sort((mixed & ~low) | np.arange(rows, dtype=np.uint64))
    order = (mixed & low).astype(np.int64)
    begins = np.zeros(rows, bool)
    begins[0] = True
    for part in parts:
        ordered = part[order]
        begins[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(begins)


def wide(column: np.ndarray) -> np.ndarray:
    """Return a column as signed 64-bit integers."""
    return column.astype(np.int64) if column.dtype.itemsize < 8 else np.ascontiguousarray(column).view(np.int64)


def buckets_of(kind: np.ndarray, delay_us: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the bucket of each record's delay; for a match, of the time for one event."""
    matches = kind == int(RecordKind.MATCH)
    delays = np.where(matches, delay_us // np.maximum(items, 1), delay_us) if matches.any() else delay_us
    found: np.ndarray = np.floor(8 * np.log2(np.maximum(delays, 1))).astype(np.int32)
    return found
