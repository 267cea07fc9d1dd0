"""`plait analyze live`: tables that follow running brokers, by Spark's structured streaming.

Workers count what they read; Spark adds the counts up by windows of event time. A window closes when the watermark
passes its end, and then becomes rows of the tables, once. Batches are written by number (`live_lake.py`), so repeating
one after a crash changes nothing.
"""

from __future__ import annotations

import json
import math
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from plait_core.values import Json

from ..records.counts import KEY, LEAST, MOST, SUMS
from ..records.counts import SCHEMA as COUNTS
from ..records.id_names import read_names
from ..records.inventory import take_inventory
from ..records.stream_offsets import GOOD, LATE, ODD
from .live_lake import LiveLake
from .live_source import FORMAT, LiveSource

CHECKPOINT: Final = "checkpoint"

OBSERVED: Final = "arrivals"

STARTS_MAX: Final = 5
_TOO_BUSY: Final = "failed to connect back"
"""Spark's error when the process that it asks for offsets does not connect within ten seconds, a fixed timeout."""


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """Settings of a live analysis. Window, lateness and directories belong to its checkpoint and must not change."""

    directories: Sequence[str]
    out: Path
    window_us: int = 10_000_000
    late_us: int = 10_000_000
    """Microseconds that a window stays open for late records."""
    every_s: float = 1.0
    """Seconds between two batches. Below a third of a second, Spark's own cost of a batch exceeds it."""
    records_max: int = 4_000_000
    """Records of a batch during a backlog. Any batch costs half a second; this many records take under two."""
    parts: int = 2


def source(spark: SparkSession, settings: LiveSettings) -> DataFrame:
    """Return the streaming data frame: partial counts with the state of their records."""
    spark.dataSource.register(LiveSource)
    options = {
        "directories": json.dumps(list(settings.directories)),
        "parts": str(settings.parts),
        "window_us": str(settings.window_us),
        "late_us": str(settings.late_us),
        "records_max": str(settings.records_max),
    }
    return spark.readStream.format(FORMAT).options(**options).load()


def windowed(arrivals: DataFrame, settings: LiveSettings) -> DataFrame:
    """Return the counts of closed windows.

    The source counts late records by its own rule. It is never laxer than Spark's, so all uncounted records are known.
    """
    sums = {name: F.sum(F.when(F.col("state") == state, F.col("records")).otherwise(0))
            for name, state in (("good", GOOD), ("late", LATE), ("odd", ODD))}  # fmt: skip
    observed = arrivals.observe(
        OBSERVED, *(F.coalesce(value, F.lit(0)).alias(name) for name, value in sums.items()),
        F.max(F.when(F.col("state") == GOOD, F.col("ts_max"))).alias("newest_us"),
    )  # fmt: skip
    windows = F.window(F.col("at"), f"{settings.window_us} microseconds")
    values = [F.sum(name).alias(name) for name in SUMS]
    values += [F.min(name).alias(name) for name in LEAST]
    values += [F.max(name).alias(name) for name in MOST]
    return (
        observed.where(F.col("state") == GOOD)
        .withWatermark("at", f"{settings.late_us} microseconds")
        .groupBy(windows.alias("window"), *KEY)
        .agg(*values)
        .select(*COUNTS.names)
    )


def start(spark: SparkSession, settings: LiveSettings, *, once: bool = False) -> tuple[StreamingQuery, LiveLake]:
    """Start the query. Return it with the lake that it writes to. `once`: stop at the end of what exists now."""
    settings.out.mkdir(parents=True, exist_ok=True)
    lake = LiveLake(settings.out, settings.window_us)

    def write(closed: DataFrame, batch: int) -> None:
        counts = closed.toArrow()
        if counts.num_rows:
            lake.append(batch, counts.cast(COUNTS), _names(settings))

    writer = (
        windowed(source(spark, settings), settings)
        .writeStream.foreachBatch(write)
        .outputMode("append")
        .option("checkpointLocation", str(settings.out / CHECKPOINT))
        .queryName("plait-live")
    )
    if once:
        return writer.trigger(availableNow=True).start(), lake
    return writer.trigger(processingTime=f"{settings.every_s} seconds").start(), lake


def run(spark: SparkSession, settings: LiveSettings, *, once: bool, report: Callable[[str], None]) -> int:
    """Run the query until it ends or a signal stops it. Report progress, write the status, return the exit code."""
    ended = threading.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: ended.set())
    for attempt in range(STARTS_MAX):
        query, lake = start(spark, settings, once=once)
        failed = follow(query, lake, ended, report)
        if failed is None:
            return 0
        if _TOO_BUSY not in failed or attempt == STARTS_MAX - 1:
            report(f"it stopped: {reason(failed)}")
            return 1
        report("Python did not start within Spark's ten seconds on this busy machine; retrying")
    raise AssertionError("the last attempt returns")


def follow(query: StreamingQuery, lake: LiveLake, ended: threading.Event, report: Callable[[str], None]) -> str | None:
    """Follow the query until it ends: report progress and write pages. Return the reason of a failure, else None."""
    totals = Totals()
    while True:
        last = ended.wait(0.2) or not query.isActive
        if last and query.isActive:
            query.stop()
        try:
            for progress in totals.take(query):
                report(progress_line(progress))
                lake.write_status(totals.status())
            lake.show(math.inf if last else monotonic())
        except OSError as error:  # pages are optional; a batch that cannot be written ends the query
            report(f"the pages are outdated: {error.strerror}")
        if last:
            failed = query.exception()
            return None if failed is None else str(failed)


class Totals:
    """Records counted in the batches of this run, by state."""

    def __init__(self) -> None:
        self.counts = {"good": 0, "late": 0, "odd": 0}
        self._last = ("", -1)
        self._at_us = 0

    def take(self, query: StreamingQuery) -> list[Any]:
        """Return the new batches that have records."""
        newest, found = query.lastProgress, []
        if newest is None or (newest["timestamp"], newest["batchId"]) <= self._last:
            return []  # reading the last progress is much cheaper than reading a hundred
        for progress in query.recentProgress:
            at = (progress["timestamp"], progress["batchId"])
            if at <= self._last:
                continue
            self._last = at
            observed = progress["observedMetrics"].get(OBSERVED)
            if observed is None or not sum(observed[name] or 0 for name in self.counts):
                continue
            for name in self.counts:
                self.counts[name] += observed[name] or 0
            self._at_us = max(self._at_us, observed["newest_us"] or 0)
            found.append(progress)
        return found

    def status(self) -> Json:
        """Return the content of `live.json`."""
        return {"at": self._last[0], "batch": self._last[1], "newest_us": self._at_us, **self.counts}


def progress_line(progress: Any) -> str:
    """Return a line of progress for one batch."""
    observed = progress["observedMetrics"].get(OBSERVED)
    line = f"batch {progress['batchId']:,}"
    if observed is not None:
        took_s = max(progress["batchDuration"], 1) / 1000
        records = sum(observed[name] or 0 for name in ("good", "late", "odd"))
        line += f": {records:,} records in {took_s:.1f} s"
        line += "".join(f", {observed[name]:,} {name}" for name in ("late", "odd") if observed[name])
    return line


def _names(settings: LiveSettings) -> pa.Table:
    return read_names(take_inventory(settings.directories, verify=False))


def reason(text: str) -> str:
    """Return the line of Spark's error text that names the cause."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if "Error: " in line), lines[0] if lines else "unknown")[:300]
