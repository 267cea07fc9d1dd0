"""The newest rows of a table as JSON, for pages and whoever reads no Parquet: `TABLE/DIGEST.json` beside the tables.

    {"table", "says", "window_us", "columns": [{"name", "type", "says"}], "rows": [[...], ...], "rows_in_all"}

Rows are in the order of the key, windows are ISO 8601 in UTC, ids are texts, what is not known is null. The manifest
says under `tables.TABLE.json` which file holds now.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ..records.counts import COLUMNS as KEYS
from .definitions import TABLES

ROWS_MAX: Final = 5_000
"""Of the newest windows: a page shows fewer, and a browser takes a megabyte without a pause."""


def page_of(name: str, table: pa.Table, window_us: int) -> bytes:
    """The page of a table in the form in which it is kept."""
    return json.dumps(page_document(name, table, window_us), separators=(",", ":")).encode()


def page_document(name: str, table: pa.Table, window_us: int, rows_max: int = ROWS_MAX) -> dict[str, Any]:
    """The same before it is text."""
    newest = table.slice(max(0, table.num_rows - rows_max))
    return {
        "table": name,
        "says": TABLES[name].says,
        "window_us": window_us,
        "columns": [{"name": field.name, **column_says(name, field)} for field in table.schema],
        "rows": [list(row) for row in zip(*map(_plain, newest.columns), strict=True)],
        "rows_in_all": table.num_rows,
    }


def row_documents(table: pa.Table) -> list[Mapping[str, Any]]:
    """Rows as objects, one each."""
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*map(_plain, table.columns), strict=True)]


def column_says(table: str, field: pa.Field) -> dict[str, str]:
    """What a column is of, and what it says."""
    return {
        "type": str(field.type),
        "says": TABLES[table].columns.get(field.name) or KEYS.get(field.name, "of the key"),
    }


def _plain(column: pa.ChunkedArray) -> list[Any]:
    """As JSON has it; column by column, which is ten times as fast as value by value."""
    if pa.types.is_timestamp(column.type):
        column = pc.strftime(column.cast(pa.timestamp("s", tz="UTC"), safe=False), format="%Y-%m-%dT%H:%M:%SZ")
    elif pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    values: list[Any] = column.to_pylist()
    return values
