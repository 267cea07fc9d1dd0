"""The tables by DuckDB: one process, no Java. Records beyond memory go to files beside the tables while it computes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from .batches import SCHEMA, read_slices, slices_of
from .inventory import Inventory
from .names import read_names
from .tables import TABLES, WINDOW_US, text_of


def compute(
    inventory: Inventory,
    *,
    window_us: int = WINDOW_US,
    only: Iterable[str] = TABLES,
    spill: Path | None = None,
) -> Mapping[str, pa.Table]:
    """The tables of all records of an inventory. `spill`: where what memory does not hold goes."""
    records = pa.RecordBatchReader.from_batches(SCHEMA, read_slices(slices_of(inventory.segments)))
    with duckdb.connect() as connection:
        if spill is not None:
            connection.execute("set temp_directory = ?", [str(spill)])
        connection.register("incoming", records)
        connection.execute("create table records as select * from incoming")
        connection.unregister("incoming")
        connection.register("names", read_names(inventory))
        return {name: connection.sql(text_of(TABLES[name], window_us)).to_arrow_table() for name in only}
