"""Records in the form that people query: times, names beside ids, words instead of codes. `format("plait")` reads them.

A value that does not apply to a kind of record is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import DURABLE, FULL, LATE, PROBED, REPLAYED, RETURNED, TO_BROKER, RecordKind

from .columns import Columns, Slice, chunks, length, of_those
from .counts import wide
from .words import IdNames, Numbers, hex_of, kind_text, reason_or_none, subject_text, texts

CHUNK_RECORDS: Final = 1 << 16
"""Records made readable at once: 25 MB, most of it texts."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_FLAGS: Final = {
    "late": LATE, "durable": DURABLE, "replayed": REPLAYED, "to_broker": TO_BROKER, "probed": PROBED,
    "returned": RETURNED, "full": FULL,
}  # fmt: skip
_NUMBERS: Final = ("delay_us", "bound_us", "size", "count", "expected", "weight", "hops")

COLUMNS: Final = {
    "ts": (_TIME, "when it was recorded, by the broker's calendar"),
    "broker": (pa.string(), "id of the broker that recorded"),
    "broker_name": (pa.string(), "its name"),
    "kind": (pa.string(), "kind of record in words"),
    "published": (_TIME, "when the event was published, by the publisher's calendar"),
    "publisher": (pa.string(), "id of the event's publisher; with the sequence number it names the event"),
    "publisher_name": (pa.string(), "name of the publishing client"),
    "sequence": (pa.int64(), "the event's sequence number"),
    "subject": (pa.string(), "what the record is about: the number of a subscription, or the id of a broker"),
    "subject_name": (pa.string(), "name of the subscription's client, or of the broker"),
    "cell": (pa.string(), "of a publication: the cell of the event space, as a dz-expression"),
    "next_hop": (pa.string(), "of a route: the neighbour by which the subject is reached now"),
    "next_hop_name": (pa.string(), "name of that neighbour"),
    "reason": (pa.string(), "reason of a drop"),
    "delay_us": (pa.int64(), "delay since publication; of a link its delay, of a match its time"),
    "bound_us": (pa.int64(), "the subscription's bound or the event's lifetime, 0: none; of a link its jitter"),
    "size": (pa.int64(), "bytes of the event; of a queue or a link the bytes that wait"),
    "count": (pa.int64(), "a number by kind, as in the registry"),
    "expected": (pa.int64(), "subscriptions here that the event matched"),
    "weight": (pa.int64(), "records that this one stands for: above 1 where events were sampled"),
    "hops": (pa.int64(), "brokers that the event has passed, this one included"),
    "late": (pa.bool_(), "the delivery exceeded the subscription's bound"),
    "durable": (pa.bool_(), "the delivery was to a durable subscription"),
    "replayed": (pa.bool_(), "the event was read from the log"),
    "to_broker": (pa.bool_(), "the subject of the drop is a broker, not a subscription"),
    "probed": (pa.bool_(), "the delay of the link is measured"),
    "returned": (pa.bool_(), "of a membership: the broker is present now"),
    "full": (pa.bool_(), "of a lane: events have waited in it for a second or longer"),
}
"""The columns: type and description."""

SCHEMA: Final = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


def read_readable(
    slices: Sequence[Slice], kinds: Sequence[int], names: IdNames, rows_max: int = CHUNK_RECORDS
) -> Iterator[pa.RecordBatch]:
    """Yield the records of slices. `kinds`: those to read; none for all."""
    wanted = np.isin(np.arange(256), kinds) if kinds else np.ones(256, bool)
    for records, broker in chunks(slices, rows_max):
        kept = of_those(records, wanted[records["kind"]])
        if length(kept):
            yield readable(kept, int(np.uint64(broker).astype(np.int64)), names)


def readable(records: Columns, broker: int, names: IdNames) -> pa.RecordBatch:
    """Return records of one broker as a batch with the columns of the schema. `broker` is its signed id."""
    rows = length(records)
    numbers: Numbers = {name: wide(column) for name, column in records.items()}
    kind = numbers["kind"]
    located, routed = kind == int(RecordKind.PUBLISH), kind == int(RecordKind.ROUTING)
    nothing = np.zeros(rows, np.int64)
    keys: Numbers = {
        **numbers,
        "broker": np.full(rows, broker),
        "marks": numbers["flags"] & TO_BROKER,
        "publisher": np.where(routed, nothing, numbers["publisher"]),
        "next_hop": np.where(routed, numbers["publisher"], nothing),
        "cell": np.where(located, numbers["subject"], nothing),
        "subject": np.where(located, nothing, numbers["subject"]),
    }
    of_event = keys["publisher"] != 0
    columns: dict[str, pa.Array] = {
        "ts": _times(numbers["ts_us"]),
        "broker": texts(keys, ["broker"], hex_of),
        "broker_name": texts(keys, ["broker"], names.broker),
        "kind": texts(keys, ["kind"], kind_text),
        "published": _times(numbers["published_us"], of_event),
        "publisher": texts(keys, ["publisher"], _hex_or_none),
        "publisher_name": texts(keys, ["publisher"], names.publisher),
        "sequence": pa.array(numbers["sequence"], pa.int64(), mask=~of_event),
        "subject": texts(keys, ["subject", "kind", "marks"], subject_text),
        "subject_name": texts(keys, ["broker", "subject", "kind", "marks"], names.subject),
        "cell": texts(keys, ["cell"], _dz),
        "next_hop": texts(keys, ["next_hop"], _hex_or_none),
        "next_hop_name": texts(keys, ["next_hop"], names.broker),
        "reason": texts(keys, ["reason"], reason_or_none),
        **{name: pa.array(numbers[name]) for name in _NUMBERS},
        **{name: pa.array((numbers["flags"] & flag) != 0) for name, flag in _FLAGS.items()},
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _times(times_us: np.ndarray, known: np.ndarray | None = None) -> pa.Array:
    return pa.array(times_us, pa.int64(), mask=None if known is None else ~known).cast(_TIME)


def _hex_or_none(id: int) -> str | None:
    return hex_of(id) if id else None


def _dz(cell: int) -> str | None:
    return f"{cell:b}"[1:] if cell else None
