"""Compacted records equal the records, roll-ups equal counts of wider windows, summary and page match the tables."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from click.testing import CliRunner, Result
from telemetry_world import BROKERS, START_US, World

from plait_analytics import Lake, take_inventory
from plait_analytics.commands.analyze import analyze
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.records import compaction
from plait_analytics.records.batches import read_counts, slices_of
from plait_analytics.records.compaction import WIDTHS_US, compact, rollup
from plait_analytics.records.counts import KEY
from plait_analytics.records.counts import SCHEMA as COUNTS
from plait_analytics.records.inventory import CATALOGUE, Inventory
from plait_analytics.tables.derive_tables import merged
from plait_analytics.tables.summary import quantile_us, summary
from plait_analytics.tables.tables_reference import page
from plait_core.telemetry import RecordKind, bucket_of

MINUTE_US = 60_000_000
NOW = datetime.fromtimestamp(START_US / 1_000_000, UTC) + timedelta(days=1)
EVENTS = 2500


@pytest.fixture(scope="module")
def world() -> World:
    return World(11).run(EVENTS)


@pytest.fixture
def home(world: World, tmp_path: Path) -> Path:
    return world.write(tmp_path / "telemetry", segment_records=900)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(analyze, list(map(str, arguments)))


def counted(inventory: Inventory, width_us: int = MINUTE_US) -> pa.Table:
    batches = read_counts(slices_of(inventory.segments), width_us)
    return merged(pa.Table.from_batches(batches, COUNTS), width_us).sort_by([(name, "ascending") for name in KEY])


def test_compacted_records_count_as_the_segments_did_and_once(home: Path, tmp_path: Path) -> None:
    before, out = counted(take_inventory([home])), tmp_path / "bronze"
    done = compact(take_inventory([home]), out, now=NOW)
    assert done.records > 1000
    both = take_inventory([home, out])
    assert not both.findings
    assert counted(both).equals(before), "what is in both counts once"
    assert sum(segment.compacted for segment in both.segments) == done.files
    assert compact(both, out, now=NOW).segments == 0, "nothing is compacted twice"
    assert compact(take_inventory([home]), out, now=NOW).segments == 0
    tables = compute_by_duckdb(both, only=["journeys", "brokers"])
    assert sum(tables["journeys"]["events"].to_pylist()) == EVENTS
    files = [path for path in out.rglob("*.parquet") if "rollups" not in path.parts]
    assert sum(pq.read_metadata(path).num_rows for path in files) == done.records


def test_killed_in_the_middle_a_segment_is_compacted_or_it_is_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, out = counted(take_inventory([home])), tmp_path / "bronze"
    monkeypatch.setattr(compaction, "FILE_RECORDS", 700)
    right, writes = compaction.replace, 0
    for survives in (0, 2, 5, 9, 17):
        left = iter(range(survives))

        def dies(path: Path, data: bytes, left: object = left) -> None:
            if next(left, None) is None:  # type: ignore[call-overload]
                raise KeyboardInterrupt
            right(path, data)

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(compaction, "replace", dies)
            compact(take_inventory([home]), out, now=NOW, delete=True)
        writes += survives
        assert counted(take_inventory([home, out])).equals(before)
    compact(take_inventory([home]), out, now=NOW, delete=True)
    assert counted(take_inventory([home, out])).equals(before)
    compacted = take_inventory([out])
    reported_text = {
        row["filter"] for row in compute_by_duckdb(compacted, only=["subscriptions"])["subscriptions"].to_pylist()
    }
    assert reported_text == {"f == 1", "f == 2", "f == 3"}, "what ids mean is kept as well"
    left_there = take_inventory([home]).segments
    assert all(not segment.sealed for segment in left_there), "the others were deleted once they were compacted"


def test_rollups_of_rollups_are_counts_of_wide_windows(home: Path, tmp_path: Path) -> None:
    inventory = take_inventory([home])
    inventory.segments = [segment for segment in inventory.segments if segment.sealed]
    compact(inventory, tmp_path, now=NOW)
    for width, width_us in WIDTHS_US.items():
        found = rollup(tmp_path, width).sort_by([(name, "ascending") for name in KEY])
        assert found.equals(counted(inventory, width_us)), width


def test_old_segments_are_deleted_and_rollups_kept_longer(home: Path, tmp_path: Path) -> None:
    compact(take_inventory([home]), tmp_path, now=NOW)
    later = compact(take_inventory([home]), tmp_path, keep_days=5, now=NOW + timedelta(days=8))
    assert later.forgotten
    assert not list((tmp_path / "records").rglob("*.parquet"))
    assert json.loads((tmp_path / CATALOGUE).read_text())["files"] == []
    assert not rollup(tmp_path, "10s").num_rows
    assert rollup(tmp_path, "1min").num_rows
    assert compact(take_inventory([home]), tmp_path, now=NOW).segments == 0, "what was forgotten is not brought back"


def test_a_part_of_the_time_is_analysed_by_itself(world: World, home: Path, tmp_path: Path) -> None:
    minute = datetime.fromtimestamp((START_US // MINUTE_US + 1) * 60, UTC)
    out = tmp_path / "out"
    times = ("--from", f"{minute:%Y-%m-%dT%H:%M}", "--to", f"{minute + timedelta(minutes=1):%Y-%m-%dT%H:%M}")
    assert run("batch", home, "--out", out, *times).exit_code == 0
    found = {(row["window"], int(row["broker"], 16)): row["published"] for row in Lake(out).read("brokers").to_pylist()}
    at = round(minute.timestamp()) * 1_000_000
    assert found == {(minute, broker): world.truth.brokers[at, broker]["PUBLISH"] for broker in BROKERS}
    assert "already" in run("batch", home, "--out", out, *times).stderr
    assert "already" not in run("batch", home, "--out", out).stderr


def test_the_summary_agrees_with_the_records(world: World, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(home, "--out", out).exit_code == 0
    found = json.loads((out / "summary.json").read_text())
    truth, seconds = world.truth, found["seconds"]
    windows = {at for (at, _), facts in truth.brokers.items() if facts}
    assert seconds == (max(windows) - min(windows)) / 1e6 + 60
    links = {(int(row["broker"], 16), int(row["neighbour"], 16)): row for row in found["links"]}
    for key, row in links.items():
        delays = [delay for (_, *ends), values in truth.links.items() if tuple(ends) == key for delay in values]
        copies = sum(n for (_, *ends), n in truth.copies.items() if tuple(ends) == key)
        assert row["samples"] == len(delays)
        assert row["delay_us"] == pytest.approx(sum(delays) / len(delays))
        assert Counter({int(bucket): n for bucket, n in row["delays"].items()}) == Counter(map(bucket_of, delays))
        assert row["copies_per_s"] == pytest.approx(copies / seconds)
    assert len(links) == 6
    for row in found["brokers"]:
        events = sum(facts["PUBLISH"] + facts["ARRIVAL"] for (_, id), facts in truth.brokers.items()
                     if id == int(row["broker"], 16))  # fmt: skip
        assert row["events_per_s"] == pytest.approx(events / seconds)
    deliveries = {(int(row["broker"], 16), row["subscription"]): row for row in found["subscriptions"]}
    for (_, *key), values in truth.delays.items():
        assert bucket_of(max(values)) in map(int, deliveries[key[0], key[1]]["delays"])
    assert {row["filter"] for row in found["subscriptions"]} == {"f == 1", "f == 2", "f == 3"}
    assert all(row["matched_mean"] > 0 for row in found["publishers"])


def test_a_summary_of_nothing_and_quantiles_of_few() -> None:
    empty = summary(COUNTS.empty_table(), pa.table({}), MINUTE_US)
    assert (empty["links"], empty["seconds"]) == ([], 0.0)
    assert quantile_us({}, 0.5) is None
    assert quantile_us({"8": 99, "80": 1}, 0.5) == pytest.approx(2 ** (8.5 / 8))
    assert quantile_us({"8": 99, "80": 1}, 1.0) == pytest.approx(2 ** (80.5 / 8))


def test_rows_are_shown(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(home, "--out", out)
    shown = run("show", out, "brokers", "--json", "--last", 2)
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["broker_name"] for row in rows] == [
        row["broker_name"] for row in Lake(out).read("brokers").to_pylist()[-2:]
    ]
    assert "published" in run("show", out, "brokers").stdout.splitlines()[0]
    assert run("show", tmp_path / "nowhere", "brokers").exit_code == 1
    assert run("show", out, "nonsense").exit_code == 2


def test_the_reference_of_tables_agrees_with_the_code() -> None:
    assert (ROOT / "docs/reference/tables.md").read_text() == page(), (
        "python -m plait_analytics.tables.tables_reference > docs/reference/tables.md"
    )


def test_kinds_are_those_that_are_known() -> None:
    assert {int(kind) for kind in RecordKind} == set(range(1, 15)), (
        "a new kind: is it of events or a sample (counts.py)?"
    )
