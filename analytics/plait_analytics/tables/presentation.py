"""The stored form of a table: ids as texts with names beside them, codes as words, typed times, rows in order.

Both engines and the live analysis store tables in this form. A text that does not apply to a row is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from plait_core.telemetry import RecordKind, bucket_bounds_us, reason_code

from ..records.counts import SCHEMA as COUNTS
from ..records.id_names import read_names
from ..records.inventory import Inventory
from ..records.words import (
    KINDS,
    MARKS,
    IdNames,
    Numbers,
    codes,
    entity_is_id,
    hex_of,
    id_of,
    kind_text,
    reason_or_none,
    subject_text,
    texts,
)
from .definitions import TABLES

BROKERS: Final = ("broker", "neighbour", "source", "destination", "other_broker")
"""Columns of brokers' ids."""

IDS: Final = frozenset({*BROKERS, "publisher"})

_SUBJECTS: Final = frozenset({"subject", "entity"})
"""Columns of the subjects of records: numbers of subscriptions, or ids, according to the kind of record."""

_BESIDE: Final = {
    **{column: f"{column}_name" for column in (*BROKERS, "publisher", "subject", "entity")},
    "subscription": "client",
    "other": "other_client",
}
"""The column of names beside a column of ids."""

ADDED: Final = {
    "broker_name": "name of that broker",
    "neighbour_name": "name of that broker",
    "source_name": "name of that broker",
    "destination_name": "name of that broker",
    "other_broker_name": "name of that broker",
    "publisher_name": "name of the publishing client",
    "subject_name": "name of the subscription's client or of the neighbour",
    "entity_name": "name of the publisher, of the subscription's client, or of the broker",
    "client": "name of the subscription's client",
    "other_client": "name of the other subscription's client",
    "from_us": "least delay of the bucket",
    "to_us": "greatest delay of the bucket",
}
"""Columns that are added to those of a table's definition, with their descriptions."""

_MARK_CODES: Final = {text: code for code, text in MARKS.items()}
_KIND_CODES: Final = {text: code for code, text in KINDS.items()}

_WORDS: Final[Mapping[str, Callable[[int], str | None]]] = {
    "kind": kind_text,
    "reason": reason_or_none,
    "marks": MARKS.get,
}


def presented(name: str, table: pa.Table, names: IdNames | None = None) -> pa.Table:
    """Return an engine's table in the form in which it is stored."""
    names = names if names is not None else IdNames()
    numbers = _numbers(table)
    columns: dict[str, pa.Array] = {}
    for field in _ordered(name, table.schema):
        column = table[field.name].combine_chunks()
        columns["window" if field.name == "window_us" else field.name] = _shown(field, column, numbers)
        for place, beside in enumerate(beside_of(name, field.name)):
            columns[beside] = (
                _bounds(numbers["bucket"], place) if field.name == "bucket" else _beside(field.name, numbers, names)
            )
    shown = pa.table(columns)
    return shown.sort_by([("window" if part == "window_us" else part, "ascending") for part in TABLES[name].key])


def presented_tables(tables: Mapping[str, pa.Table], inventory: Inventory) -> dict[str, pa.Table]:
    """Return an engine's tables in the form in which they are stored."""
    names = IdNames(read_names(inventory))
    return {name: presented(name, table, names) for name, table in tables.items()}


def beside_of(name: str, column: str) -> tuple[str, ...]:
    """Return the columns that a stored table has beside a column of its definition."""
    if name == "delays" and column == "bucket":
        return "from_us", "to_us"
    if name == "incidents" and column == "entity":  # a word
        return ()
    beside = _BESIDE.get(column)
    return (beside,) if beside is not None and beside not in TABLES[name].columns else ()


def ids_of(counts: pa.Table) -> pa.Table:
    """Return the stored table `counts` with numeric ids and codes, so that it can be merged again."""
    columns = {name: counts[name] for name in COUNTS.names if name in counts.column_names}
    columns["window_us"] = counts["window"].cast(pa.int64())
    columns["broker"] = codes(counts["broker"], id_of)
    columns["kind"] = codes(counts["kind"], lambda text: _KIND_CODES.get(text) or int(text))
    columns["reason"] = codes(counts["reason"], reason_code)
    columns["marks"] = codes(counts["marks"], _MARK_CODES.__getitem__)
    columns["entity"] = _entities(counts["entity"], columns["kind"].to_numpy(), columns["marks"].to_numpy())
    return pa.table({name: columns[name] for name in COUNTS.names}).cast(COUNTS)


def _ordered(name: str, schema: pa.Schema) -> list[pa.Field]:
    """Return the fields in the order of the table's definition."""
    order = [*TABLES[name].key, *TABLES[name].columns]
    return sorted(schema, key=lambda field: order.index(field.name))


def _numbers(table: pa.Table) -> Numbers:
    """Return the columns that name rows, as numbers."""
    wanted = {*IDS, *_SUBJECTS, "subscription", "other", "kind", "marks", "bucket", "reason"}
    return {
        field.name: table[field.name].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
        for field in table.schema
        if field.name in wanted and not pa.types.is_string(field.type) and not pa.types.is_large_string(field.type)
    }


def _shown(field: pa.Field, column: pa.Array, numbers: Numbers) -> pa.Array:
    if field.name == "window_us":
        return column.cast(pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    if field.name in IDS:
        return texts(numbers, [field.name], hex_of)
    if field.name in _SUBJECTS and field.name in numbers:
        return texts(_with_kind(numbers), [field.name, "kind", "marks"], subject_text)
    if field.name in ("kind", "reason", "marks"):
        return texts(numbers, [field.name], _WORDS[field.name])
    if field.name == "sequence":
        wide = column.cast(pa.int64()).to_numpy(zero_copy_only=False).astype(np.int64)
        return pa.array(wide.view(np.uint64))
    if pa.types.is_integer(field.type) or pa.types.is_decimal(field.type):
        return column.cast(pa.int64())
    return column.cast(pa.float64() if pa.types.is_floating(field.type) else pa.string())


def _beside(column: str, numbers: Numbers, names: IdNames) -> pa.Array:
    if column in BROKERS:
        return texts(numbers, [column], names.broker)
    if column == "publisher":
        return texts(numbers, [column], names.publisher)
    if column == "subscription":
        return texts(numbers, ["broker", column], names.client)
    if column == "other":
        return texts(numbers, ["other_broker", column], names.client)
    return texts(_with_kind(numbers), ["broker", column, "kind", "marks"], names.subject)


def _bounds(buckets: np.ndarray, place: int) -> pa.Array:
    """Return the lower (0) or the upper (1) bounds of buckets of delay."""
    return pa.array([bucket_bounds_us(bucket)[place] for bucket in buckets.tolist()], pa.float64())


def _with_kind(numbers: Numbers) -> Numbers:
    """Return the columns with those by which a subject is read. The subjects of incidents are neighbours."""
    rows = len(numbers["broker"])
    assumed = {"kind": np.full(rows, int(RecordKind.LINK)), "marks": np.zeros(rows, np.int64)}
    return {**assumed, **numbers}


def _entities(column: pa.ChunkedArray, kinds: np.ndarray, marks: np.ndarray) -> pa.Array:
    """Return the numbers of texts of entities, which are ids or decimal numbers."""
    pairs, places = np.unique(np.stack([kinds, marks], axis=1), axis=0, return_inverse=True)
    are_ids = np.array([entity_is_id(*pair) for pair in pairs.tolist()], bool)[places.reshape(-1)]
    found = np.zeros(len(kinds), np.int64)
    for mask, code in ((are_ids, id_of), (~are_ids, int)):
        found[mask] = codes(column.filter(pa.array(mask)), code).to_numpy(zero_copy_only=False)
    return pa.array(found)
