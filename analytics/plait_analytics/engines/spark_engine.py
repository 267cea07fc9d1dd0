"""Compute the tables with Spark: in a local JVM, or on the cluster that --master names.

`counting` and `events` are pure functions of data frames, so they serve batch and live analyses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ..records.batches import COLUMNS, slices_of
from ..records.columns import EVER
from ..records.counts import MERGING
from ..records.id_names import read_names
from ..records.inventory import Inventory
from ..tables.definitions import TABLES
from ..tables.derive_tables import COUNTED, derive
from ..tables.end_to_end import AUDITS, pieced
from ..tables.interarrival import INTERARRIVAL, WITH_GAPS
from ..tables.sql_dialect import with_window
from ..tables.table import WINDOW_US, Table
from .spark_source import counts_of, fragments_source, records_of, weights_of


def counting(counts: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """Merge partial counts so that each key has one row."""
    return counts.sparkSession.sql(
        with_window(MERGING, window_us).replace("from counts", "from {counts}"), counts=counts
    )


def events(text: str, records: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """Run an SQL text about single events over records."""
    return records.sparkSession.sql(
        with_window(text, window_us).replace("from records", "from {records}"), records=records
    )


def compute_by_spark(
    spark: SparkSession,
    inventory: Inventory,
    *,
    window_us: int = WINDOW_US,
    only: Iterable[str] = TABLES,
    parts: int = 2,
) -> Mapping[str, pa.Table]:
    """Return the tables computed from all records of an inventory. Only these small tables are collected at the
    driver."""
    only, slices = list(only), slices_of(inventory.segments, between=inventory.between or EVER)
    tables: dict[str, pa.Table] = {}
    if audits := [name for name in only if name in AUDITS]:
        weight = weights_of(spark, slices, parts).agg({"weight": "max"}).head()
        pieces = fragments_source(spark, slices, parts, weight[0] if weight and weight[0] else 1)
        pieces = pieces.repartition("publisher", "sequence")
        if len(audits) > 1:
            pieces = pieces.persist()
        tables |= {name: audit(TABLES[name], pieces, window_us).toArrow() for name in audits}
        pieces.unpersist()
    for name in only:
        if TABLES[name].of == "records" and name not in AUDITS:
            records = records_of(spark, slices, parts, columns_of(TABLES[name].sql))
            tables[name] = events(TABLES[name].sql, records, window_us).toArrow()
    if from_counts := [name for name in only if name in COUNTED]:
        counts = counting(counts_of(spark, slices, parts, window_us), window_us).toArrow()
        gaps = None
        if WITH_GAPS & set(from_counts):
            gaps = events(INTERARRIVAL, records_of(spark, slices, parts, columns_of(INTERARRIVAL)), window_us).toArrow()
        tables |= derive(counts, read_names(inventory), gaps=gaps, window_us=window_us, only=from_counts)
    return {name: tables[name] for name in only}


def audit(table: Table, pieces: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """Compute a table about single events from event fragments."""
    text = with_window(pieced(table), window_us).replace("from pieces", "from {pieces}")
    return pieces.sparkSession.sql(text, pieces=pieces)


def columns_of(text: str) -> list[str]:
    """Return the columns that an SQL text names, so that no other column is read."""
    return [name for name in COLUMNS if re.search(rf"\b{name}\b", text)]
