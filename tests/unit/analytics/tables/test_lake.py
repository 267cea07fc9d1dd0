"""Tables as files: complete or absent, equal when computed again, and other files are left alone."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from telemetry_world import START_US, World

from plait_analytics import TABLES, Lake, take_inventory
from plait_analytics.commands.analyze import analyze
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.engines.java import JavaMissing, find_java
from plait_analytics.tables import lake as lake_module
from plait_analytics.tables.presentation import beside_of
from plait_analytics.tables.table_directories import LakeError

LATER_US = START_US + 3_600_000_000
write_table = pq.write_table


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return World(8).run(100).write(tmp_path / "telemetry")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(analyze, list(map(str, arguments)))


def files(directory: Path) -> set[str]:
    """Return all files of tables that exist, whether a directory shows them or not."""
    folders = (directory / "_files", directory / "_pages")
    return {str(path.relative_to(directory)) for folder in folders for path in folder.rglob("*") if path.is_file()}


def named(directory: Path) -> set[str]:
    """Return the files of tables that the manifest names."""
    tables = json.loads((directory / "manifest.json").read_text())["tables"].values()
    return {file for table in tables for file in (*table["files"], table["json"])}


def shown(directory: Path) -> dict[str, set[str]]:
    """Return what there is in the directory of each table."""
    return {name: {path.name for path in (directory / name).iterdir()} for name in TABLES}


def to_show(directory: Path) -> dict[str, set[str]]:
    """Return the names of the files that the manifest names, by table."""
    tables = json.loads((directory / "manifest.json").read_text())["tables"]
    return {name: {Path(file).name for file in table["files"]} for name, table in tables.items()}


def test_the_manifest_lists_and_describes_all_tables(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(home, "--out", out).exit_code == 0
    assert files(out) == named(out)
    assert shown(out) == to_show(out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert list(manifest["tables"]) == list(TABLES)
    for name, table in manifest["tables"].items():
        rows = pa.concat_tables([pq.read_table(out / file, partitioning=None) for file in table["files"]])
        assert rows.num_rows == table["rows"]
        assert {column: str(kind) for column, kind in zip(rows.column_names, rows.schema.types, strict=True)} == {
            column: reported_text["type"] for column, reported_text in table["columns"].items()
        }
        defined = [*TABLES[name].key, *TABLES[name].columns]
        beside = {added for column in defined for added in beside_of(name, column)}
        assert set(table["columns"]) == {"window", *defined, *beside} - {"window_us"}


def test_pages_are_the_tables_as_json(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(home, "--out", out).exit_code == 0
    for name, reported_text in json.loads((out / "manifest.json").read_text())["tables"].items():
        page, table = json.loads((out / reported_text["json"]).read_text()), Lake(out).read(name)
        assert (page["table"], page["rows_in_all"], page["window_us"]) == (name, table.num_rows, 60_000_000)
        names = [column["name"] for column in page["columns"]]
        assert names == table.column_names
        for row, kept in zip(page["rows"], table.to_pylist(), strict=True):
            cells = dict(zip(names, row, strict=True))
            assert cells.pop("window") == f"{kept.pop('window'):%Y-%m-%dT%H:%M:%SZ}"
            assert cells == kept


def test_the_same_records_are_analysed_once(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run(home, "--out", out)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    again = run(home, "--out", out)
    assert "already" in again.stderr
    assert again.stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")} == before
    World(9, start_us=LATER_US).run(50).write(home / "more")
    earlier = named(out)
    assert run(home, "--out", out).exit_code == 0
    assert shown(out) == to_show(out)
    assert files(out) == named(out) | earlier, "what was current before stays for its grace time"
    age(out / "_files", out / "_pages", out / "_views")
    assert run(home, "--out", out).exit_code == 0
    assert files(out) == named(out), "and then goes"
    assert len(list((out / "_views").glob("*/*"))) == len(TABLES)


def age(*folders: Path) -> None:
    """Make what is in some folders older than the grace time."""
    for folder in folders:
        for path in folder.glob("*/*"):
            os.utime(path, (0, 0))


def test_killed_in_the_middle_the_tables_before_hold(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, inventory = tmp_path / "out", take_inventory([home])
    lake = Lake(out)
    lake.write(compute_by_duckdb(inventory), inventory, "duckdb", 60_000_000)
    before = {name: lake.read(name) for name in TABLES}
    World(9, start_us=LATER_US).run(50).write(home / "more")
    more = take_inventory([home])
    tables = compute_by_duckdb(more)
    for survives in range(len(TABLES)):
        calls = iter(range(len(TABLES)))

        def dies(*arguments: Any, calls: Iterator[int] = calls, last: int = survives, **options: Any) -> None:
            if next(calls) == last:
                raise KeyboardInterrupt
            write_table(*arguments, **options)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(lake_module.pq, "write_table", dies)
            lake.write(tables, more, "duckdb", 60_000_000)
        assert all(lake.read(name).equals(before[name]) for name in TABLES)
    lake.write(tables, more, "duckdb", 60_000_000)
    assert lake.read("brokers").num_rows > before["brokers"].num_rows
    assert shown(out) == to_show(out)
    age(out / "_files", out / "_pages")
    lake.write(tables, more, "duckdb", 60_000_000)
    age(out / "_files", out / "_pages")
    lake.show(json.loads((out / "manifest.json").read_text()))
    assert files(out) == named(out), "nor is anything left of what was killed"


def test_killed_after_the_manifest_the_directories_follow_at_the_next_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(home, "--out", out).exit_code == 0
    World(9, start_us=LATER_US).run(50).write(home / "more")
    with monkeypatch.context() as patched:
        patched.setattr(Lake, "show", lambda *_, **__: sys.exit(9))
        assert run(home, "--out", out).exit_code == 9
    assert shown(out) != to_show(out)
    assert "already" in run(home, "--out", out).stderr
    assert shown(out) == to_show(out)


def test_a_directory_of_something_else_is_not_replaced(home: Path, tmp_path: Path) -> None:
    (tmp_path / "brokers").mkdir()
    refused = run(home, "--out", tmp_path)
    assert refused.exit_code == 1
    assert "brokers was not made by this version" in refused.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name != "telemetry"] == ["brokers"]


def test_a_directory_that_is_no_lake_is_left_alone(home: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"name": "an app"}')
    refused = run(home, "--out", tmp_path)
    assert refused.exit_code == 1
    assert "is no manifest of this version" in refused.stderr
    assert (tmp_path / "manifest.json").read_text() == '{"name": "an app"}'
    with pytest.raises(LakeError, match="no table"):
        Lake(tmp_path / "empty").read("brokers")


def test_the_report_is_for_people_and_for_programs(home: Path) -> None:
    found = json.loads(run(home, "--json").stdout)
    assert (found["brokers"], found["events"], found["audited"]) == (3, 100, 100)
    assert found["accounted"] < 100
    lines = run(home).stdout.splitlines()
    assert lines == found["lines"]
    assert lines[1].startswith("events      100 published")


def test_skipped_segments_are_reported_and_no_records_are_an_error(home: Path, tmp_path: Path) -> None:
    damaged = min(home.glob("broker-1/*.seg"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    reported = run(home)
    assert reported.exit_code == 0
    damaged.write_bytes(b"x" * 200)
    assert f"left out: {damaged}: it is no segment" in run(home).stderr
    nothing = run(tmp_path / "nowhere")
    assert nothing.exit_code == 1
    assert "there are no records" in nothing.stderr
    assert run(home, "--master", "local[1]").exit_code == 2


def test_java_is_found_or_its_absence_explained_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="does not run"):
        find_java()
    for version, reported_text in (('"17.0.15"', None), ('"21"', None), ('"11.0.2"', "is 11"), ('"1.8.0_300"', "is 8")):
        java.write_text(f"#!/bin/sh\necho 'openjdk version {version} 2025' >&2\n")
        os.chmod(java, stat.S_IRWXU)
        if reported_text is None:
            assert find_java() == tmp_path.resolve()
            continue
        with pytest.raises(JavaMissing, match=reported_text) as missing:
            find_java()
        assert "\n" not in str(missing.value)
        assert "--engine duckdb" in missing.value.hint
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="not installed"):
        find_java()
