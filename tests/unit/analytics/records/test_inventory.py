"""The inventory skips damaged, foreign, later-version and copied segments by name, and counts the others in full."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from telemetry_world import BROKERS, World

from plait_analytics import take_inventory
from plait_analytics.records.batches import SCHEMA, packed, read_counts, read_slices, slices_of
from plait_analytics.records.columns import Slice
from plait_analytics.records.id_names import read_names
from plait_core.telemetry import RECORD_BYTES, SegmentHeader

EVENTS = 100


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return World(8).run(EVENTS).write(tmp_path / "telemetry")


def sealed(home: Path) -> Path:
    """Return a sealed segment."""
    return min(home.glob("broker-1/*.seg"))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[RECORD_BYTES + 17] ^= 1
    path.write_bytes(data)


def future(path: Path) -> None:
    data = path.read_bytes()
    known = SegmentHeader.parse(data)
    header = SegmentHeader(known.broker, known.started_us, known.number, 99)
    path.write_bytes(header.pack() + data[RECORD_BYTES:])


def cut_inside(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: 3 * RECORD_BYTES] + data[4 * RECORD_BYTES :])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "checksum": flip,
    "version 99": future,
    "its seal counts": cut_inside,
    "no segment": lambda path: path.write_bytes(b"\x89PNG" * 100),
    "before its header": lambda path: path.write_bytes(path.read_bytes()[:40]),
}


@pytest.mark.parametrize("reported_text", DAMAGES)
def test_unreadable_segments_are_left_out_and_named(home: Path, reported_text: str) -> None:
    whole = take_inventory([home])
    path = sealed(home)
    (lost,) = (segment.records for segment in whole.segments if segment.path == str(path))
    DAMAGES[reported_text](path)
    found = take_inventory([home])
    assert [(finding.path, reported_text in finding.why) for finding in found.findings] == [(str(path), True)]
    assert found.records == whole.records - lost > 0
    assert found.digest() != whole.digest()


def test_a_torn_tail_is_not_there_yet(home: Path) -> None:
    (growing,) = (s for s in take_inventory([home]).segments if not s.sealed)
    path = Path(growing.path)
    assert path.parent.name == "broker-0"
    path.write_bytes(path.read_bytes() + bytes(RECORD_BYTES - 1))
    found = take_inventory([home])
    assert not found.findings
    assert growing in found.segments


def test_copies_count_once(home: Path) -> None:
    whole = take_inventory([home])
    shutil.copytree(home, home / "again" / "deeper")
    cut = home / "again" / "deeper" / "broker-0"
    growing = max(cut.glob("*.seg"))
    growing.write_bytes(growing.read_bytes()[: 2 * RECORD_BYTES])
    found = take_inventory([home])
    assert found.digest() == whole.digest()
    assert all("it is a copy of" in finding.why for finding in found.findings)
    left_out = {finding.path for finding in found.findings}
    assert left_out | {segment.path for segment in found.segments} == {str(path) for path in home.rglob("*.seg")}
    assert len(left_out) == len(found.segments)
    assert str(growing) in left_out, "the longer one counts"


def test_directories_that_are_gone_stop_nothing(home: Path) -> None:
    found = take_inventory([home, home / "nowhere"])
    assert found.records
    assert [finding.why for finding in found.findings] == ["it is no directory"]
    slices = slices_of(found.segments)
    shutil.rmtree(home / "broker-1")
    left = sum(batch.num_rows for batch in read_slices(slices))
    assert 0 < left < found.records


def test_a_segment_that_is_cut_short_while_it_is_read_ends_there(home: Path) -> None:
    found = take_inventory([home])
    path = sealed(home)
    (whole,) = (segment.records for segment in found.segments if segment.path == str(path))
    os.truncate(path, RECORD_BYTES * 5 + 7)
    slices = slices_of(found.segments)
    assert sum(batch.num_rows for batch in read_slices(slices)) == found.records - whole + 4
    assert sum(sum(batch["records"].to_pylist()) for batch in read_counts(slices, 10**7)) == found.records - whole + 4


def test_slices_are_packed_evenly_and_nothing_is_left_out() -> None:
    slices = [Slice("p", 1, 1, 100 * n, 100) for n in range(7)]
    parts = packed(slices, 2)
    assert [piece for part in parts for piece in part] == slices
    assert [len(part) for part in parts] == [4, 3]
    assert packed(slices, 100) == [[piece] for piece in slices]
    assert packed([], 3) == [[]]


def test_batches_are_what_was_written(home: Path) -> None:
    found = take_inventory([home])
    batches = list(read_slices(slices_of(found.segments, records_max=33)))
    assert sum(batch.num_rows for batch in batches) == found.records
    assert all(batch.schema == SCHEMA for batch in batches)
    brokers = {value % 2**64 for batch in batches for value in batch["broker"].to_pylist()}
    assert brokers == set(BROKERS)


def test_names_survive_a_line_that_was_cut(home: Path) -> None:
    (path,) = (home / "broker-1").glob("*.names.jsonl")
    whole = read_names(take_inventory([home])).num_rows
    with path.open("a") as file:
        file.write('{"kind": "subscription", "id": 1, "filter": "new"}\n{"kind": "broker"}\n[]\n{"kind": "brok')
    names = read_names(take_inventory([home]))
    assert names.num_rows == whole == 3 + 3 + 9
    assert [row["filter"] for row in names.to_pylist() if row["broker"] == 0x11 and row["id"] == 1] == ["new"]
