"""Records counted: one row for each window, broker, kind, thing and bucket, with sums, least and greatest values.

This is the one pass over all records: all tables but those of single events follow from its rows, which are a
thousand times fewer. Rows with one key add up to one row (`merged`), over batches, workers, segments and windows; so
roll-ups are made of roll-ups. `counted` makes them in a worker by numpy, `COUNTING` is the same in SQL.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import LATE, TO_BROKER, Kind, record_dtype

from .portable import POSTPONED

NONE: Final = 1 << 32
"""The least of no values: beyond all that a record can hold."""

_BUCKETED: Final = (int(Kind.DELIVERY), int(Kind.LINK), int(Kind.MATCH))
_MATCHED: Final = (int(Kind.PUBLISH), int(Kind.ARRIVAL))
_MARKS: Final = LATE | TO_BROKER

KEY: Final = ("window_us", "broker", "kind", "entity", "reason", "marks", "bucket")
SUMS: Final = ("records", "weight", "bytes", "items", "expected", "delay_us", "bound_us", "busy", "bounded")
LEAST: Final = ("delay_min", "bound_min")
MOST: Final = (
    "delay_max", "bound_max", "bytes_max", "items_max", "expected_max", "subject_max", "weight_max", "ts_max"
)  # fmt: skip

COLUMNS: Final = {
    "entity": "of a publish its publisher; of a match or queue 0; else the record's subject",
    "reason": "of a drop",
    "marks": "those flags that tell late from not, and copies from deliveries",
    "bucket": "of the delay, where delays are counted; of an event 1 if it matched here, plus 2 if it went elsewhere",
    "records": "how many",
    "weight": "how many they stand for",
    "bytes": "of all that they stand for; so the next two",
    "items": "their counts",
    "expected": "what they expect",
    "delay_us": "sum, of records",
    "bound_us": "sum, of records",
    "busy": "records with bytes",
    "bounded": "weight of those with a bound",
    "delay_min": "least",
    "bound_min": f"least of those with one, else {NONE}",
    **dict.fromkeys(MOST, "greatest"),
}

_NARROW: Final = {"kind", "reason", "marks", "bucket"}
SCHEMA: Final = pa.schema(
    [(name, pa.int32() if name in _NARROW else pa.int64()) for name in (*KEY, *SUMS, *LEAST, *MOST)]
)

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


_IN: Final = {kinds: f"kind in ({', '.join(map(str, kinds))})" for kinds in (_BUCKETED, _MATCHED)}

COUNTING: Final = f"""
select ts_us - ts_us % {POSTPONED} as window_us, broker, kind,
  case when kind = {int(Kind.PUBLISH)} then publisher
    when kind in ({int(Kind.MATCH)}, {int(Kind.QUEUE)}) then 0 else subject end as entity,
  reason, flags & {_MARKS} as marks,
  case when {_IN[_BUCKETED]} then bucket
    when {_IN[_MATCHED]} then (case when expected > 0 then 1 else 0 end) + (case when items > 0 then 2 else 0 end)
    else 0 end as bucket,
  {_aggregates(_SOURCES)}
from records group by 1, 2, 3, 4, 5, 6, 7"""
"""Of the view `records`, whatever has it."""

MERGING: Final = f"""
select window_us - window_us % {POSTPONED} as window_us, {", ".join(KEY[1:])},
  {_aggregates({name: name for name in (*SUMS, *LEAST, *MOST)})}
from counts group by 1, 2, 3, 4, 5, 6, 7"""
"""Of `counts`, to counts of windows that are as wide or wider, and each key once."""


def counted(records: np.ndarray, broker: int, buckets: np.ndarray, window_us: int) -> pa.RecordBatch:
    """Counts of some records of one broker. Rows whose keys hash alike may come apart into several, which add up."""
    assert len(records)
    column = {name: _wide(records[name]) for name in record_dtype().names or () if name not in _UNUSED}
    kind = records["kind"]
    window = column["ts_us"] - column["ts_us"] % window_us
    entity = np.where(kind == int(Kind.PUBLISH), column["publisher"], column["subject"])
    entity[(kind == int(Kind.MATCH)) | (kind == int(Kind.QUEUE))] = 0
    met = (column["expected"] > 0) + 2 * (column["count"] > 0).astype(np.int64)
    place = np.where(np.isin(kind, _BUCKETED), buckets, np.where(np.isin(kind, _MATCHED), met, 0))
    narrow = (place << 24) | (column["reason"] << 16) | ((column["flags"] & _MARKS) << 8) | kind
    order, starts = _groups(window, entity, narrow)
    weight = column["weight"]
    values = {
        "records": np.ones(len(records), np.int64), "weight": weight, "bytes": column["size"] * weight,
        "items": column["count"] * weight, "expected": column["expected"] * weight, "delay_us": column["delay_us"],
        "bound_us": column["bound_us"], "busy": (column["size"] > 0).astype(np.int64),
        "bounded": np.where(column["bound_us"] > 0, weight, 0), "delay_min": column["delay_us"],
        "bound_min": np.where(column["bound_us"] > 0, column["bound_us"], NONE), "delay_max": column["delay_us"],
        "bound_max": column["bound_us"], "bytes_max": column["size"], "items_max": column["count"],
        "expected_max": column["expected"], "subject_max": column["subject"], "weight_max": weight,
        "ts_max": column["ts_us"],
    }  # fmt: skip
    first = order[starts]
    keys = narrow[first]
    made = [window[first], np.full(len(first), np.uint64(broker).astype(np.int64)), keys & 0xFF, entity[first],
            keys >> 16 & 0xFF, keys >> 8 & 0xFF, keys >> 24]  # fmt: skip
    made += [np.add.reduceat(values[name][order], starts) for name in SUMS]
    made += [np.minimum.reduceat(values[name][order], starts) for name in LEAST]
    made += [np.maximum.reduceat(values[name][order], starts) for name in MOST]
    arrays = [
        pa.array(part.astype(np.int32) if name in _NARROW else part)
        for name, part in zip(SCHEMA.names, made, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


_UNUSED: Final = {"published_us", "sequence", "hops", "kind"}


def _wide(column: np.ndarray) -> np.ndarray:
    return column.astype(np.int64) if column.dtype.itemsize < 8 else np.ascontiguousarray(column).view(np.int64)


def _groups(window: np.ndarray, entity: np.ndarray, narrow: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which equal keys are neighbours, and where each run of them begins."""
    with np.errstate(over="ignore"):
        mixed = (entity ^ (narrow * 0x1E3779B97F4A7C15)) * 0x3F58476D1CE4E5B9 + window
    order = np.argsort(mixed)
    starts = np.ones(len(order), bool)
    starts[1:] = False
    for part in (mixed, window, entity, narrow):
        ordered = part[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    return order, np.flatnonzero(starts)
