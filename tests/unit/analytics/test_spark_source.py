"""Spark opens tables and telemetry in a session in which nothing is registered. It runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import spark
from telemetry_world import BROKERS, START_US, SUBSCRIPTIONS, World, publisher_name

from plait_analytics import TABLES, Lake, take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.engines.source_options import SourceOptions
from plait_core import PlaitError
from plait_core.ids import id_text
from plait_core.telemetry import RecordKind

plait_source = pytest.importorskip(
    "plait_analytics.engines.plait_source", reason="Spark is not here: make setup-analytics"
)

PATIENCE_S = 280
"""Timeout for a JVM on a busy machine."""

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)

OPENED = ("subscriptions", "unaccounted")
"""The tables that Spark opens here. They have columns of all types, and each query takes seconds."""

SESSION = """
import sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

telemetry, tables, scratch, *names = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    .config("spark.sql.session.timeZone", "UTC").config("spark.local.dir", scratch).getOrCreate()
)

def keep(kind, name, frame):
    pq.write_table(frame.toArrow(), f"{scratch}/{kind}-{name}.parquet")

for name in names:
    keep("parquet", name, spark.read.parquet(f"{tables}/{name}"))
    keep("plait", name, spark.read.format("plait").option("table", name).load(tables))
keep("records", "lost", spark.read.format("plait").option("kinds", "drop,expiry").load(telemetry))

def follow():
    query = (
        spark.readStream.format("plait").option("kinds", "publish").load(telemetry)
        .writeStream.format("parquet").option("checkpointLocation", f"{scratch}/checkpoint")
        .option("path", f"{scratch}/stream").trigger(availableNow=True).start()
    )
    query.awaitTermination()
    print("done", flush=True)

follow()
sys.stdin.readline()
follow()
spark.stop()
"""


@pytest.fixture(scope="module")
def world() -> World:
    return World(5).run(900)


@pytest.fixture(scope="module")
def telemetry(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.write(tmp_path_factory.mktemp("telemetry"))


class Session:
    """Records that a session of Spark has read."""

    def __init__(self, directory: Path, seen: list[int]) -> None:
        self.directory = directory
        self.seen = seen
        """Rows of the stream after its first and its second run."""

    def table(self, kind: str, name: str) -> pa.Table:
        return ds.dataset(self.directory / f"{kind}-{name}.parquet").to_table()


MIDDLE_US = START_US + 10_000_000


@pytest.fixture(scope="module")
def tables(telemetry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, inventory = tmp_path_factory.mktemp("tables"), take_inventory([telemetry])
    Lake(out).write(compute_by_duckdb(inventory, only=["brokers"]), inventory, "duckdb", 60_000_000)
    Lake(out).write(compute_by_duckdb(inventory), inventory, "duckdb", 60_000_000)
    return out


@pytest.fixture(scope="module")
def session(telemetry: Path, tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Session:
    spark.require()
    scratch = tmp_path_factory.mktemp("spark")
    (scratch / "script.py").write_text(SESSION)
    arguments = [telemetry, tables, scratch, *OPENED]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}  # as in a virtual environment that is active
    with subprocess.Popen(
        [sys.executable, scratch / "script.py", *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, cwd=scratch, env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stdin is not None
            assert process.stdout.readline() == "done\n"
            seen = [streamed(scratch).num_rows]
            World(6, start_us=START_US + 3_600_000_000).run(70).write(telemetry / "later")
            process.stdin.write("on\n")
            process.stdin.close()
            assert process.stdout.read() == "done\n"
            assert process.wait() == 0
        finally:
            process.kill()
    return Session(scratch, [*seen, streamed(scratch).num_rows])


def streamed(scratch: Path) -> pa.Table:
    return ds.dataset(scratch / "stream", exclude_invalid_files=True).to_table()


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    key = [("window" if part == "window_us" else part, "ascending") for part in TABLES[name].key]
    return [dict(row) for row in table.sort_by(key).to_pylist()]


@pytest.mark.parametrize("name", OPENED)
@pytest.mark.parametrize("how", ["parquet", "plait"])
def test_spark_opens_tables_and_gets_the_current_rows(how: str, name: str, session: Session, tables: Path) -> None:
    expected = Lake(tables).read(name)
    found = session.table(how, name)
    assert found.column_names == expected.column_names
    assert rows(found, name) == rows(expected, name)


def test_spark_reads_records(session: Session, world: World) -> None:
    found = session.table("records", "lost").to_pylist()
    lost = [facts for (_, _), facts in world.truth.brokers.items()]
    assert Counter(row["kind"] for row in found) == {
        "drop": sum(facts["DROP"] for facts in lost), "expiry": sum(facts["EXPIRY"] for facts in lost)
    }  # fmt: skip
    assert {row["reason"] for row in found} >= {"outbox_items", "expired", "unreachable"}


def test_a_stream_reads_each_record_once_and_goes_on_where_it_was(session: Session) -> None:
    assert session.seen == [900, 970]
    found = streamed(session.directory).to_pylist()
    assert len({(row["publisher"], row["sequence"], row["ts"]) for row in found}) == 970


def read(**options: object) -> list[dict[str, Any]]:
    """Return what a reader gives, as Spark's driver and workers call it."""
    reader = plait_source.PlaitSource({name: str(value) for name, value in options.items()}).reader(None)
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


@pytest.mark.parametrize("name", TABLES)
def test_the_reader_of_tables_gives_the_current_rows(name: str, tables: Path) -> None:
    found = read(path=tables, table=name)
    assert found == Lake(tables).read(name).to_pylist()


def test_records_are_read_with_names_and_words(telemetry: Path, world: World) -> None:
    found = [row for number in range(3) for row in read(path=telemetry / f"broker-{number}")]
    truth: Counter[tuple[str, str]] = Counter()
    for (_, broker), facts in world.truth.brokers.items():
        truth.update({(id_text(broker), RecordKind[kind].name.lower()): n for kind, n in facts.items()})
    assert Counter((row["broker"], row["kind"]) for row in found) == truth
    together = read(paths=json.dumps([str(telemetry / f"broker-{number}") for number in range(3)]))
    assert len(together) == len(found)
    for row in together:
        place = BROKERS.index(int(row["broker"], 16))
        assert row["broker_name"] == f"b{place}"
        if row["kind"] == "delivery":
            assert row["subject_name"] == f"c{place}"
            assert row["bound_us"] == SUBSCRIPTIONS[BROKERS[place], int(row["subject"])]
            assert row["late"] == (0 < row["bound_us"] < row["delay_us"])
        if row["kind"] in ("link", "forward", "arrival"):
            assert row["subject_name"] == f"b{BROKERS.index(int(row['subject'], 16))}"
        if row["publisher"] is not None:
            assert row["publisher_name"] == publisher_name(int(row["publisher"], 16))
    assert Counter(row["cell"] for row in found if row["cell"] is not None) == cells_of(world)


def cells_of(world: World) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, _, _, dz), lifetimes in world.truth.content.items():
        found[dz] += len(lifetimes)
    return found


def test_options_choose_kinds_and_times(telemetry: Path) -> None:
    home, middle = telemetry / "broker-0", datetime.fromtimestamp(MIDDLE_US / 1e6, UTC)
    every = read(path=home)
    found = read(path=home, kinds="delivery, drop", startingTime=f"{middle:%Y-%m-%dT%H:%M:%S}")
    assert found == [row for row in every if row["kind"] in ("delivery", "drop") and row["ts"] >= middle]
    assert 0 < len(found) < len(every)
    early = read(path=home, endingTime=middle.isoformat())
    assert early == [row for row in every if row["ts"] < middle]


def test_a_directory_of_tables_is_not_read_as_telemetry(tables: Path) -> None:
    with pytest.raises(PlaitError, match="has tables: choose one, as in"):
        plait_source.PlaitSource({"path": str(tables)}).schema()


def test_a_task_of_a_table_that_was_replaced_long_ago_says_so(tables: Path, tmp_path: Path) -> None:
    reader = plait_source.PlaitSource({"path": str(tables), "table": "brokers"}).reader(None)
    with pytest.raises(PlaitError, match="the table was replaced long ago, read it again"):
        list(reader.read(plait_source.Files(str(tmp_path / "gone.parquet"))))


def test_streams_and_batches_refuse_the_options_of_each_other() -> None:
    with pytest.raises(PlaitError, match="a stream reads records"):
        plait_source.PlaitSource({"path": ".", "table": "brokers"}).streamReader(None)
    with pytest.raises(PlaitError, match="startingTime latest is for streams"):
        plait_source.PlaitSource({"path": ".", "startingTime": "latest"}).reader(None)


def test_a_stream_from_now_on_begins_with_later_records(telemetry: Path, tmp_path: Path) -> None:
    stream = plait_source.RecordStream(
        SourceOptions({"paths": json.dumps([str(telemetry), str(tmp_path)]), "startingTime": "latest"})
    )
    begin = stream.initialOffset()
    assert stream.latestOffset(begin) == begin, "no record is new"
    World(6, start_us=START_US + 7_200_000_000).run(30).write(tmp_path)
    end = stream.latestOffset(begin)
    read = [row for part in stream.partitions(begin, end) for batch in stream.read(part) for row in batch.to_pylist()]
    assert sum(row["kind"] == "publish" for row in read) == 30
    assert not stream.partitions(end, end)
