"""Telemetry analysis: tables by Spark, DuckDB and Polars, live and from a backlog, over the same segments.

"Gold" is the counts that most tables follow from (`plait_analytics.records.counts`). Spark's workers count while they
read, DuckDB counts by SQL, Polars by a group-by with fewer columns. One core that only counts is the reference. Spark's
rates are those of a warm session; its cold start is a figure of its own. On a busy machine compare figures of one run,
and the rate of two cores by processor time (`cpu_time.py`).
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from plait_analytics import Inventory, take_inventory
from plait_analytics.engines import duckdb_engine
from plait_analytics.records.batches import read_counts, read_slices, slices_of
from plait_analytics.records.compaction import compact
from plait_core.telemetry import RecordKind, record_dtype
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.writer import SegmentLimits, SegmentWriter

from .groups import Group, Session
from .measurement.baselines import WrongAnswer
from .measurement.cpu_time import spent_s
from .reports import Figure, Target

RECORDS: Final = 10_000_000
START_US: Final = 1_790_000_000_000_000
APART_US: Final = 5
"""Microseconds between two events: with their deliveries 800,000 records a second, the live rate."""
MINUTE_US: Final = 60_000_000
LIVE_PER_S: Final = 800_000
LIVE_S: Final = 30.0
LIVE_WINDOW_US: Final = 1_000_000
STEP_S: Final = 0.05
"""Seconds between two writes of the live producer, as in a broker's writer."""
TIMEOUT_S: Final = 300.0
"""Timeout of one step."""
REPEATED_S: Final = 60.0
"""Seconds after which a measurement is not repeated, except for the second time: the first is a warm-up."""

BY_PROCESSOR_TIME: Final = "two cores, by processor time"

FIRST_JOB: Final = """
from plait_analytics.engines.spark_session import session
with session() as spark:
    spark.range(1000).selectExpr("id % 7 as k").groupBy("k").count().toArrow()
    print("done", flush=True)
"""


def analytics_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures; those of Spark if it is installed."""
    home = Path(tempfile.mkdtemp(prefix="plait-analytics-bench-", dir=Path.cwd()))  # a real disk
    try:
        session.progress("records")
        inventory = recorded(home / "records", session.rng("records"), session.size(RECORDS, 20_000))
        beside = dict(_beside(session, inventory))
        if importlib.util.find_spec("pyspark") is None or session.quick:
            session.progress(f"Spark is left out: {'--quick' if session.quick else 'make setup-analytics'}")
            for (name, engine), rate in beside.items():
                yield Figure(f"{name}, by {engine}", rate, "/s")
            return
        yield _cold_start(session)
        yield from _by_spark(session, inventory, home, beside)
    finally:
        shutil.rmtree(home)


def _beside(session: Session, inventory: Inventory) -> Iterator[tuple[tuple[str, str], float]]:
    session.progress("one core that only counts")
    took_s = _timed(lambda: list(read_counts(slices_of(inventory.segments), MINUTE_US)))
    yield ("gold from segments", "one core of numpy"), inventory.records / took_s
    session.progress("DuckDB")
    for name, table in (("gold from segments", "subscriptions"), ("journeys", "journeys")):
        took_s = _timed(lambda table=table: duckdb_engine.compute_by_duckdb(inventory, only=[table]))  # type: ignore[misc]
        yield (name, "DuckDB"), inventory.records / took_s
    if importlib.util.find_spec("polars") is None:
        session.progress("Polars is not here: left out (make setup-analytics)")
        return
    session.progress("Polars")
    polars: Any = importlib.import_module("polars")

    def by_polars() -> None:
        columns = ["ts_us", "broker", "kind", "subject", "bucket", "weight", "bytes", "delay_us"]
        frame = polars.from_arrow(pa.Table.from_batches(read_slices(slices_of(inventory.segments), columns)))
        window = (polars.col("ts_us") - polars.col("ts_us") % MINUTE_US).alias("window")
        frame.group_by(window, "broker", "kind", "subject", "bucket").agg(
            polars.col("weight").sum(), polars.col("bytes").sum(), polars.col("delay_us").max()
        )

    yield ("gold from segments", "Polars"), inventory.records / _timed(by_polars)


def _cold_start(session: Session) -> Figure:
    """Measure a process from its start to the first job's result."""
    from plait_analytics.engines.java import find_java
    from plait_analytics.engines.jvm_class_archive import archive_path

    if not archive_path(find_java()).is_file():
        session.progress("the archive of Java's classes: plait analyze prepare")
        subprocess.run([sys.executable, "-m", "plait", "analyze", "prepare"], check=True, stderr=subprocess.DEVNULL)
    session.progress("Spark starts")
    took_s = min(_first_job({}) for _ in range(2))
    session.progress("Spark starts without the archive")
    without_s = _first_job({"PLAIT_SPARK_ARCHIVE": os.devnull})
    return Figure("cold start to the first job", took_s, "s", Target("<=", 4.0), {"without the archive": without_s})


def _first_job(settings: dict[str, str]) -> float:
    began = time.perf_counter()
    command = [sys.executable, "-c", FIRST_JOB]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ | settings
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"done\n":
            raise WrongAnswer("Spark did not start")
        return time.perf_counter() - began


def _by_spark(
    session: Session, inventory: Inventory, home: Path, beside: dict[tuple[str, str], float]
) -> Iterator[Figure]:
    from plait_analytics.engines import spark_engine, spark_session

    session.progress("compaction")
    compact(inventory, home / "bronze", now=datetime.now(UTC), keep_days=36_500)
    parquet = take_inventory([home / "bronze"])
    with spark_session.session() as spark:
        for name, of, table, target in (
            ("gold from segments", inventory, "subscriptions", 4_000_000),
            ("gold from Parquet", parquet, "subscriptions", 7_000_000),
            ("journeys", inventory, "journeys", 1_500_000),
        ):
            session.progress(f"{name}, by Spark")
            tables: dict[str, Any] = {}

            def once(of: Inventory = of, table: str = table, tables: dict[str, Any] = tables) -> None:
                tables.update(spark_engine.compute_by_spark(spark, of, only=[table]))

            took_s, took_cpu_s = _cheapest(once)
            if sum(tables[table]["delivered"].to_pylist()) != inventory.records // 4 * 3:
                raise WrongAnswer(f"{name}: other deliveries than there were")
            others = {engine: rate for (what, engine), rate in beside.items() if what == name}
            others[BY_PROCESSOR_TIME] = 2 * inventory.records / took_cpu_s
            yield Figure(f"{name}, by Spark", inventory.records / took_s, "/s", Target(">=", target), others)
        session.progress("a backlog")
        yield _backlog(spark, inventory, home)
        session.progress(f"live, {LIVE_PER_S:,} records/s for {LIVE_S:.0f} s")
        yield from _live(spark, home)
        yield Figure(
            "the driver's heap, the most that was in use after a collection", _heap_mb(spark), "MB", Target("<=", 1024)
        )


def _cheapest(work: Callable[[], object]) -> tuple[float, float]:
    """Return the least wall time and the least processor time of several runs."""
    spent: list[float] = []

    def once() -> None:
        before = spent_s()
        work()
        spent.append(spent_s() - before)

    return _timed(once, 5), min(spent)


def _heap_mb(spark: Any) -> float:
    """Return the heap in use after a collection. The heap is limited to 1 GiB, so this shows the margin."""
    pools = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    used = [pool.getCollectionUsage() for pool in pools if str(pool.getType()) == "Heap memory"]
    return sum(int(each.getUsed()) for each in used if each is not None) / (1 << 20)


def _settings(watched: Path, out: Path) -> Any:
    from plait_analytics.live.live_query import LiveSettings

    return LiveSettings([str(watched)], out, LIVE_WINDOW_US, 2 * LIVE_WINDOW_US)


def _backlog(spark: Any, inventory: Inventory, home: Path) -> Figure:
    from plait_analytics.live.live_query import start

    before_s = spent_s()
    query, _ = start(spark, _settings(home / "records", home / "caught-up"), once=True)
    if not query.awaitTermination(TIMEOUT_S):
        query.stop()
        raise WrongAnswer(f"the backlog was not read in {TIMEOUT_S:.0f} s")
    batches = [(_good(at), at["batchDuration"] / 1000) for at in _batches(query)]
    counted = sum(records for records, _ in batches)
    if counted != inventory.records:
        raise WrongAnswer(f"{counted:,} of {inventory.records:,} records were counted")
    full = sorted(records / took_s for records, took_s in batches[1:-1] or batches)
    best = {"the best batch": full[-1], BY_PROCESSOR_TIME: 2 * counted / (spent_s() - before_s)}
    return Figure("catching up, the middle of its batches", full[len(full) // 2], "/s", Target(">=", 2_000_000), best)


def _live(spark: Any, home: Path) -> Iterator[Figure]:
    from plait_analytics.live.live_query import follow, start

    (home / "running").mkdir()
    settings = replace(_settings(home / "running", home / "live"), records_max=10_000_000)
    query, lake = start(spark, settings)
    ended = threading.Event()
    beside = threading.Thread(target=follow, args=(query, lake, ended, lambda _: None))  # as the command does
    beside.start()
    try:
        began_s, before_s = time.monotonic(), spent_s()
        wrote = _written_live(home / "running")
        cores = (spent_s() - before_s) / (time.monotonic() - began_s)
        deadline = time.monotonic() + TIMEOUT_S
        while (counted := sum(map(_good, _batches(query)))) < wrote["records"]:
            if time.monotonic() > deadline or not query.isActive:
                break
            time.sleep(0.2)
    finally:
        ended.set()
        beside.join(TIMEOUT_S)
    batches = _batches(query)
    if counted != wrote["records"]:
        raise WrongAnswer(f"{counted:,} of {wrote['records']:,} live records were counted: {query.exception()}")
    settled = batches[len(batches) // 3 :]
    lags = sorted(_committed_s(at) - at["observedMetrics"]["arrivals"]["newest_us"] / 1e6 for at in settled)
    spent = sorted(at["batchDuration"] / 1000 for at in settled)
    yield Figure(
        "live records, sustained", wrote["records"] / wrote["seconds"], "/s", Target(">=", LIVE_PER_S * 0.99),
        {"cores, the writer's included": cores},
    )  # fmt: skip
    yield Figure(
        "newest record to commit, p95", lags[math.ceil(0.95 * len(lags)) - 1], "s", Target("<=", 1.0),
        {"median": lags[len(lags) // 2], "a batch, median": spent[len(spent) // 2]},
    )  # fmt: skip


def _written_live(directory: Path) -> Any:
    """Run the live producer as its own process and return its report."""
    command = [
        sys.executable,
        "-m",
        "plait_lab.benchmarks.analytics_bench",
        str(directory),
        str(LIVE_PER_S),
        str(LIVE_S),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as producer:
        output, _ = producer.communicate(timeout=TIMEOUT_S)
    return json.loads(output)


def _good(progress: Any) -> int:
    return int((progress["observedMetrics"].get("arrivals") or {"good": 0})["good"])


def _batches(query: Any) -> list[Any]:
    """Return the batches that have records, in order."""
    found = [at for at in query.recentProgress if _good(at)]
    return sorted(found, key=lambda at: at["batchId"])


def _committed_s(progress: Any) -> float:
    began = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
    return float(began + progress["batchDuration"] / 1000)


def recorded(directory: Path, rng: np.random.Generator, count: int) -> Inventory:
    """Write segments of one broker: a quarter of the records are published events, the others their deliveries."""
    events = count // 4
    records = np.zeros(4 * events, record_dtype())
    sequence = np.repeat(np.arange(1, events + 1, dtype=np.uint64), 4)
    publish = np.arange(4 * events) % 4 == 0
    records["ts_us"] = records["published_us"] = START_US + sequence.astype(np.int64) * APART_US
    records["publisher"], records["sequence"] = sequence % 64 + 1, sequence
    records["subject"] = np.where(publish, 0, rng.integers(1, 50, len(records)) * 4 + np.arange(len(records)) % 4)
    records["delay_us"] = np.where(publish, 0, rng.lognormal(8, 1, len(records)).astype(np.uint32))
    records["size"], records["count"], records["weight"], records["hops"] = 200, ~publish, 1, 1
    records["expected"] = 3
    records["kind"] = np.where(publish, int(RecordKind.PUBLISH), int(RecordKind.DELIVERY))
    segments = SegmentWriter(directory, 1, START_US, SegmentLimits())
    segments.open()
    step = RING_RECORDS
    for first in range(0, len(records), step):
        segments.write([memoryview(records[first : first + step].tobytes())], 0.0)
    segments.seal()
    return take_inventory([directory])


def _timed(work: Callable[[], object], times: int = 3) -> float:
    """Return the shortest time in seconds. The first run is a warm-up."""
    best, until = float("inf"), time.monotonic() + REPEATED_S
    for run in range(times):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
        if run and time.monotonic() > until:
            break
    return best


def produce(home: Path, per_s: int, seconds: float) -> None:
    """Write a broker's telemetry at a fixed rate, dated as it is written."""
    step = round(per_s * STEP_S)
    rng, records = np.random.default_rng(1), np.zeros(step, record_dtype())
    records["kind"] = np.where(np.arange(step) % 4 == 0, 1, 4)
    records["publisher"], records["subject"] = rng.integers(1, 64, step), rng.integers(1, 200, step)
    records["delay_us"], records["weight"], records["size"] = rng.lognormal(8, 1, step).astype(np.uint32), 1, 200
    segments = SegmentWriter(home, 1, time.time_ns() // 1000, SegmentLimits())
    segments.open()
    began, written = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        if written >= elapsed * per_s:
            time.sleep(STEP_S / 10)
            continue
        records["ts_us"] = time.time_ns() // 1000
        segments.write([memoryview(records.tobytes())], elapsed)
        written += step
    print(json.dumps({"records": written, "seconds": time.monotonic() - began}))
    segments.seal()


GROUP: Final = Group("analytics", "Analysis of telemetry: batches, a backlog, live", analytics_figures)

if __name__ == "__main__":
    produce(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
