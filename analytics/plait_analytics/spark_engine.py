"""The tables by Spark: in this process's own JVM, or on a cluster by --master.

`transform` is a pure function of data frames, whatever they are read from. What Spark does by default and should not is
set here, each with its reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from .batches import slices_of
from .inventory import Inventory
from .java import find_java
from .names import read_names
from .spark_source import records_of
from .tables import TABLES, WINDOW_US, Table, text_of

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


def transform(table: Table, records: DataFrame, names: DataFrame, window_us: int = WINDOW_US) -> DataFrame:
    """A table of records."""
    text = text_of(table, window_us).replace("from records", "from {records}").replace("join names", "join {names}")
    given = {"names": names} if "{names}" in text else {}
    return records.sparkSession.sql(text, records=records, **given)


def compute(
    spark: SparkSession,
    inventory: Inventory,
    *,
    window_us: int = WINDOW_US,
    only: Iterable[str] = TABLES,
    parts: int = 2,
) -> Mapping[str, pa.Table]:
    """The tables of all records of an inventory. They are small, so they come to the driver; records never do."""
    records = records_of(spark, slices_of(inventory.segments), parts).persist()
    names = spark.createDataFrame(read_names(inventory))
    try:
        return {name: transform(TABLES[name], records, names, window_us).toArrow() for name in only}
    finally:
        records.unpersist()
