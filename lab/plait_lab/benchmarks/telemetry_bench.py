"""Telemetry: the cost of a record to the broker, and the remaining throughput. Tables: `analytics_bench.py`.

A broker at full rate is a process with a publisher and a subscriber on its sockets. Beside it the protocol object runs
in memory, where telemetry is a larger part of the cost. Every event is recorded and written to this disk. Runs with and
without telemetry alternate, so that other load affects both.
"""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter
from typing import Final

from plait_broker import Broker, BrokerSettings, Caller, OpenGate
from plait_core import Event
from plait_core.matching import index_name
from plait_core.telemetry import RECORD_BYTES
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
from plait_core.wire.frame_types.session_frames import Subscribe
from plait_telemetry.recorder import Recorder, Records, new_recorder
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import TelemetrySettings
from plait_telemetry.writer import SegmentLimits, SegmentWriter, TelemetryWriter

from ..competitors.contender import Contender
from ..competitors.systems.catalogue import OURS, OURS_OBSERVED
from ..competitors.trials import TrialOutcome, served, throughput
from .groups import Group, Session
from .measurement.baselines import WrongAnswer
from .reports import Figure, Target

READ_EVENTS: Final = 64
"""Events of a read: the content of a busy publisher's socket."""

ROUNDS: Final = 6
FULL_RATE_S: Final = 3.0

START_US: Final = 1_790_000_000_000_000


def telemetry_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of telemetry."""
    session.progress("emission")
    count = session.size(100_000, 2_000)
    in_python = _emission(Recorder(RING_RECORDS, START_US), count)
    yield Figure("a delivery's record, on the loop, in Python", in_python, "us", Target("<=", 1.0))
    if index_name() == "native":
        cost = _emission(new_recorder(START_US), count)
        yield Figure("the same by the native kernel", cost, "us", Target("<=", 0.15))
    growth = _growth(new_recorder(START_US), session.size(100_000, 2_000))
    yield Figure("blocks of memory that a record leaves behind", growth, "", Target("<=", 0.001))
    session.progress("a broker with and without")
    home = Path(tempfile.mkdtemp(prefix="plait-telemetry-bench-", dir=Path.cwd()))  # a real disk
    try:
        rate, left = _throughput(home / "broker", session.size(81, 1), session.size(100, 5))
        yield from _at_full_rate(session, home)
        beside = {"events/s without": rate}
        yield Figure("the same of the protocol alone, in memory, without sockets", 100 * left, "%", None, beside)
    finally:
        shutil.rmtree(home)


def _at_full_rate(session: Session, home: Path) -> Iterator[Figure]:
    """Measure the share of a broker's throughput that remains with telemetry, also by its processor time for an
    event."""
    found: dict[Contender, list[TrialOutcome]] = {OURS: [], OURS_OBSERVED: []}
    for turn in range(session.size(ROUNDS, 1)):
        for contender in (OURS, OURS_OBSERVED)[:: 1 if turn % 2 else -1]:
            session.progress(f"{contender.title}, at full rate, {turn + 1} of {session.size(ROUNDS, 1)}")
            with served(contender, home) as server:
                run = throughput(server, session.seed, 1, FULL_RATE_S / session.size(1, 10))
                if contender is OURS_OBSERVED and _recorded(server.place) < run.sent:
                    raise WrongAnswer("not every event was recorded")
            found[contender].append(run)
    without, observed = found[OURS], found[OURS_OBSERVED]
    pairs = list(zip(without, observed, strict=True))
    rate = median(one.delivered_per_s / other.delivered_per_s for other, one in pairs)
    cost = median(run.server_cpu_s / run.sent for run in without) / median(
        run.server_cpu_s / run.sent for run in observed
    )
    events = {"events/s without": median(run.delivered_per_s for run in without)}
    yield Figure("a broker at full rate: throughput that is left", 100 * rate, "%", Target(">=", 95), events)
    yield Figure("the same, by the broker's processor time an event", 100 * cost, "%", Target(">=", 95))


def _recorded(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*.seg")) // RECORD_BYTES // 2


def _emission(records: Records, count: int) -> float:
    """Return microseconds for a record, the least of several runs: other load only increases it."""
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


def _growth(records: Records, count: int) -> float:
    """Return the blocks of memory that remain allocated for each record."""
    frame = EventFrame(encode_block(Event({"symbol": "IBM", "price": 121.5}, publisher=7, sequence=9)))
    before = 0
    for turn in range(3):  # the first turn allocates what is allocated once
        if turn == 1:
            gc.collect()
            before = sys.getallocatedblocks()
        for n in range(count):
            records.delivered(n, 50_000 + n, frame, 1000 + n, 0, 17.25 + n)
            if not n % 1024:
                records.release(records.written - records.taken)
    gc.collect()
    return max(0, sys.getallocatedblocks() - before) / (2 * count)


class _Bench:
    """A broker with one publisher, and one subscriber that matches all events."""

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
        """Return reads from the publisher's socket."""
        first = self.sequence + 1
        self.sequence += count * READ_EVENTS
        frames = [
            encode_publish(Event({"symbol": "IBM", "price": n}, publisher=1, sequence=n, published_us=START_US + n))
            for n in range(first, self.sequence + 1)
        ]
        return [b"".join(frames[n : n + READ_EVENTS]) for n in range(0, len(frames), READ_EVENTS)]

    def run(self, reads: list[bytes], now: float) -> float:
        """Return the seconds that these reads take."""
        began = perf_counter()
        for read in reads:
            self.broker.receive(1, read, now)
            self.broker.take_output()
        return perf_counter() - began


def _throughput(directory: Path, rounds: int, reads: int) -> tuple[float, float]:
    """Return events a second without telemetry, and the share of them that remains with it."""
    off, on = _Bench(), _Bench()
    telemetry = on.broker.observe(TelemetrySettings(records_per_s_max=10**9))
    writer = TelemetryWriter(telemetry, SegmentWriter(directory, on.broker.id, START_US, SegmentLimits()))
    writer.start()
    times: tuple[list[float], list[float]] = ([], [])
    try:
        for turn in range(rounds + 1):
            for which, bench in ((0, off), (1, on))[:: 1 if turn % 2 else -1]:
                took_s = bench.run(bench.reads(reads), 1.0)
                if turn:  # the first is a warm-up
                    times[which].append(took_s)
    finally:
        writer.stop()
    if off.broker.counters.delivered != on.broker.counters.delivered or not on.broker.counters.delivered:
        raise WrongAnswer("telemetry changed what was delivered")
    if telemetry.ring.written + telemetry.ring.lost < 2 * on.broker.counters.delivered:
        raise WrongAnswer("a published and a delivered record are due for each event")
    events = reads * READ_EVENTS
    share = median(
        without / with_ for without, with_ in zip(*times, strict=True)
    )  # of adjacent runs, which other load affects alike
    return events / median(times[0]), share


GROUP: Final = Group("telemetry", "Telemetry: emission", telemetry_figures)
