"""Offsets over growing segments: every record counts once, for any batches, damaged files and late brokers."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import ClassVar

import pyarrow as pa
import pytest
from telemetry_world import BROKERS, START_US, World

from plait_analytics import Lake, take_inventory
from plait_analytics.live import live_lake as live_lake_module
from plait_analytics.live.live_lake import SHOWN_EVERY_S, LiveLake
from plait_analytics.records.batches import read_counts, slices_of
from plait_analytics.records.counts import KEY
from plait_analytics.records.counts import SCHEMA as COUNTS
from plait_analytics.records.growing_segments import GrowingSegments
from plait_analytics.records.id_names import read_names
from plait_analytics.records.stream_offsets import GOOD, LATE, ODD, Offset, StreamOffsets, read_portion
from plait_analytics.records.words import IdNames
from plait_analytics.tables import lake as lake_module
from plait_analytics.tables.derive_tables import COUNTED, derive, merged
from plait_analytics.tables.json_pages import page_document
from plait_analytics.tables.lake import replace
from plait_analytics.tables.presentation import presented
from plait_analytics.tables.summary import SUMMARY, WINDOWS
from plait_analytics.tables.table_directories import LakeError
from plait_core.telemetry import RECORD_BYTES, RecordKind
from plait_core.telemetry.records import RECORD
from plait_telemetry.writer import SegmentLimits, SegmentWriter

WINDOW_US = 10_000_000
LATER_US = START_US + 3_600_000_000_000
"""The wall clock of the reading machine."""


class Writer(SegmentWriter):
    """A segment writer that is abandoned at the end of its test, as by a broker that dies."""

    open_ones: ClassVar[list[SegmentWriter]] = []

    def __init__(self, directory: Path, broker: int, limits: SegmentLimits, started_us: int = START_US) -> None:
        super().__init__(directory, broker, started_us, limits)
        self.open()
        self.open_ones.append(self)


@pytest.fixture(autouse=True)
def nobody_writes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power failure is simulated, and syncing is slow
    yield
    while Writer.open_ones:
        Writer.open_ones.pop().abandon()


class Reader:
    """Reads a directory as Spark does: from offset to offset, with no other state that must survive."""

    def __init__(self, *directories: Path, late_us: int = WINDOW_US) -> None:
        self.directories = [str(directory) for directory in directories]
        self.reported: list[str] = []
        self._late_us = late_us
        self.pulling = self.opened()
        self.offset = self.pulling.begin()

    def opened(self) -> StreamOffsets:
        return StreamOffsets(GrowingSegments(self.directories, self.reported.append), WINDOW_US, self._late_us)

    def batch(self, most: int | None = None, now_us: int = LATER_US) -> dict[int, pa.Table]:
        """Return the counts of the next batch by state."""
        start, self.offset = self.offset, self.pulling.end(self.offset, most, now_us)
        return self.between(start, self.offset)

    def between(self, start: Offset, end: Offset) -> dict[int, pa.Table]:
        found: dict[int, list[pa.RecordBatch]] = {GOOD: [], LATE: [], ODD: []}
        for portion in self.pulling.portions(start, end, 2, self.reported.append):
            for batch in read_portion(portion):
                (state,) = set(batch.column("state").to_pylist())
                found[state].append(batch.select(COUNTS.names))
        return {state: pa.Table.from_batches(batches, COUNTS) for state, batches in found.items()}


def records(counts: pa.Table) -> int:
    return sum(counts["records"].to_pylist())


def same(one: pa.Table, other: pa.Table) -> bool:
    order = [(name, "ascending") for name in KEY]
    return bool(merged(one, WINDOW_US).sort_by(order).equals(merged(other, WINDOW_US).sort_by(order)))


def whole(*directories: Path) -> pa.Table:
    return pa.Table.from_batches(read_counts(slices_of(take_inventory(directories).segments), WINDOW_US), COUNTS)


class Growing:
    """A generated world's records, written gradually as its brokers would."""

    def __init__(self, home: Path, seed: int = 5, events: int = 400) -> None:
        self.home = home
        self.world = World(seed, faults=False).run(events)
        self.left = {broker: list(found) for broker, found in self.world.records.items()}
        self.segments = {
            broker: Writer(home / f"broker-{number}", broker, SegmentLimits(101 * RECORD_BYTES))
            for number, broker in enumerate(BROKERS)
        }

    def write(self, broker: int, count: int) -> None:
        now, self.left[broker] = self.left[broker][:count], self.left[broker][count:]
        for record in now:
            self.segments[broker].write([memoryview(record)], 0.0)

    @property
    def done(self) -> bool:
        return not any(self.left.values())


def test_every_record_counts_once_for_any_batches_and_restarts(tmp_path: Path) -> None:
    chance, growing = Random(3), Growing(tmp_path)
    reader = Reader(tmp_path, late_us=10**12)
    found = []
    while not growing.done:
        growing.write(chance.choice(BROKERS), chance.randrange(90))
        start, fate = reader.offset, chance.random()
        if fate < 0.3:  # killed while it reads and restarted: the logged offsets give the same batch again
            reader.batch(chance.choice([None, 50, 1000]))
            reader.pulling = reader.opened()
            found.append(reader.between(start, reader.offset))
        else:
            found.append(reader.batch(chance.choice([None, 50, 1000])))
    while True:
        more = reader.batch(200)
        if not any(map(records, more.values())):
            break
        found.append(more)
    assert all(not records(batch[LATE]) and not records(batch[ODD]) for batch in found)
    assert same(pa.concat_tables([batch[GOOD] for batch in found]), whole(tmp_path))
    assert not reader.reported


def test_a_backlog_is_taken_in_the_order_of_time_so_that_nobody_is_late(tmp_path: Path) -> None:
    growing = Growing(tmp_path)
    for broker in BROKERS:
        growing.write(broker, len(growing.left[broker]))
    reader, batches = Reader(tmp_path, late_us=2_000_000), 0
    while records((found := reader.batch(150))[GOOD]):
        assert not records(found[LATE])
        assert records(found[GOOD]) <= 150
        batches += 1
    assert batches >= 10


def test_records_that_come_after_their_window_closed_are_counted_as_late(tmp_path: Path) -> None:
    near, far = written(tmp_path, 1), written(tmp_path, 2)
    reader = Reader(tmp_path, late_us=10_000_000)
    put(near, START_US + 60_000_000, 5)
    assert records(reader.batch()[GOOD]) == 5
    put(far, START_US, 3)
    put(far, START_US + 59_000_000, 2)
    found = reader.batch()
    assert (records(found[LATE]), records(found[GOOD]), records(found[ODD])) == (3, 2, 0)


def test_a_clock_that_jumped_ahead_makes_nobody_late(tmp_path: Path) -> None:
    near, far = written(tmp_path, 1), written(tmp_path, 2)
    reader = Reader(tmp_path)
    put(near, START_US, 5)
    put(far, START_US + 10**15, 4)  # in thirty years
    found = reader.batch(now_us=START_US + 1_000_000)
    assert (records(found[GOOD]), records(found[ODD])) == (5, 4)
    put(near, START_US + 1_000_000, 5)
    found = reader.batch(now_us=START_US + 2_000_000)
    assert (records(found[GOOD]), records(found[LATE])) == (5, 0)


def test_segments_are_read_on_after_a_restart_with_an_earlier_clock(tmp_path: Path) -> None:
    reader = Reader(tmp_path, late_us=10**12)
    first = written(tmp_path, 1)
    put(first, START_US, 5)
    assert records(reader.batch()[GOOD]) == 5
    again = Writer(first.directory, 1, SegmentLimits(), START_US - 500_000_000)
    put(again, START_US - 500_000_000, 7)
    assert records(reader.batch()[GOOD]) == 7
    assert not any(map(records, reader.batch().values()))


def test_damaged_foreign_and_copied_segments_are_left_out_and_named(tmp_path: Path) -> None:
    growing = Growing(tmp_path / "all")
    for broker in BROKERS:
        growing.write(broker, 150)
    expected = whole(tmp_path / "all")
    shutil.copytree(tmp_path / "all" / "broker-1", tmp_path / "all" / "backup")  # copied
    sealed = min((tmp_path / "all" / "broker-2").glob("*.seg"))
    lost = whole(sealed.parent)
    data = bytearray(sealed.read_bytes())
    data[200] ^= 1
    sealed.write_bytes(data)  # damaged
    (sealed.parent / f"{START_US:016d}-000900.seg").write_bytes(b"something else entirely" * 9)  # foreign
    future = bytearray(min((tmp_path / "all" / "broker-1").glob("*.seg")).read_bytes())
    future[8] = 9
    (sealed.parent / f"{START_US:016d}-000901.seg").write_bytes(future)  # of a later version
    with (max((tmp_path / "all" / "broker-0").glob("*.seg"))).open("ab") as file:
        file.write(b"torn")
    reader = Reader(tmp_path / "all", tmp_path / "nowhere", late_us=10**12)
    found = reader.batch()
    assert same(found[GOOD], whole(tmp_path / "all"))
    assert 0 < records(expected) - records(found[GOOD]) < records(lost)
    reported_text = "\n".join(reader.reported)
    for what in ("checksum is wrong", "it is no segment", "schema version 9", "nowhere: it does not exist"):
        assert what in reported_text
    before = len(reader.reported)
    reader.batch()
    assert len(reader.reported) == before, "each is reported once"


def test_a_directory_that_vanishes_and_returns_is_read_on_where_it_was(tmp_path: Path) -> None:
    reader, segments = Reader(tmp_path / "t", late_us=10**12), written(tmp_path / "t", 1)
    put(segments, START_US, 5)
    assert records(reader.batch()[GOOD]) == 5
    os.rename(tmp_path / "t", tmp_path / "away")
    assert not any(map(records, reader.batch().values()))
    os.rename(tmp_path / "away", tmp_path / "t")
    put(segments, START_US + 1, 6)
    assert records(reader.batch()[GOOD]) == 6


def test_segments_that_retention_took_before_they_were_read_are_reported(tmp_path: Path) -> None:
    reader, segments = Reader(tmp_path, late_us=10**12), written(tmp_path, 1)
    for _ in range(4):
        put(segments, START_US, 5)
        segments.seal()
    reader.offset = reader.pulling.end(reader.offset, 5, LATER_US)
    for path in sorted(tmp_path.rglob("*.seg"))[:3]:
        path.unlink()
    assert records(reader.batch()[GOOD]) == 5
    assert any("2 segments were deleted before they were read" in text for text in reader.reported)


def written(home: Path, broker: int) -> SegmentWriter:
    return Writer(home / f"broker-{broker}", broker, SegmentLimits())


def put(segments: SegmentWriter, ts_us: int, count: int) -> None:
    for n in range(count):
        record = RECORD.pack(ts_us + n, ts_us, 1, n + 1, 0, 0, 0, 1, 0, 0, 1, int(RecordKind.PUBLISH), 0, 1, 0)
        segments.write([memoryview(record)], 0.0)


# --- what is made of them ---------------------------------------------------------------------------------------------


@pytest.fixture
def closed(tmp_path: Path) -> tuple[list[pa.Table], pa.Table]:
    """Return the counts of each window, in the order of closing, and the names."""
    home = World(6).run(2000).write(tmp_path / "telemetry", segment_records=10_000)
    counts = merged(whole(home), WINDOW_US)
    windows = sorted(set(counts["window_us"].to_pylist()))
    assert len(windows) > 4
    parts = [counts.filter(pa.compute.equal(counts["window_us"], window)) for window in windows]
    return parts, read_names(take_inventory([home]))


def checkpoint(out: Path, query: str = "q-1") -> Path:
    (out / "checkpoint").mkdir(parents=True, exist_ok=True)
    (out / "checkpoint" / "metadata").write_text(f'{{"id": "{query}"}}')
    return out


def test_windows_as_they_close_make_the_tables_of_all_of_them(
    closed: tuple[list[pa.Table], pa.Table], tmp_path: Path
) -> None:
    parts, names = closed
    out = checkpoint(tmp_path / "out")
    lake = LiveLake(out, WINDOW_US)
    for batch, part in enumerate(parts):
        lake.append(2 * batch, part, names)
        if batch % 3 == 1:  # killed, started again, and the batch once more
            lake = LiveLake(out, WINDOW_US)
            lake.append(2 * batch, part, names)
    expected = derive(pa.concat_tables(parts), names, window_us=WINDOW_US)
    kept = Lake(out)
    for name in COUNTED:
        assert kept.read(name).equals(presented(name, expected[name], IdNames(names))), name
    manifest = kept.manifest()
    assert manifest is not None
    lake.show(SHOWN_EVERY_S)
    for name, table in manifest["tables"].items():
        page = json.loads((out / table["json"]).read_text())
        assert page["rows"] == page_document(name, kept.read(name), WINDOW_US)["rows"], name
    short = json.loads((out / SUMMARY).read_text())
    assert short["seconds"] == min(len(parts), WINDOWS) * WINDOW_US / 1e6
    before = (out / SUMMARY).stat().st_mtime_ns
    lake.show(10 * SHOWN_EVERY_S)
    assert (out / SUMMARY).stat().st_mtime_ns == before, "nothing is new"
    assert manifest["live"] == {"batch": 2 * len(parts) - 2, "query": "q-1"}
    for name, table in manifest["tables"].items():
        assert {path.name for path in (out / name).iterdir()} == {Path(file).name for file in table["files"]}


def test_files_of_batches_are_joined_when_they_are_many(
    closed: tuple[list[pa.Table], pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_lake_module, "JOINED_FILES", 4)
    (part, *_), names = closed
    lake = LiveLake(checkpoint(tmp_path), WINDOW_US)
    hour_us = part["window_us"][0].as_py() // 3_600_000_000 * 3_600_000_000
    for batch in range(7):
        moved = pa.array([hour_us + batch * WINDOW_US] * part.num_rows)
        lake.append(batch, part.set_column(0, "window_us", moved), names)
    kept = Lake(tmp_path)
    manifest = kept.manifest()
    assert manifest is not None
    assert all(len(table["files"]) < 6 for table in manifest["tables"].values())
    assert len(set(kept.read("brokers")["window"].to_pylist())) == 7


def test_a_full_disk_leaves_the_tables_before_and_is_no_loss(
    closed: tuple[list[pa.Table], pa.Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, *_), names = closed
    out = checkpoint(tmp_path / "out")
    lake = LiveLake(out, WINDOW_US)
    lake.append(0, first, names)
    before = {name: Lake(out).read(name) for name in COUNTED}
    for survives in range(6):
        with monkeypatch.context() as patched, pytest.raises(OSError, match="No space"):
            full = full_after(survives)
            patched.setattr(live_lake_module, "replace", full)
            patched.setattr(lake_module, "replace", full)
            lake.append(1, second, names)
        assert all(Lake(out).read(name).equals(before[name]) for name in COUNTED)
    lake.append(1, second, names)
    assert Lake(out).read("brokers").num_rows > before["brokers"].num_rows


def full_after(calls: int) -> Callable[..., None]:
    left = iter(range(calls))

    def fails(path: Path, data: bytes, *, sync: bool = True, partial: Path | None = None) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(path, data, sync=sync, partial=partial)

    return fails


def test_tables_of_another_checkpoint_are_not_written_to(
    closed: tuple[list[pa.Table], pa.Table], tmp_path: Path
) -> None:
    (first, second, *_), names = closed
    LiveLake(checkpoint(tmp_path), WINDOW_US).append(0, first, names)
    checkpoint(tmp_path, "q-2")
    with pytest.raises(LakeError, match="of another checkpoint"):
        LiveLake(tmp_path, WINDOW_US).append(1, second, names)
    with pytest.raises(LakeError, match="of another analysis"):
        LiveLake(tmp_path, 2 * WINDOW_US)
    with pytest.raises(LakeError, match="live analysis"):
        Lake(tmp_path).write({}, take_inventory([]), "duckdb", WINDOW_US)
