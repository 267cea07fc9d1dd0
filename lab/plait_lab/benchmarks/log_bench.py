"""Durable storage: group commit beside one commit for each record, in turn, on the same disk.

The producer is one thread with up to 1,000 unacknowledged records, each in its own Persist, like a broker whose
publishers request confirmation. The comparison commits each record before the next, with the same statements and no
second thread: the best possible without groups.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event, Semaphore, Thread
from time import perf_counter, perf_counter_ns
from typing import Final

from plait_broker.log.event_log import EventLog, LogStats, Retention
from plait_broker.log.store import Batch, Store
from plait_broker.outputs import Fetch, LogRecord, Persist

from .measures import Quartiles, quartiles

RECORD_BYTES: Final = 128
IN_FLIGHT: Final = 1000
ROUNDS: Final = 3
"""Turns of each contender, so that a disturbance affects all of them."""

FETCH_RECORDS: Final = 256
"""Records of a read, as of a durable subscription that catches up."""

RETAINED: Final = Retention(bytes_max=64 << 20)
"""Retention small enough that a long run includes the cost of deleting old records."""


def measure_log(seconds: float) -> dict[str, float]:
    """Return rates of records and commits, the gain of groups, the delay of acknowledgements, and the rate of reads."""
    directory = Path(tempfile.mkdtemp(prefix="plait-log-bench-", dir=Path.cwd()))  # a real disk: /tmp may be memory
    try:
        return _run(directory, seconds / ROUNDS / 4)
    finally:
        shutil.rmtree(directory)


def _run(directory: Path, turn_s: float) -> dict[str, float]:
    grouped: list[int] = []
    waits: list[int] = []
    busy: list[int] = []
    single: list[int] = []
    read: list[int] = []
    commits = 0
    store = Store(directory / "single.db", fsync=True)
    with closing(store.connection), closing(EventLog.open(directory / "grouped", retention=RETAINED)) as log:
        for _ in range(ROUNDS):
            before = log.stats()
            waits += (times := _store_grouped(log, turn_s))
            grouped.append(len(times))
            commits += _commits(before, log.stats())
            busy.append(_beside_a_busy_thread(lambda: len(_store_grouped(log, turn_s))))
            single.append(_store_singly(store, turn_s))
            read.append(_read(log, turn_s))
    wait: Quartiles = quartiles(waits)
    measured_s = turn_s * ROUNDS
    return {
        "records stored/s, in groups": sum(grouped) / measured_s,
        "commits/s": commits / measured_s,
        "records a commit": sum(grouped) / commits,
        "acknowledgement p50, ms": wait.p50 / 1000,
        "acknowledgement p99, ms": wait.p99 / 1000,
        "records stored/s, in groups, beside a busy thread": sum(busy) / measured_s,
        "records stored/s, one commit each": sum(single) / measured_s,
        "groups store so many times more": sum(grouped) / sum(single),
        "records read/s": sum(read) / measured_s,
    }


def _commits(before: LogStats, after: LogStats) -> int:
    assert after.failing is None
    return after.commits - before.commits


def _record(position: int) -> LogRecord:
    return LogRecord(position, time.time_ns() // 1000, position.to_bytes(8, "big") * (RECORD_BYTES // 8))


def _store_grouped(log: EventLog, seconds: float) -> list[int]:
    """Store records. Return nanoseconds to each acknowledgement; they arrive in the order of the requests."""
    room = Semaphore(IN_FLIGHT)
    requested_ns: deque[int] = deque()
    waits: list[int] = []

    def acknowledged(ticket: int, error: str | None) -> None:
        assert error is None, error
        waits.append(perf_counter_ns() - requested_ns.popleft())
        room.release()

    position, end = log.stats().last_position, perf_counter() + seconds
    while perf_counter() < end:
        room.acquire()
        position += 1
        requested_ns.append(perf_counter_ns())
        log.persist(Persist(position, (_record(position),)), acknowledged)
    in_time = len(waits)
    for _ in range(IN_FLIGHT):  # wait for the rest, which is not counted
        room.acquire()
    return waits[:in_time]


def _beside_a_busy_thread(measure: Callable[[], int]) -> int:
    """Run a measurement beside a thread that computes without pause and so holds the interpreter, as a busy loop
    does."""
    stop = Event()

    def compute() -> None:
        while not stop.is_set():
            sum(range(500))

    thread = Thread(target=compute, name="busy")
    thread.start()
    try:
        return measure()
    finally:
        stop.set()
        thread.join()


def _store_singly(store: Store, seconds: float) -> int:
    count, end = 0, perf_counter() + seconds
    while perf_counter() < end:
        position = store.tally.last_position + 1
        batch = Batch(store.tally)
        batch.add(Persist(position, (_record(position),)))
        store.commit(batch)
        count += 1
    return count


def _read(log: EventLog, seconds: float) -> int:
    """Read from the oldest record to the newest, repeatedly. Return the records read."""
    answered = Event()
    found: list[LogRecord] = []

    def fetched(ticket: int, records: list[LogRecord], lost: bool, error: str | None) -> None:
        assert error is None, error
        found[:] = records
        answered.set()

    stats = log.stats()
    first = stats.last_position - stats.records + 1
    position, count, end = first, 0, perf_counter() + seconds
    while perf_counter() < end:
        answered.clear()
        log.fetch(Fetch(1, position, FETCH_RECORDS), fetched)
        answered.wait()
        count += len(found)
        position = found[-1].position + 1 if len(found) == FETCH_RECORDS else first
    return count


if __name__ == "__main__":
    print(json.dumps(measure_log(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0), indent=2))
