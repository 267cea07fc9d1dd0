"""Any tool opens the directory of a table and gets the current rows, also while the table is replaced."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from telemetry_world import START_US, World

import plait_analytics
from plait_analytics import TABLES, Lake, take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.live import live_lake as live_lake_module
from plait_analytics.live.live_lake import LiveLake
from plait_analytics.records.batches import read_counts, slices_of
from plait_analytics.records.counts import SCHEMA as COUNTS
from plait_analytics.records.id_names import read_names
from plait_analytics.tables import table_directories
from plait_analytics.tables.derive_tables import COUNTED, merged
from plait_analytics.tables.table_directories import LakeError

WINDOW_US = 10_000_000
READS = 12
"""Reads by each tool while another process replaces the tables."""

Tool = Callable[[Path], pa.Table]


def by_pandas(directory: Path) -> pa.Table:
    pandas = pytest.importorskip("pandas", reason="pandas is not here: make setup-analytics")
    return pa.Table.from_pandas(pandas.read_parquet(directory), preserve_index=False)


def by_polars(directory: Path) -> pa.Table:
    polars = pytest.importorskip("polars", reason="polars is not here: make setup-analytics")
    return polars.read_parquet(directory).to_arrow()


def by_pyarrow(directory: Path) -> pa.Table:
    return ds.dataset(directory).to_table()


def by_duckdb(directory: Path) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.sql(f"from '{directory}/*.parquet'").to_arrow_table()


def by_plait(directory: Path) -> pa.Table:
    return plait_analytics.read(directory.parent, directory.name)


DIRECTORY_TOOLS = (by_pandas, by_polars, by_pyarrow, by_duckdb)
TOOLS = (*DIRECTORY_TOOLS, by_plait)


def rows(table: pa.Table, name: str) -> list[dict[str, Any]]:
    """Return the rows in the order of the key, which is unique."""
    key = [("window" if part == "window_us" else part, "ascending") for part in TABLES[name].key]
    return [
        {column: None if value != value else value for column, value in row.items()}  # pandas' NaN
        for row in table.sort_by(key).to_pylist()
    ]


@pytest.fixture(scope="module", autouse=True)
def polars_runtime(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let polars open the descriptors that it keeps for as long as the process runs."""
    if find_spec("polars") is not None:
        path = tmp_path_factory.mktemp("polars") / "one.parquet"
        pq.write_table(pa.table({"one": [1]}), path)
        by_polars(path)


@pytest.fixture(scope="module")
def telemetry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return World(5).run(2_000).write(tmp_path_factory.mktemp("telemetry"))


@pytest.fixture(scope="module")
def out(telemetry: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tables that were replaced once, so that replaced files are there as well."""
    directory = tmp_path_factory.mktemp("tables")
    inventory = take_inventory([telemetry])
    early = compute_by_duckdb(inventory, window_us=WINDOW_US)
    Lake(directory).write(early, inventory, "duckdb", WINDOW_US)
    Lake(directory).write(compute_by_duckdb(inventory), inventory, "duckdb", 60_000_000)
    return directory


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_open_directories_and_get_the_current_rows(tool: Tool, out: Path) -> None:
    for name in TABLES:
        expected, found = Lake(out).read(name), tool(out / name)
        assert found.column_names == expected.column_names, name
        assert rows(found, name) == rows(expected, name), name
    assert len(list((out / "_files" / "brokers").iterdir())) == 2, "the replaced file is there, and is not read"


@pytest.mark.parametrize("tool", TOOLS)
def test_tools_open_tables_of_a_live_analysis(
    tool: Tool, telemetry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_lake_module, "JOINED_FILES", 3)
    inventory = take_inventory([telemetry])
    counts = merged(pa.Table.from_batches(read_counts(slices_of(inventory.segments), WINDOW_US), COUNTS), WINDOW_US)
    lake, names = LiveLake(tmp_path, WINDOW_US), read_names(inventory)
    for batch, window in enumerate(sorted(pc.unique(counts["window_us"]).to_pylist())[:5]):
        lake.append(batch, counts.filter(pc.equal(counts["window_us"], window)), names)
        for name in COUNTED:
            assert rows(tool(tmp_path / name), name) == rows(Lake(tmp_path).read(name), name), (batch, name)
    assert len({row["window"] for row in rows(tool(tmp_path / "brokers"), "brokers")}) == 5


def test_a_copy_of_the_tables_is_complete(out: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-a", str(out), str(tmp_path / "copy")], check=True)
    assert by_pyarrow(tmp_path / "copy" / "brokers").equals(by_pyarrow(out / "brokers"))


def test_a_file_system_without_hard_links_gets_copies(
    telemetry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(table_directories.os, "link", refuses)
    inventory = take_inventory([telemetry])
    Lake(tmp_path).write(compute_by_duckdb(inventory), inventory, "duckdb", 60_000_000)
    assert rows(by_duckdb(tmp_path / "brokers"), "brokers") == rows(Lake(tmp_path).read("brokers"), "brokers")


REPLACING = """
import sys
from plait_analytics import Lake, take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
out, *homes = sys.argv[1:]
inventories = [take_inventory(homes[:1]), take_inventory(homes)]
tables = [compute_by_duckdb(inventory, only=["brokers", "links"]) for inventory in inventories]
for number in range(1_000_000):
    Lake(out).write(tables[number % 2], inventories[number % 2], "duckdb", 60_000_000)
    if number == 1:
        print("replacing", flush=True)
"""


@contextmanager
def replaced_all_the_time(out: Path, *homes: Path) -> Iterator[None]:
    script = out.with_name("replacing.py")  # not -c, for which DuckDB prints its progress
    script.write_text(REPLACING)
    command = [sys.executable, str(script), str(out), *map(str, homes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "replacing\n"
            yield
            assert process.poll() is None, "it still replaces"
        finally:
            process.kill()


def test_a_table_that_is_replaced_while_it_is_read_is_the_old_or_the_new_one(telemetry: Path, tmp_path: Path) -> None:
    """A directory gives one of the two tables, or the tool reports a missing file. The manifest always gives one."""
    more = World(9, start_us=START_US + 3_600_000_000).run(60).write(tmp_path / "more")
    inventories = [take_inventory([telemetry]), take_inventory([telemetry, more])]
    valid = []
    for number, inventory in enumerate(inventories):
        Lake(tmp_path / str(number)).write(
            compute_by_duckdb(inventory, only=["brokers", "links"]), inventory, "duckdb", 60_000_000
        )
        valid.append(rows(Lake(tmp_path / str(number)).read("brokers"), "brokers"))
    assert valid[0] != valid[1]
    read = 0
    with replaced_all_the_time(tmp_path / "out", telemetry, more):
        for tool in (by_pyarrow, by_duckdb, by_plait):
            for _ in range(READS):
                try:
                    found = rows(tool(tmp_path / "out" / "brokers"), "brokers")
                except (FileNotFoundError, duckdb.IOException):
                    assert tool is not by_plait
                    continue
                assert found in valid
                read += 1
    assert read >= READS


def test_replaced_files_stay_for_readers_that_took_them_from_the_manifest(telemetry: Path, tmp_path: Path) -> None:
    inventory = take_inventory([telemetry])
    lake = Lake(tmp_path)
    lake.write(compute_by_duckdb(inventory, window_us=WINDOW_US), inventory, "duckdb", WINDOW_US)
    before, files = rows(lake.read("brokers"), "brokers"), lake.files("brokers")
    lake.write(compute_by_duckdb(inventory), inventory, "duckdb", 60_000_000)
    assert rows(pa.concat_tables(map(lake.read_file, files)), "brokers") == before
    assert rows(lake.read("brokers"), "brokers") != before


def test_read_says_what_is_missing(out: Path, tmp_path: Path) -> None:
    with pytest.raises(LakeError, match="there is no table nonsense"):
        plait_analytics.read(out, "nonsense")
    with pytest.raises(LakeError, match="there is no table brokers"):
        plait_analytics.read(tmp_path, "brokers")
