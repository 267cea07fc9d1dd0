"""Tables derived from counts: the cheap half of the work, done by DuckDB in this process for both engines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from ..records.counts import MERGING
from ..records.counts import SCHEMA as COUNTS
from .definitions import TABLES, text_of
from .sql_dialect import with_window
from .table import WINDOW_US

GAPS_SCHEMA = pa.schema(
    [
        ("window_us", pa.int64()),
        ("whose", pa.string()),
        ("entity", pa.int64()),
        ("gaps", pa.int64()),
        ("gap_sum", pa.float64()),
        ("gap_squares", pa.float64()),
    ]
)

COUNTED = tuple(name for name, table in TABLES.items() if table.of == "counts")
"""The tables that follow from counts."""

INCIDENTS = "incidents"
"""The table that compares a window with those before it."""


def derive(
    counts: pa.Table,
    names: pa.Table,
    *,
    gaps: pa.Table | None = None,
    history: pa.Table | None = None,
    settled: bool = False,
    window_us: int = WINDOW_US,
    only: Iterable[str] = COUNTED,
) -> Mapping[str, pa.Table]:
    """Return tables for windows at least as wide as those of the counts.

    Without `gaps`, the columns computed from gaps are null. `history`: counts of these and earlier windows, in which
    incidents are found; default `counts`. `settled`: the counts have one row for each key and windows of this width.
    """
    import duckdb  # not at the top: Spark's workers import this module without calling it, and start a fifth faster

    with duckdb.connect() as connection:
        connection.register("gaps", gaps if gaps is not None else GAPS_SCHEMA.empty_table())
        connection.register("names", names)
        connection.register("counts" if settled else "unmerged", counts)
        if not settled:
            text = with_window(MERGING, window_us).replace("from counts", "from unmerged")
            connection.execute(f"create table counts as {text}")
        texts = {name: text_of(TABLES[name], window_us) for name in only}
        if history is not None and INCIDENTS in texts:
            connection.register("history", history)
            texts[INCIDENTS] = texts[INCIDENTS].replace("from counts", "from history counts")
        return {name: connection.sql(text).to_arrow_table() for name, text in texts.items()}


def merged(counts: pa.Table, window_us: int) -> pa.Table:
    """Return counts of windows as wide or wider, one row for each key."""
    import duckdb

    with duckdb.connect() as connection:
        connection.register("counts", counts)
        return connection.sql(with_window(MERGING, window_us)).to_arrow_table().cast(COUNTS)
