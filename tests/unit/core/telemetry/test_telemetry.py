"""Telemetry records and their segments: the schema, the ring, sampling, and errors of the disk."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from random import Random

import numpy as np
import pytest

from plait_broker.drop_reasons import DropReason
from plait_core.events import Event
from plait_core.telemetry import (
    BUCKETS,
    LATE,
    RECORD_BYTES,
    SCHEMAS,
    SEGMENT_HEADER_BYTES,
    RecordKind,
    Seal,
    SegmentError,
    SegmentHeader,
    bucket_bounds_us,
    bucket_of,
    parse_seal,
    parse_segment_name,
    reason_code,
    reason_text,
    record_dtype,
    schema_document,
    segment_name,
)
from plait_core.telemetry.records import RECORD
from plait_core.wire import EventFrame, encode_block
from plait_core.wire.frame_types import session_frames
from plait_telemetry.ring import Ring
from plait_telemetry.telemetry import Telemetry, TelemetrySettings, sampled_out
from plait_telemetry.writer import SegmentLimits, SegmentWriter, TelemetryWriter

SMALL = SegmentLimits(bytes_max=10 * RECORD_BYTES, age_s_max=5.0, budget_bytes=100 * RECORD_BYTES)


def event(sequence: int, publisher: int = 7) -> EventFrame:
    return EventFrame(encode_block(Event({"n": sequence}, publisher=publisher, sequence=sequence, published_us=99)))


def records_of(path: Path) -> np.ndarray:
    """Return the records of a file, sealed or not."""
    data = path.read_bytes()
    SegmentHeader.parse(data)
    whole = len(data) // RECORD_BYTES * RECORD_BYTES
    end = whole - RECORD_BYTES if parse_seal(data[whole - RECORD_BYTES : whole]) is not None else whole
    return np.frombuffer(data[SEGMENT_HEADER_BYTES:end], record_dtype())


def put(ring: Ring, sequence: int) -> None:
    ring.put(1, 2, 3, sequence, 5, 6, 7, 8, 9, 10, 1, int(RecordKind.PUBLISH), 0, 1, 0)


def held(ring: Ring) -> list[int]:
    pieces = ring.filled()
    found = np.frombuffer(b"".join(pieces), record_dtype())["sequence"].tolist()
    ring.release(len(found))
    return found


# --- the schema -------------------------------------------------------------------------------------------------------


def test_a_record_has_the_layout_of_the_registry() -> None:
    values = [-(2**40), 2**50, 2**63 + 1, 2**64 - 1, 5, 6, 7, 8, 9, 10, 11, 4, 13, 14, 15]
    record = np.frombuffer(RECORD.pack(*values), record_dtype())[0]
    assert record.tolist() == tuple(values)
    assert [field.name for field in SCHEMAS[1]] == list(record_dtype().names or ())
    assert json.loads(json.dumps(schema_document()))["record_bytes"] == RECORD_BYTES


def test_every_reason_has_a_code_for_good() -> None:
    assert [reason_text(reason_code(reason)) for reason in DropReason] == list(DropReason)
    assert (reason_code("duplicate"), reason_code("expired"), reason_code("retention")) == (1, 3, 16)
    assert reason_text(reason_code("something new")) == "other"
    assert session_frames.LATE == LATE, "the delivery step passes its flag on"


def test_buckets_are_exact_at_their_bounds() -> None:
    for exponent in range(32):
        assert bucket_of(2**exponent) == 8 * exponent
        assert exponent == 0 or bucket_of(2**exponent - 1) < 8 * exponent
    for delay_us in Random(1).sample(range(1, 2**32), 1000):
        least, greatest = bucket_bounds_us(bucket_of(delay_us))
        assert least <= delay_us < greatest
    assert bucket_of(2**32 - 1) == BUCKETS - 1


@pytest.mark.parametrize("damage", [b"", b"x" * 64, SegmentHeader(1, 2, 3, 1).pack()[:63]])
def test_an_invalid_segment_is_refused(damage: bytes) -> None:
    with pytest.raises(SegmentError):
        SegmentHeader.parse(damage)


def test_headers_seals_and_names_read_as_they_were_written() -> None:
    header = SegmentHeader(2**64 - 1, 1_700_000_000_000_000, 12, 1)
    assert SegmentHeader.parse(header.pack()) == header
    assert parse_seal(Seal(4, 5).pack()) == Seal(4, 5)
    assert parse_seal(RECORD.pack(*range(15))) is None
    assert parse_segment_name(segment_name(1_700_000_000_000_000, 12)) == (1_700_000_000_000_000, 12)
    assert parse_segment_name("names.jsonl") is None


# --- the ring ---------------------------------------------------------------------------------------------------------


def test_the_ring_keeps_order_around_its_end_and_counts_what_it_loses() -> None:
    ring, chance, sent, got = Ring(8), Random(3), 0, []
    for _ in range(500):
        for _ in range(chance.randrange(6)):
            sent += 1
            put(ring, sent)
        if chance.random() < 0.7:
            got.extend(held(ring))
    got.extend(held(ring))
    assert ring.lost > 0, "the ring must have been full at times"
    assert len(got) == sent - ring.lost == ring.written
    assert got == sorted(set(got))


# --- recording --------------------------------------------------------------------------------------------------------


def test_above_the_rate_events_are_recorded_whole_or_not_and_weighted() -> None:
    telemetry = Telemetry(TelemetrySettings(records_per_s_max=1000), 0)
    for sequence in range(1, 4001):
        telemetry.published(event(sequence), [1], [], [], 0, 1.0)
        telemetry.dropped(event(sequence), "late", 0, 1.0, subject=1)
    assert telemetry.weight == 1
    telemetry.adapt(1.0)
    assert telemetry.weight == 8, "8,000 records a second are eight times too many"
    telemetry.ring.release(telemetry.ring.written)
    for sequence in range(1, 8001):
        telemetry.published(event(sequence), [1], [], [], 0, 2.0)
        telemetry.dropped(event(sequence), "late", 0, 2.0, subject=1)
    found = np.frombuffer(b"".join(telemetry.ring.filled()), record_dtype())
    by_kind = {
        kind: set(found[found["kind"] == kind]["sequence"].tolist()) for kind in (RecordKind.PUBLISH, RecordKind.DROP)
    }
    assert (
        by_kind[RecordKind.PUBLISH] == by_kind[RecordKind.DROP] == {n for n in range(1, 8001) if not sampled_out(n, 7)}
    )
    assert found["weight"].tolist() == [8] * len(found)
    assert 0.9 < found["weight"].sum() / 16_000 < 1.1
    telemetry.ring.release(len(found))
    telemetry.adapt(1000.0)
    assert telemetry.weight == 1, "the rate is low again"


def test_values_beyond_their_fields_are_clipped() -> None:
    telemetry = Telemetry(TelemetrySettings(), 0)
    telemetry.published(event(2**64 - 1), range(99_999), [1], range(3), 2**40, 5.0)
    telemetry.state(RecordKind.ROUTING, -1, 5.0, delay_us=2**40, expected=2**20)
    published, state = np.frombuffer(b"".join(telemetry.ring.filled()), record_dtype())
    assert (published["delay_us"], published["expected"]) == (2**32 - 1, 2**16 - 1)
    assert (state["delay_us"], state["expected"], state["subject"]) == (2**32 - 1, 2**16 - 1, 2**64 - 1)


# --- segments ---------------------------------------------------------------------------------------------------------


def written(directory: Path, count: int, limits: SegmentLimits = SMALL) -> SegmentWriter:
    segments, ring = SegmentWriter(directory, 9, 1_700_000_000_000_000, limits), Ring(16)
    segments.open()
    for sequence in range(count):
        put(ring, sequence)
        segments.write(ring.filled(), 0.0)
        ring.release(1)
    return segments


def test_segments_roll_by_size_and_age_and_are_sealed(tmp_path: Path) -> None:
    segments = written(tmp_path, 25)
    segments.tick(4.9)
    segments.tick(5.0)
    paths = sorted(tmp_path.glob("*.seg"))
    assert [len(records_of(path)) for path in paths] == [9, 9, 7]
    assert np.concatenate([records_of(path) for path in paths])["sequence"].tolist() == list(range(25))
    for number, path in enumerate(paths):
        data = path.read_bytes()
        assert SegmentHeader.parse(data).number == number
        seal = parse_seal(data[-RECORD_BYTES:])
        assert seal is not None, "all are sealed, the last one by its age"
        assert (seal.records, seal.checksum) == (len(data) // RECORD_BYTES - 2, zlib.crc32(data[:-RECORD_BYTES]))
    assert json.loads((tmp_path / "schema-1.json").read_text()) == schema_document()


def test_a_segment_is_readable_while_it_grows(tmp_path: Path) -> None:
    segments = written(tmp_path, 5)
    (path,) = tmp_path.glob("*.seg")
    assert len(records_of(path)) == 5
    path.write_bytes(path.read_bytes() + b"torn")
    assert len(records_of(path)) == 5
    segments.abandon()


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    (tmp_path / f"{5:016d}.names.jsonl").write_text("")
    segments = written(tmp_path, 200)
    segments.seal()
    paths = sorted(tmp_path.glob("*.seg"))
    assert sum(path.stat().st_size for path in paths) <= SMALL.budget_bytes
    assert np.concatenate([records_of(path) for path in paths])["sequence"][-1] == 199
    assert not list(tmp_path.glob("*.names.jsonl")), "the names of deleted segments are deleted, too"


def test_the_thread_writes_everything_before_it_stops(tmp_path: Path) -> None:
    telemetry = Telemetry(TelemetrySettings(), 0)
    writer = TelemetryWriter(telemetry, SegmentWriter(tmp_path / "deep" / "down", 9, 5, SegmentLimits()))
    writer.start()
    telemetry.name("broker", 9, name="north")
    for sequence in range(1000):
        telemetry.published(event(sequence), [1], [], [], 0, 1.0)
    writer.stop()
    (path,) = tmp_path.rglob("*.seg")
    assert records_of(path)["sequence"].tolist() == list(range(1000))
    assert parse_seal(path.read_bytes()[-RECORD_BYTES:]) is not None
    (names,) = tmp_path.rglob("*.names.jsonl")
    assert json.loads(names.read_text()) == {"kind": "broker", "id": "0000000000000009", "name": "north"}


class FullDisk(SegmentWriter):
    """A file that accepts half a record, then nothing, until there is room."""

    full = False

    def _append(self, file: object, data: bytes | memoryview) -> None:
        if self.full:
            self._write_all(file, bytes(data)[:32])  # type: ignore[arg-type]
            raise OSError(28, "No space left on device")
        super()._append(file, data)  # type: ignore[arg-type]


def test_a_full_disk_loses_records_and_counts_them(tmp_path: Path) -> None:
    now = [0.0]
    telemetry, segments = Telemetry(TelemetrySettings(), 0), FullDisk(tmp_path, 9, 5, SegmentLimits())
    writer = TelemetryWriter(telemetry, segments, lambda: now[0])
    segments.open()

    def turn(count: int) -> None:
        for sequence in range(count):
            telemetry.published(event(sequence), [1], [], [], 0, now[0])
        writer._turn()

    turn(3)
    segments.full = True
    turn(5)
    assert (writer.lost, writer.failing) == (5, "No space left on device")
    turn(4)
    assert writer.lost == 9, "writing is not retried at once"
    segments.full, now[0] = False, 6.0
    turn(2)
    segments.seal()
    assert writer.failing is None
    assert sorted(len(records_of(path)) for path in tmp_path.glob("*.seg")) == [2, 3]
    assert telemetry.ring.written == 14 == telemetry.ring.taken


def test_a_deleted_directory_is_created_again(tmp_path: Path) -> None:
    place = tmp_path / "broker-north"
    segments = SegmentWriter(place, 1, 2, SegmentLimits())
    segments.open()
    segments.write([memoryview(bytes(5 * RECORD_BYTES))], 0.0)
    shutil.rmtree(place)
    segments.name([{"kind": "broker", "id": "1"}])
    segments.write([memoryview(bytes(3 * RECORD_BYTES))], 0.0)
    segments.seal()
    [path] = place.glob("*.seg")
    assert path.stat().st_size == 5 * RECORD_BYTES, "header, later records, and a seal"
    assert {each.suffix for each in place.iterdir()} == {".seg", ".json", ".jsonl"}
