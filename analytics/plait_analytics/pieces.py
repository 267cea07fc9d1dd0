"""What one stretch of a broker's records says of single events: the first half of the exact audit, in the worker.

A piece of an event is *plain* where the stretch has all of it: the event's own record, and for each subscription that
it asks for one delivery. One row says that. Of others each delivery is a row, so that what comes from several stretches
is compared subscription by subscription. `PIECED` puts together what workers found. At most places an event is plain,
so few rows travel, and the answer is that of `journeys.py` over all records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import DURABLE, TO_BROKER, Kind

from .counts import runs_of, wide
from .portable import total

COMPACT: Final = -1
"""In place of a subject: the row is about the event, not about one delivery."""

_SUMS: Final = ("publishes", "expected", "homes", "arrivals", "lost", "lost_homes", "delivered", "loose", "plain")
KEY: Final = ("publisher", "sequence", "broker", "subject")
SCHEMA: Final = pa.schema([(name, pa.int64()) for name in (*KEY, *_SUMS, "ts_us", "weight")])

NEVER: Final = (1 << 63) - 1
"""When an event was published whose publication is not in the stretch."""

_ENDS: Final = (int(Kind.DROP), int(Kind.EXPIRY))

PIECED: Final = f"""
whole as (select max(weight) as w from pieces),
r as (select p.* from pieces p cross join whole
  where ((((sequence & 1048575) * 2654435761) >> 12) & (w - 1)) = 0),
single as (
  select publisher, sequence, broker, subject, min(ts_us) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _SUMS)}
  from r group by publisher, sequence, broker, subject),
placed as (
  select publisher, sequence, broker, min(ts_us) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _SUMS[:6])},
    {total("plain")} as plain, max(delivered) as plainly, {total("loose")} as loose,
    {total("1", f"subject <> {COMPACT}")} as subjects,
    {total("loose - 1", f"subject <> {COMPACT} and loose > 1")} as again
  from single group by publisher, sequence, broker),
joined as (
  select publisher, sequence, nullif(min(ts_us), {NEVER}) as ts_us,
    {", ".join(f"{total(name)} as {name}" for name in _SUMS[:6])},
    {total("case when plain > 0 then plainly else subjects end")} as delivered,
    {total("case when plain > 0 then loose else again end")} as duplicates
  from placed group by publisher, sequence)"""
"""From the view `pieces` to `joined`: a row for each event."""


def pieces_of(records: np.ndarray, broker: int) -> Iterator[pa.RecordBatch]:
    """The pieces of a stretch of one broker's records."""
    kind = records["kind"]
    mine = (np.isin(kind, (int(Kind.PUBLISH), int(Kind.ARRIVAL), int(Kind.DELIVERY), *_ENDS))) & (
        records["sequence"] != 0
    )
    if not mine.any():
        return
    records = records if mine.all() else records[mine]
    kind = wide(records["kind"])
    publisher, sequence = wide(records["publisher"]), wide(records["sequence"])
    subject, flags = wide(records["subject"]), wide(records["flags"])
    order, starts = runs_of([publisher, sequence], len(records))
    run = np.empty(len(records), np.int64)
    run[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(records)))

    def summed(values: np.ndarray) -> np.ndarray:
        running = np.cumsum(values[order])
        return np.diff(running[np.append(starts[1:], len(order)) - 1], prepend=0)

    published, arrived = kind == int(Kind.PUBLISH), kind == int(Kind.ARRIVAL)
    delivered, ended = kind == int(Kind.DELIVERY), np.isin(kind, _ENDS)
    for_broker = (flags & TO_BROKER) != 0
    firm = delivered & ((flags & DURABLE) == 0)
    sums = {
        "publishes": summed(published.astype(np.int64)),
        "expected": summed(np.where(published | arrived, wide(records["expected"]), 0)),
        "homes": summed(np.where(published, wide(records["count"]), 0)),
        "arrivals": summed(arrived.astype(np.int64)),
        "lost": summed((ended & (subject != 0) & ~for_broker).astype(np.int64)),
        "lost_homes": summed((ended & for_broker).astype(np.int64)),
    }
    deliveries = summed(delivered.astype(np.int64))
    plain = (sums["publishes"] + sums["arrivals"] == 1) & (deliveries == sums["expected"]) & (sums["lost"] == 0)
    plain &= summed(firm.astype(np.int64)) == deliveries
    plain[_repeated(run[delivered], subject[delivered])] = False
    first = order[starts]
    compact = {
        "publisher": publisher[first], "sequence": sequence[first], "subject": np.full(len(first), COMPACT),
        **sums, "delivered": np.where(plain, deliveries, 0), "loose": np.zeros(len(first), np.int64),
        "plain": plain.astype(np.int64),
        "ts_us": np.minimum.reduceat(np.where(published, wide(records["ts_us"]), NEVER)[order], starts),
        "weight": np.maximum.reduceat(wide(records["weight"])[order], starts),
    }  # fmt: skip
    yield _batch(compact, broker)
    loose = np.flatnonzero(delivered & ~plain[run])
    if len(loose):
        nothing = np.zeros(len(loose), np.int64)
        yield _batch(
            {
                **dict.fromkeys(_SUMS, nothing), "publisher": publisher[loose], "sequence": sequence[loose],
                "subject": subject[loose], "loose": firm[loose].astype(np.int64),
                "ts_us": np.full(len(loose), NEVER), "weight": wide(records["weight"])[loose],
            },
            broker,
        )  # fmt: skip


def _repeated(run: np.ndarray, subject: np.ndarray) -> np.ndarray:
    """The runs in which a subject is more than once."""
    if not len(run):
        return run
    order = np.lexsort((subject, run))
    run, subject = run[order], subject[order]
    same = (run[1:] == run[:-1]) & (subject[1:] == subject[:-1])
    found: np.ndarray = run[1:][same]
    return found


def _batch(columns: dict[str, np.ndarray], broker: int) -> pa.RecordBatch:
    rows = len(columns["publisher"])
    columns["broker"] = np.full(rows, np.uint64(broker).astype(np.int64))
    return pa.RecordBatch.from_arrays([pa.array(columns[name]) for name in SCHEMA.names], schema=SCHEMA)
