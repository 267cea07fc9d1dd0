"""Compute the tables with DuckDB: one process, no Java. Records that exceed memory spill to temporary files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from ..records.batches import SCHEMA, read_slices, slices_of
from ..records.columns import EVER
from ..records.counts import COUNTING
from ..records.id_names import read_names
from ..records.inventory import Inventory
from ..tables.definitions import TABLES, text_of
from ..tables.derive_tables import COUNTED, derive
from ..tables.interarrival import INTERARRIVAL, WITH_GAPS
from ..tables.sql_dialect import with_window
from ..tables.table import WINDOW_US


def compute_by_duckdb(
    inventory: Inventory,
    *,
    window_us: int = WINDOW_US,
    only: Iterable[str] = TABLES,
    spill: Path | None = None,
) -> Mapping[str, pa.Table]:
    """Return the tables computed from all records of an inventory. `spill`: the directory for records that exceed
    memory."""
    only = list(only)
    slices = slices_of(inventory.segments, between=inventory.between or EVER)
    records = pa.RecordBatchReader.from_batches(SCHEMA, read_slices(slices))
    with duckdb.connect() as connection:
        if spill is not None:
            connection.execute("set temp_directory = ?", [str(spill)])
        connection.register("incoming", records)
        connection.execute("create table records as select * from incoming")
        connection.unregister("incoming")
        tables = {
            name: connection.sql(text_of(TABLES[name], window_us)).to_arrow_table()
            for name in only
            if TABLES[name].of == "records"
        }
        if from_counts := [name for name in only if name in COUNTED]:
            counts = connection.sql(with_window(COUNTING, window_us)).to_arrow_table()
            gaps = (
                connection.sql(with_window(INTERARRIVAL, window_us)).to_arrow_table()
                if WITH_GAPS & set(from_counts)
                else None
            )
            tables |= derive(counts, read_names(inventory), gaps=gaps, window_us=window_us, only=from_counts)
    return {name: tables[name] for name in only}
