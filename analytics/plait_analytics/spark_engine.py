"""The tables by Spark: in this process's own JVM, or on a cluster by --master.

`counting` and `events` are pure functions of data frames, whatever these are read from. What Spark does by default
and should not is set here, each with its reason.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .batches import COLUMNS, slices_of
from .counts import MERGING
from .derived import COUNTED, derive
from .gaps import GAPS, WITH_GAPS
from .inventory import Inventory
from .java import find_java
from .names import read_names
from .portable import with_window
from .spark_source import counts_of, records_of
from .table import WINDOW_US
from .tables import TABLES

LOCAL: Final = "local[2,4]"
"""Two threads; a task that fails is tried four times: plain local[2] gives up at the first."""


def settings(master: str, parts: int) -> dict[str, str]:
    """What a session is told."""
    local = master.startswith("local")
    return {
        "spark.master": master,
        "spark.app.name": "plait analyze",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",  # a port that nobody asked for
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(parts),  # the default of 200 costs fifteen times as much on two cores
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.log.level": "ERROR",
        **({"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if local else {}),
    }


@contextmanager
def session(master: str = LOCAL, parts: int = 2, scratch: Path | None = None) -> Iterator[SparkSession]:
    """A session, ended with its JVM; JavaMissing when there is none to be had."""
    java_home = find_java()
    os.environ.setdefault("JAVA_HOME", str(java_home))
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers would run whatever python3 is in the path
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder
    for key, value in settings(master, parts).items():
        builder = builder.config(key, value)
    if scratch is not None:
        builder = builder.config("spark.local.dir", str(scratch)).config("spark.sql.warehouse.dir", str(scratch))
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def counting(counts: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """Partial counts, each key once: the same for batches and for live records."""
    return counts.sparkSession.sql(
        with_window(MERGING, window_us).replace("from counts", "from {counts}"), counts=counts
    )


def events(text: str, records: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """What a text about single events makes of records."""
    return records.sparkSession.sql(
        with_window(text, window_us).replace("from records", "from {records}"), records=records
    )


def compute(
    spark: SparkSession,
    inventory: Inventory,
    *,
    window_us: int = WINDOW_US,
    only: Iterable[str] = TABLES,
    parts: int = 2,
) -> Mapping[str, pa.Table]:
    """The tables of all records of an inventory. They are small, so they come to the driver; records never do."""
    only, slices = list(only), slices_of(inventory.segments)
    tables: dict[str, pa.Table] = {}
    for name in only:
        if TABLES[name].of == "records":
            records = records_of(spark, slices, parts, columns_of(TABLES[name].sql))
            tables[name] = events(TABLES[name].sql, records, window_us).toArrow()
    if wanted := [name for name in only if name in COUNTED]:
        counts = counting(counts_of(spark, slices, parts, window_us), window_us).toArrow()
        gaps = None
        if WITH_GAPS & set(wanted):
            gaps = events(GAPS, records_of(spark, slices, parts, columns_of(GAPS)), window_us).toArrow()
        tables |= derive(counts, read_names(inventory), gaps=gaps, window_us=window_us, only=wanted)
    return {name: tables[name] for name in only}


def columns_of(text: str) -> list[str]:
    """Those that a text names: what it does not need is not read."""
    return [name for name in COLUMNS if re.search(rf"\b{name}\b", text)]
