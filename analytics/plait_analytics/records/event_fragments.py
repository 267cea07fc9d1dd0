"""Event fragments: the first half of the exact audit, computed in a worker from one chunk of a broker's records.

An event is *plain* in a chunk that holds its own record and exactly one delivery for each expected subscription. One
row describes a plain event. For other events each delivery is a row, so that chunks are compared subscription by
subscription. `PIECED` joins the fragments of all workers. Most events are plain, so few rows are exchanged, and the
result equals that of `end_to_end.py` over all records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import DURABLE, FELL, TO_BROKER, RecordKind

from ..tables.sql_dialect import total
from .columns import FIELDS, Columns, length, of_those
from .counts import runs_of, wide

COMPACT: Final = -1
"""The subject of a row about the event itself instead of a delivery."""

_WHOLE: Final = ("publishes", "expected", "homes", "arrivals", "lost", "lost_homes", "unseen")
"""The sums of an event over all brokers."""
_SUMS: Final = (*_WHOLE, "delivered", "loose", "plain")
KEY: Final = ("publisher", "sequence", "broker", "subject")
SCHEMA: Final = pa.schema([(name, pa.int64()) for name in (*KEY, *_SUMS, "ts_us")])

NEVER: Final = (1 << 63) - 1
"""The publication time of an event whose publication is not in the chunk."""

_ENDS: Final = (int(RecordKind.DROP), int(RecordKind.EXPIRY))
_OF_EVENTS: Final = np.isin(
    np.arange(256),
    (int(RecordKind.PUBLISH), int(RecordKind.ARRIVAL), int(RecordKind.DELIVERY), int(RecordKind.UNSEEN), *_ENDS),
)

PIECED_FIELDS: Final = frozenset(FIELDS) - {"published_us", "delay_us", "bound_us", "size", "reason", "hops"}
"""The record fields that fragments are made of."""

PIECED: Final = f"""
single as (
  select publisher, sequence, broker, subject, min(ts_us) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _SUMS)}
  from pieces group by publisher, sequence, broker, subject),
placed as (
  select publisher, sequence, broker, min(ts_us) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _WHOLE)},
    {total("plain")} as plain, max(delivered) as plainly, {total("loose")} as loose,
    {total("1", f"subject <> {COMPACT}")} as subjects,
    {total("loose - 1", f"subject <> {COMPACT} and loose > 1")} as again
  from single group by publisher, sequence, broker),
joined as (
  select publisher, sequence, nullif(min(ts_us), {NEVER}) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _WHOLE)},
    {total("case when plain > 0 then plainly else subjects end")} as delivered,
    {total("case when plain > 0 then loose else again end")} as duplicates
  from placed group by publisher, sequence)"""
"""SQL from the view `pieces` to `joined`: a row for each event."""


def fragments_of(records: Columns, broker: int, weight: int) -> Iterator[pa.RecordBatch]:
    """Yield the fragments of a chunk of one broker's records.

    Only events are included that all brokers recorded, if none of them kept fewer than one event in `weight`.
    """
    mine = _OF_EVENTS[records["kind"]] & (records["sequence"] != 0)
    if weight > 1:
        mine &= (((records["sequence"] & np.uint64(1048575)) * np.uint64(2654435761)) >> np.uint64(12)) & np.uint64(
            weight - 1
        ) == 0
    records = of_those(records, mine)
    rows = length(records)
    if not rows:
        return
    kind, flags, subject = records["kind"], records["flags"], wide(records["subject"])
    publisher, sequence = wide(records["publisher"]), wide(records["sequence"])
    order, starts = runs_of([publisher, sequence], rows)
    run = np.empty(rows, np.int64)
    run[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows))

    def summed(values: np.ndarray) -> np.ndarray:
        if not values.any():
            return np.zeros(len(starts), np.int64)
        return np.add.reduceat(values[order], starts, dtype=np.int64)

    published, arrived, delivered = (
        kind == int(each) for each in (RecordKind.PUBLISH, RecordKind.ARRIVAL, RecordKind.DELIVERY)
    )
    ended, for_broker = np.isin(kind, _ENDS), (flags & TO_BROKER) != 0
    firm = delivered & ((flags & DURABLE) == 0)
    sums = {
        "publishes": summed(published),
        "expected": summed(np.where(published | arrived, records["expected"], 0)),
        "homes": summed(np.where(published, records["count"], 0)),
        "arrivals": summed(arrived),
        "lost": summed(ended & (subject != 0) & ~for_broker),
        "lost_homes": summed(ended & for_broker),
        "unseen": summed(np.where(kind == int(RecordKind.UNSEEN), _change(records), 0)),
    }
    deliveries = summed(delivered)
    plain = (sums["publishes"] + sums["arrivals"] == 1) & (deliveries == sums["expected"]) & (sums["lost"] == 0)
    if not firm.all():
        plain &= summed(firm) == deliveries
    plain[_repeated(run[delivered], subject[delivered])] = False
    first = order[starts]
    compact = {
        "publisher": publisher[first], "sequence": sequence[first], "subject": np.full(len(first), COMPACT),
        **sums, "delivered": np.where(plain, deliveries, 0), "loose": np.zeros(len(first), np.int64),
        "plain": plain.astype(np.int64),
        "ts_us": np.minimum.reduceat(np.where(published, records["ts_us"], NEVER)[order], starts),
    }  # fmt: skip
    yield _batch(compact, broker)
    loose = np.flatnonzero(delivered & ~plain[run])
    if len(loose):
        nothing = np.zeros(len(loose), np.int64)
        yield _batch(
            {
                **dict.fromkeys(_SUMS, nothing), "publisher": publisher[loose], "sequence": sequence[loose],
                "subject": subject[loose], "loose": firm[loose].astype(np.int64),
                "ts_us": np.full(len(loose), NEVER),
            },
            broker,
        )  # fmt: skip


def _change(records: Columns) -> np.ndarray:
    """Return the changes of the number of unseen deliveries."""
    count = wide(records["count"])
    changes: np.ndarray = np.where((records["flags"] & FELL) != 0, -count, count)
    return changes


def _repeated(run: np.ndarray, subject: np.ndarray) -> np.ndarray:
    """Return the runs in which a subject occurs more than once."""
    if not len(run):
        return run
    bits = int(subject.max()).bit_length()
    if subject.min() >= 0 and int(run.max()).bit_length() + bits < 64:  # both usually fit one number
        both = np.sort((run << bits) | subject)
        return both[1:][both[1:] == both[:-1]] >> bits
    order = np.lexsort((subject, run))
    run, subject = run[order], subject[order]
    same = (run[1:] == run[:-1]) & (subject[1:] == subject[:-1])
    found: np.ndarray = run[1:][same]
    return found


def _batch(columns: dict[str, np.ndarray], broker: int) -> pa.RecordBatch:
    rows = len(columns["publisher"])
    columns["broker"] = np.full(rows, np.uint64(broker).astype(np.int64))
    return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in SCHEMA.names], schema=SCHEMA)
