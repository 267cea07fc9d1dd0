"""`plait analyze live` as a process, killed at any moment: the tables equal those of an undisturbed run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
import spark
from telemetry_world import START_US, World

from plait_analytics import Lake, take_inventory
from plait_analytics.records.batches import read_counts, slices_of
from plait_analytics.records.counts import SCHEMA as COUNTS
from plait_analytics.records.id_names import read_names
from plait_analytics.records.words import IdNames
from plait_analytics.tables.derive_tables import COUNTED, derive
from plait_analytics.tables.presentation import presented
from plait_core.telemetry import RecordKind
from plait_core.telemetry.records import RECORD
from plait_telemetry.writer import SegmentLimits, SegmentWriter

PATIENCE_S = 240
"""Timeout for a JVM on a busy machine."""

WINDOW_US = 10_000_000
CLOSING_US = START_US + 600_000_000
"""The time of a last record, late enough to close all windows."""

pytestmark = pytest.mark.timeout(4 * PATIENCE_S)


@pytest.fixture(autouse=True)
def needs_spark() -> None:
    spark.require()


class Job:
    """One process of `plait analyze live` with its children."""

    def __init__(self, home: Path, out: Path, log: Path, records_max: int) -> None:
        command = [sys.executable, "-m", "plait", "analyze", "live", str(home), "--out", str(out), "--late", "5"]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*command, "--records-max", str(records_max), "--every", "0.1"],
                stderr=file,
                stdout=file,
                start_new_session=True,
            )
        self.log = log

    def kill(self) -> None:
        """Kill the process and its children at once, as in a power failure."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = World(21).run(2_500).write(tmp_path / "telemetry", segment_records=700)
    closing = SegmentWriter(home / "closing", 0x99, CLOSING_US, SegmentLimits())
    closing.open()
    closing.write(
        [memoryview(RECORD.pack(CLOSING_US, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, int(RecordKind.QUEUE), 0, 1, 0))], 0.0
    )
    yield home
    closing.abandon()


def expected(home: Path) -> dict[str, pa.Table]:
    inventory = take_inventory([home])
    inventory.segments = [segment for segment in inventory.segments if segment.header.broker != 0x99]
    counts = pa.Table.from_batches(read_counts(slices_of(inventory.segments), WINDOW_US), COUNTS)
    names = read_names(inventory)
    tables = derive(counts, names, window_us=WINDOW_US)
    return {name: presented(name, table, IdNames(names)) for name, table in tables.items()}


def batches(out: Path) -> int:
    return len([path for path in (out / "checkpoint" / "commits").glob("*") if path.name.isdigit()])


def offsets(out: Path) -> int:
    return len([path for path in (out / "checkpoint" / "offsets").glob("*") if path.name.isdigit()])


def closed_all(out: Path, truth: dict[str, pa.Table]) -> Callable[[], bool]:
    def done() -> bool:
        manifest = Lake(out).manifest()
        return manifest is not None and manifest["tables"]["counts"]["rows"] >= truth["counts"].num_rows

    return done


def killed_and_started_again(home: Path, tmp_path: Path, kills: int, chance: Random, records_max: int) -> None:
    out, log, truth = tmp_path / "out", tmp_path / "log", expected(home)
    for _ in range(kills):
        job, begun, done = Job(home, out, log, records_max), offsets(out), batches(out)
        try:
            if chance.random() < 0.5:  # a batch is under way
                job.until(lambda begun=begun: offsets(out) > begun)  # type: ignore[misc]
            else:  # one is done
                job.until(lambda done=done: batches(out) > done)  # type: ignore[misc]
            time.sleep(chance.random() * 0.5)
        finally:
            job.kill()
    job = Job(home, out, log, records_max)
    try:
        job.until(closed_all(out, truth))
        assert job.stop() == 0, log.read_text()[-3000:]
    finally:
        if job.process.poll() is None:
            job.kill()
    kept = Lake(out)
    for name in COUNTED:
        assert kept.read(name).equals(truth[name]), name
    status = json.loads((out / "live.json").read_text())
    assert status["late"] == status["odd"] == 0


def test_killed_twice_the_tables_are_those_of_an_undisturbed_run(home: Path, tmp_path: Path) -> None:
    killed_and_started_again(home, tmp_path, 2, Random(1), 2_500)


@pytest.mark.nightly
@pytest.mark.timeout(16 * PATIENCE_S)
def test_killed_ten_times_the_tables_are_those_of_an_undisturbed_run(home: Path, tmp_path: Path) -> None:
    killed_and_started_again(home, tmp_path, 10, Random(), 900)
