"""Telemetry: what a record costs the broker, what is left of its throughput, and how fast records become tables.

The broker is the protocol object itself, with one publisher and one subscriber in memory, and a writer whose thread
writes to this disk; with and without telemetry it runs in turn, so that a noisy neighbour disturbs both. Tables are
computed by DuckDB, and by Spark where it is, from the same segments.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
import pyarrow as pa

from plait_analytics import Inventory, take_inventory
from plait_analytics import duckdb_engine as by_duckdb
from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_broker.telemetry.recorder import Recorder, Records, new_recorder
from plait_broker.telemetry.ring import RING_RECORDS
from plait_broker.telemetry.telemetry import TelemetrySettings
from plait_broker.telemetry.writer import SegmentLimits, SegmentWriter, TelemetryWriter
from plait_core import Event
from plait_core.matching import index_name
from plait_core.telemetry import RECORD_BYTES, Kind, record_dtype
from plait_core.wire import (
    VERSION_MAX,
    VERSION_MIN,
    EventFrame,
    Handshake,
    Hello,
    Role,
    encode_block,
    encode_frame,
    encode_publish,
)
from plait_core.wire.session_frames import Subscribe

from .baselines import WrongAnswer
from .groups import Group, Session
from .reports import Figure, Target

READ_EVENTS: Final = 64
"""Events that one read brings: what a busy publisher's socket holds."""

MEASURED: Final = {
    "subscriptions": ("a table with percentiles", 4_000_000),
    "journeys": ("the join of publications and deliveries", 1_500_000),
}
"""By table: what is measured by it, and what it is to reach."""

START_US: Final = 1_790_000_000_000_000


def figures(session: Session) -> Iterator[Figure]:
    """All of them."""
    session.tell("emission")
    count = session.size(100_000, 2_000)
    in_python = _emission(Recorder(RING_RECORDS, START_US), count)
    yield Figure("a delivery's record, on the loop, in Python", in_python, "us", Target("<=", 1.0))
    if index_name() == "native":
        cost = _emission(new_recorder(START_US), count)
        yield Figure("the same by the native kernel", cost, "us", Target("<=", 0.15))
    session.tell("a broker with and without")
    home = Path(tempfile.mkdtemp(prefix="plait-telemetry-bench-", dir=Path.cwd()))  # a real disk
    try:
        off, on = _throughput(home / "broker", session.size(7, 1), session.size(200, 5))
        yield Figure("the broker's throughput that is left", 100 * on / off, "%", Target(">=", 95), {"events/s": on})
        inventory = _recorded(home / "records", session.rng("records"), session.size(2_000_000, 20_000))
        session.tell("tables by DuckDB")
        duckdb = {name: _by_duckdb(inventory, name) for name in MEASURED}
        session.tell("tables by Spark, where it is")
        spark = _by_spark(inventory) if importlib.util.find_spec("pyspark") is not None and not session.quick else {}
        for name, (says, target) in MEASURED.items():
            rate, beside = duckdb[name], {}
            if name in spark:
                rate, beside = spark[name], {"DuckDB": duckdb[name]}
            by = "Spark, once it has started" if name in spark else "DuckDB"
            yield Figure(f"records to {says}, by {by}", rate, "/s", Target(">=", target), beside)
    finally:
        shutil.rmtree(home)


def _emission(records: Records, count: int) -> float:
    """Microseconds a record, the best of several runs: others can only make it slower."""
    frame = EventFrame(encode_block(Event({"symbol": "IBM", "price": 121.5}, publisher=7, sequence=9)))
    best = float("inf")
    assert count <= RING_RECORDS, "none may be lost, which would be cheaper"
    for _ in range(7):
        while records.taken < records.written:
            records.release(sum(map(len, records.filled())) // RECORD_BYTES)
        began = perf_counter()
        for _ in range(count):
            records.delivered(3, 50_000, frame, 1234, 0, 17.25)
        best = min(best, (perf_counter() - began) / count)
    if records.lost:
        raise WrongAnswer("records were lost while their cost was measured")
    return best * 1e6


class _Bench:
    """A broker with one publisher and one subscriber who takes everything."""

    def __init__(self) -> None:
        self.broker = Broker(BrokerSettings(), Random(1), OpenGate(), now=0.0, wall_us=START_US)
        self.sequence = 0
        for link in (1, 2):
            self.broker.connected(link, Caller("memory"), 0.0)
            hello = Hello(VERSION_MIN, VERSION_MAX, Role.CLIENT, "bench", link, ("resume",), None, None)
            self.broker.receive(link, encode_frame(Handshake.initiator(hello).start(), VERSION_MIN), 0.0)
            self.broker.take_output()
        self.broker.receive(2, encode_frame(Subscribe(1, 1, "price > 0"), VERSION_MAX), 0.0)
        self.broker.take_output()

    def reads(self, count: int) -> list[bytes]:
        """So many reads of the publisher's."""
        first = self.sequence + 1
        self.sequence += count * READ_EVENTS
        frames = [
            encode_publish(Event({"symbol": "IBM", "price": n}, publisher=1, sequence=n, published_us=START_US + n))
            for n in range(first, self.sequence + 1)
        ]
        return [b"".join(frames[n : n + READ_EVENTS]) for n in range(0, len(frames), READ_EVENTS)]

    def run(self, reads: list[bytes], now: float) -> float:
        """Seconds that they take."""
        began = perf_counter()
        for read in reads:
            self.broker.receive(1, read, now)
            self.broker.take_output()
        return perf_counter() - began


def _throughput(directory: Path, rounds: int, reads: int) -> tuple[float, float]:
    """Events a second without and with."""
    off, on = _Bench(), _Bench()
    telemetry = on.broker.observe(TelemetrySettings(records_per_s_max=10**9))
    writer = TelemetryWriter(telemetry, SegmentWriter(directory, on.broker.id, START_US, SegmentLimits()))
    writer.start()
    times: tuple[list[float], list[float]] = ([], [])
    try:
        for turn in range(rounds + 1):
            for which, bench in enumerate((off, on)):
                took_s = bench.run(bench.reads(reads), 1.0)
                if turn:  # the first warms up
                    times[which].append(took_s)
    finally:
        writer.stop()
    if off.broker.counters.delivered != on.broker.counters.delivered or not on.broker.counters.delivered:
        raise WrongAnswer("telemetry changed what was delivered")
    if telemetry.ring.written + telemetry.ring.lost < 2 * on.broker.counters.delivered:
        raise WrongAnswer("a published and a delivered record are due for each event")
    events = reads * READ_EVENTS
    return events / median(times[0]), events / median(times[1])


def _recorded(directory: Path, rng: np.random.Generator, count: int) -> Inventory:
    """Segments of one broker: a quarter of the records published events, the others their deliveries."""
    events = count // 4
    records = np.zeros(4 * events, record_dtype())
    sequence = np.repeat(np.arange(1, events + 1, dtype=np.uint64), 4)
    publish = np.arange(4 * events) % 4 == 0
    records["ts_us"] = records["published_us"] = START_US + sequence.astype(np.int64) * 100
    records["publisher"], records["sequence"] = sequence % 64 + 1, sequence
    records["subject"] = np.where(publish, 0, rng.integers(1, 50, len(records)) * 4 + np.arange(len(records)) % 4)
    records["delay_us"] = np.where(publish, 0, rng.lognormal(8, 1, len(records)).astype(np.uint32))
    records["size"], records["count"], records["weight"], records["hops"] = 200, ~publish, 1, 1
    records["expected"] = 3
    records["kind"] = np.where(publish, int(Kind.PUBLISH), int(Kind.DELIVERY))
    segments = SegmentWriter(directory, 1, START_US, SegmentLimits())
    segments.open()
    step = RING_RECORDS
    for first in range(0, len(records), step):
        segments.write([memoryview(records[first : first + step].tobytes())], 0.0)
    segments.seal()
    return take_inventory([directory])


def _by_duckdb(inventory: Inventory, name: str) -> float:
    """Records a second."""
    began = perf_counter()
    tables = by_duckdb.compute(inventory, only=[name])
    took_s = perf_counter() - began
    return _rate(inventory, tables[name], took_s)


def _by_spark(inventory: Inventory) -> dict[str, float]:
    from plait_analytics import spark_engine, spark_session

    rates = {}
    with spark_session.session() as spark:
        for name in MEASURED:
            spark_engine.compute(spark, inventory, only=[name])  # workers and compilers have started
            began = perf_counter()
            tables = spark_engine.compute(spark, inventory, only=[name])
            rates[name] = _rate(inventory, tables[name], perf_counter() - began)
    return rates


def _rate(inventory: Inventory, table: pa.Table, took_s: float) -> float:
    delivered = sum(table["delivered"].to_pylist())
    if delivered != inventory.records // 4 * 3:
        raise WrongAnswer(f"{delivered:,} deliveries of {inventory.records:,} records")
    return inventory.records / took_s


GROUP: Final = Group("telemetry", "Telemetry: emission, and analysis", figures)
