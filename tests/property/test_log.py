"""The event log compared with a plain list: they agree after storing, reading, releasing, closing and reopening."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from plait_broker.log.event_log import EventLog, Retention
from plait_broker.log.records import (
    Damaged,
    Tally,
    checked_cursor,
    checked_record,
    checked_tally,
    cursor_row,
    record_row,
    tally_row,
)
from plait_broker.outputs import Cursor, Fetch, LogRecord, Persist

YEAR_US = 31_536_000 * 1_000_000
blocks = st.binary(max_size=60) | st.builds(bytes, st.integers(0, 20_000))
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


class LogAndList(RuleBasedStateMachine):
    """Take results at once, so that the list always equals the log."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="plait-log-"))
        self.records: list[LogRecord] = []
        self.cursors: dict[tuple[str, str], Cursor] = {}
        self.tickets = 0
        self.log: EventLog | None = None

    @initialize()
    def open(self) -> None:
        self.log = EventLog.open(
            self.directory, retention=Retention(age_s_max=100 * YEAR_US), fsync=False, wall_us=lambda: 0
        )
        assert self.log.notices == ()

    @rule(crash=st.booleans(), recent=st.integers(1, 20))
    def reopen(self, crash: bool, recent: int) -> None:
        assert self.log is not None
        if crash:  # leave the files as a killed broker does
            left = Path(tempfile.mkdtemp(prefix="plait-log-"))
            for path in self.directory.glob("log*"):
                shutil.copy(path, left)
            self.log.close()
            shutil.rmtree(self.directory)
            self.directory = left
        else:
            self.log.close()
        self.open()
        recovered = self.log.recover(recent)
        assert list(recovered.recent) == self.records[-recent:]
        assert set(recovered.cursors) == set(self.cursors.values())
        assert recovered.next_position > max([0, *(record.position for record in self.records)])

    @rule(
        gaps=st.lists(st.tuples(st.integers(1, 3), st.integers(-50, 200), blocks), max_size=5),
        cursors=st.lists(
            st.builds(
                Cursor, words, words, words, st.integers(0, 500), st.lists(st.integers(0, 2**40)).map(sorted).map(tuple)
            ),
            max_size=2,
        ),
        forget=st.booleans(),
        stale=st.booleans(),
    )
    def persist(self, gaps: list[tuple[int, int, bytes]], cursors: list[Cursor], forget: bool, stale: bool) -> None:
        last = self.records[-1].position if self.records else 0
        given: list[LogRecord] = []
        for gap, at, block in gaps:
            last += gap
            given.append(LogRecord(last, last + at, block))
        forgotten = tuple(self.cursors)[:1] if forget else ()
        if stale and last:
            given.append(LogRecord(last, 0, b"it has this position already"))
        error = self.ask(Persist(0, tuple(given), tuple(cursors), forgotten))
        if stale and last:
            assert error == f"position {last} does not follow {last}"
            return
        assert error is None
        self.records += given
        for key in forgotten:
            del self.cursors[key]
        self.cursors |= {(cursor.owner, cursor.name): cursor for cursor in cursors}

    def ask(self, persist: Persist) -> str | None:
        assert self.log is not None
        told: SimpleQueue[tuple[int, str | None]] = SimpleQueue()
        self.log.persist(persist, lambda ticket, error: told.put((ticket, error)))
        return told.get(timeout=10)[1]

    @rule(position=st.integers(1, 60), count=st.integers(1, 20), since_us=st.integers(0, 300))
    def fetch(self, position: int, count: int, since_us: int) -> None:
        assert self.log is not None
        told: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self.tickets += 1
        self.log.fetch(Fetch(self.tickets, position, count, since_us), lambda *answer: told.put(answer))
        expected = [
            one for one in self.records if one.position >= position and (one.logged_us >= since_us or not since_us)
        ][:count]
        assert told.get(timeout=10) == (self.tickets, expected, False, None)

    @invariant()
    def counts_agree(self) -> None:
        if self.log is not None:
            stats = self.log.stats()
            assert stats.records == len(self.records)
            assert stats.bytes == sum(len(record.block) + 32 for record in self.records)
            assert (stats.queue_items, stats.queue_bytes, stats.failing) == (0, 0, None)

    def teardown(self) -> None:
        if self.log is not None:
            self.log.close()
        shutil.rmtree(self.directory)


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)

i64 = st.integers(-(2**63), 2**63 - 1)
smaller = st.integers(-(2**60), 2**60)
records = st.builds(LogRecord, st.integers(1, 2**60), smaller, st.binary(max_size=40))
cursors = st.builds(Cursor, words, words, words, smaller, st.lists(smaller, max_size=5).map(tuple))
odd = st.none() | st.floats() | st.binary(max_size=5) | i64


@given(records, st.integers(0, 2**60), smaller, st.integers(0, 5), odd)
def test_a_record_passes_only_as_it_was_written(
    record: LogRecord, previous: int, latest_us: int, column: int, other: object
) -> None:
    row = record_row(record, previous, latest_us)
    kept = checked_record(row)
    assert (kept.record, kept.previous, kept.latest_us) == (record, previous, latest_us)
    assert rejects(checked_record, row, column, other)


@given(cursors, st.integers(0, 5), odd)
def test_a_cursor_passes_only_as_it_was_written(cursor: Cursor, column: int, other: object) -> None:
    row = cursor_row(cursor)
    assert checked_cursor(row) == cursor
    assert rejects(checked_cursor, row, column, other)


@given(st.builds(Tally, i64, i64, i64, i64), st.integers(0, 4), odd)
def test_a_tally_passes_only_as_it_was_written(tally: Tally, column: int, other: object) -> None:
    row = tally_row(tally)
    assert checked_tally(row) == tally
    assert rejects(checked_tally, row, column, other)


def rejects(check: Any, row: tuple[Any, ...], column: int, other: object) -> bool:
    changed = (*row[:column], other, *row[column + 1 :])
    if changed == row:
        return True
    try:
        check(changed)
    except Damaged:
        return True
    return False
