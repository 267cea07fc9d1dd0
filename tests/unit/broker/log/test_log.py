"""The event log on a real disk: order, groups, reading, retention, refusals, recovery."""

from __future__ import annotations

import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest

from plait_broker.log import repair as log_repair
from plait_broker.log import writer as log_writer
from plait_broker.log.event_log import EventLog, LogError, LogInUse, LogTooNew, Retention
from plait_broker.log.records import numbers_checksum
from plait_broker.log.store import VACUUM_PAGES, Store
from plait_broker.outputs import Cursor, Fetch, LogRecord, Persist

SECOND_US = 1_000_000
NOON_US = 1_700_000_000 * SECOND_US


def record(position: int, size: int = 100, logged_us: int | None = None) -> LogRecord:
    block = (b"%d " % position) * (size // len(b"%d " % position) + 1)
    return LogRecord(position, NOON_US + position if logged_us is None else logged_us, block[:size])


def records(first: int, last: int, size: int = 100) -> list[LogRecord]:
    return [record(position, size) for position in range(first, last + 1)]


class Story:
    """A log with a client that waits for answers."""

    def __init__(self, log: EventLog) -> None:
        self.log = log
        self.told: SimpleQueue[tuple[int, str | None]] = SimpleQueue()
        self._tickets = 0

    def ask(
        self, *given: LogRecord, cursors: tuple[Cursor, ...] = (), forgotten: tuple[tuple[str, str], ...] = ()
    ) -> int:
        self._tickets += 1
        asked = Persist(self._tickets, given, cursors, forgotten)
        self.log.persist(asked, lambda ticket, error: self.told.put((ticket, error)))
        return self._tickets

    def answer(self) -> tuple[int, str | None]:
        return self.told.get(timeout=10)

    def store(
        self, *given: LogRecord, cursors: tuple[Cursor, ...] = (), forgotten: tuple[tuple[str, str], ...] = ()
    ) -> None:
        ticket = self.ask(*given, cursors=cursors, forgotten=forgotten)
        assert self.answer() == (ticket, None)

    def read(self, position: int = 1, count: int = 10_000, since_us: int = 0) -> tuple[list[LogRecord], bool]:
        found: SimpleQueue[tuple[int, list[LogRecord], bool, str | None]] = SimpleQueue()
        self.log.fetch(Fetch(7, position, count, since_us), lambda *answer: found.put(answer))
        ticket, kept, lost, error = found.get(timeout=10)
        assert (ticket, error) == (7, None)
        return kept, lost

    def block_writer(self) -> Callable[[], None]:
        """Block the writer inside a callback, as a slow disk would, until the returned function is called."""
        reached, go_on = threading.Event(), threading.Event()

        def wait(ticket: int, error: str | None) -> None:
            reached.set()
            assert go_on.wait(10)

        self._tickets += 1
        self.log.persist(Persist(self._tickets), wait)
        assert reached.wait(10)
        return go_on.set


@contextmanager
def story(
    directory: Path, retention: Retention | None = None, now_us: Callable[[], int] = lambda: NOON_US
) -> Iterator[Story]:
    with closing(EventLog.open(directory, retention=retention, fsync=False, wall_us=now_us)) as log:
        yield Story(log)


# --- storing ----------------------------------------------------------------------------------------------------------


def test_stored_records_are_read_back(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(record(1), LogRecord(2, NOON_US, b""), LogRecord(3, NOON_US, bytes(range(256)) * 4000))
        assert user.read() == (
            [record(1), LogRecord(2, NOON_US, b""), LogRecord(3, NOON_US, bytes(range(256)) * 4000)],
            False,
        )


def test_tickets_come_back_in_order(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        tickets = [user.ask(record(position)) for position in range(1, 501)]
        assert [user.answer() for _ in tickets] == [(ticket, None) for ticket in tickets]


def test_writes_queued_during_a_commit_are_one_transaction(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        go_on = user.block_writer()
        for position in range(1, 101):
            user.ask(record(position))
        assert user.log.stats().commits == 0
        assert user.log.stats().queue_items == 100
        go_on()
        assert all(user.answer()[1] is None for _ in range(100))
        stats = user.log.stats()
        assert (stats.commits, stats.records_stored, stats.records_per_commit) == (1, 100, 100)
        assert (stats.queue_items, stats.queue_bytes) == (0, 0)


def test_a_group_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "GROUP_RECORDS_MAX", 10)
    with story(tmp_path) as user:
        go_on = user.block_writer()
        for position in range(1, 36):
            user.ask(record(position))
        go_on()
        assert all(user.answer()[1] is None for _ in range(35))
        assert user.log.stats().commits == 4


def test_a_ticket_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        go_on = user.block_writer()
        before = user.ask(record(1))
        half_wrong = user.ask(record(2), record(3), record(3), cursors=(Cursor("n", "o", "true", 1),))
        after = user.ask(record(4))
        go_on()
        assert user.answer() == (before, None)
        assert user.answer() == (half_wrong, "position 3 does not follow 3")
        assert user.answer() == (after, None)
        assert user.read() == ([record(1), record(4)], False)
        assert user.log.recover().cursors == ()


@pytest.mark.parametrize(
    "odd",
    [
        Persist(9, (LogRecord(2**63, 0, b""),)),
        Persist(9, (LogRecord(5, 2**70, b""),)),
        Persist(9, (), (Cursor("\ud800", "o", "true", 1),)),
    ],
)
def test_a_request_that_cannot_be_encoded_fails_alone(tmp_path: Path, odd: Persist) -> None:
    with story(tmp_path) as user:
        go_on = user.block_writer()
        first = user.ask(record(1))
        user.log.persist(odd, lambda ticket, error: user.told.put((ticket, error)))
        second = user.ask(record(2))
        go_on()
        assert user.answer() == (first, None)
        ticket, error = user.answer()
        assert ticket == 9
        assert error is not None
        assert error.startswith("it cannot be stored")
        assert user.answer() == (second, None)


def test_a_transaction_that_fails_fails_for_all_in_it_and_the_next_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with story(tmp_path) as user:
        user.store(record(1))
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        connection = user.log._store.connection
        monkeypatch.setattr(user.log._store, "connection", _Failing(connection, "COMMIT", full))
        go_on = user.block_writer()
        tickets = [user.ask(record(2)), user.ask(record(3), cursors=(Cursor("n", "o", "true", 3),))]
        go_on()
        assert [user.answer() for _ in tickets] == [(ticket, "the disk is full") for ticket in tickets]
        assert user.log.stats().failing == "the disk is full"
        monkeypatch.undo()
        user.store(record(4))
        stats = user.log.stats()
        assert (stats.failing, stats.commits, stats.commits_failed) == (None, 2, 1)
        assert user.read() == ([record(1), record(4)], False)
        assert user.log.recover().cursors == ()


class _Failing:
    """A connection on which one statement fails."""

    def __init__(self, connection: sqlite3.Connection, statement: str, error: Exception) -> None:
        self._connection, self._statement, self._error = connection, statement, error

    def execute(self, statement: str, *parameters: object) -> object:
        if statement == self._statement:
            raise self._error
        return self._connection.execute(statement, *parameters)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def test_a_full_write_queue_refuses_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "QUEUE_ITEMS_MAX", 4)
    monkeypatch.setattr(log_writer, "QUEUE_BYTES_MAX", 1000)
    with story(tmp_path) as user:
        go_on = user.block_writer()
        for position in range(1, 6):
            user.ask(record(position))
        assert user.log.stats().persists_refused == 1
        go_on()
        assert [user.answer()[1] for _ in range(5)] == [None, None, None, None, log_writer.BEHIND]
        user.store(record(10, 5000))  # alone it is never too large
        go_on = user.block_writer()
        user.ask(record(11, 600))
        user.ask(record(12, 600))
        go_on()
        assert [user.answer()[1] for _ in range(2)] == [None, log_writer.BEHIND]


def test_closing_stores_what_is_queued(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        go_on = user.block_writer()
        for position in range(1, 51):
            user.ask(record(position))
        go_on()
    assert all(user.answer()[1] is None for _ in range(50))
    user.ask(record(51))
    assert user.answer()[1] == log_writer.CLOSED
    user.log.close()
    with story(tmp_path) as user:
        assert user.read() == (records(1, 50), False)


def test_an_exception_in_a_callback_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def raise_it(*_: object) -> None:
        raise RuntimeError("loop is closed")

    with story(tmp_path) as user:
        user.log.persist(Persist(1, (record(1),)), raise_it)
        user.log.fetch(Fetch(1, 1, 1), raise_it)
        user.store(record(2))
        assert user.read() == (records(1, 2), False)
    assert [entry.levelname for entry in caplog.records] == ["ERROR", "ERROR"]


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    for fsync, level in ((True, 2), (False, 1)):
        with closing(EventLog.open(tmp_path, fsync=fsync)) as log:
            assert log._store.connection.execute("PRAGMA synchronous").fetchone() == (level,)
            assert log._store.connection.execute("PRAGMA journal_mode").fetchone() == (b"wal",)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_reading_by_position_count_and_time(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(*records(1, 1000))
        assert user.read(1, 3) == (records(1, 3), False)
        assert user.read(998, 3) == (records(998, 1000), False)
        assert user.read(999, 10) == (records(999, 1000), False)
        assert user.read(1001, 10) == ([], False)
        assert user.read(1, 2, since_us=NOON_US + 700) == (records(700, 701), False)
        assert user.read(800, 2, since_us=NOON_US + 700) == (records(800, 801), False)
        assert user.read(1, 2, since_us=NOON_US + 1001) == ([], False)


def test_positions_that_were_never_stored_are_not_lost(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(record(5))
        user.store(record(9))
        assert user.read(1) == ([record(5), record(9)], False)
        assert user.read(6) == ([record(9)], False)


def test_a_calendar_that_went_back_hides_nothing(tmp_path: Path) -> None:
    times = [100, 110, 120, 90, 95, 98, 99, 121, 130]
    kept = [record(position, logged_us=NOON_US + at) for position, at in enumerate(times, 1)]
    with story(tmp_path) as user:
        user.store(*kept)
        for since in range(85, 135):
            expected = [one for one in kept if one.logged_us >= NOON_US + since]
            assert user.read(1, since_us=NOON_US + since) == (expected, False)


def test_reading_does_not_wait_for_writing(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(record(1))
        with user.log._store._transaction():
            assert user.read() == ([record(1)], False)


def test_too_many_readers_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plait_broker.log.event_log.FETCHES_MAX", 0)
    answers: list[tuple[object, ...]] = []
    with story(tmp_path) as user:
        user.log.fetch(Fetch(3, 1, 1), lambda *answer: answers.append(answer))
    user.log.fetch(Fetch(4, 1, 1), lambda *answer: answers.append(answer))
    assert answers == [(3, [], False, "too many reads of the log are queued"), (4, [], False, log_writer.CLOSED)]


# --- damage -----------------------------------------------------------------------------------------------------------


def spoil(directory: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(directory / "log.db")) as connection, connection:
        connection.execute(statement, parameters)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE record SET block = CAST(replace(block, '5', '6') AS BLOB) WHERE position = 5",
        "UPDATE record SET block = substr(block, 1, 99) WHERE position = 5",
        "UPDATE record SET block = (SELECT block FROM record WHERE position = 4) WHERE position = 5",
        "UPDATE record SET logged_us = logged_us + 1 WHERE position = 5",
        "UPDATE record SET step = 2 WHERE position = 5",
        "UPDATE record SET checksum = 'none' WHERE position = 5",
        "UPDATE record SET logged_us = x'00' WHERE position = 5",
        "UPDATE record SET block = 3.5 WHERE position = 5",
        "UPDATE record SET position = 500 WHERE position = 5",
        "DELETE FROM record WHERE position = 5",
    ],
)
def test_a_damaged_or_vanished_record_is_reported_and_the_rest_is_served(tmp_path: Path, change: str) -> None:
    with story(tmp_path) as user:
        user.store(*records(1, 9))
    spoil(tmp_path, change)
    with story(tmp_path) as user:
        rest = records(1, 4) + records(6, 9)
        assert user.read() == (rest, True)
        assert user.read(5, 2) == (records(6, 7), True)
        assert user.read(6, 2) == (records(6, 7), False)
        assert user.read(1, 4) == (records(1, 4), False)
        assert list(user.log.recover().recent) == rest
        assert (user.log.stats().records_damaged > 0) == (not change.startswith("DELETE") and "= 500" not in change)
        user.store(record(10))


def test_a_vanished_end_is_missed_and_its_positions_are_not_given_out_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with story(tmp_path) as user:
        user.store(*records(1, 9))
    spoil(tmp_path, "DELETE FROM record WHERE position > 7")
    with story(tmp_path) as user:
        assert user.read() == (records(1, 7), True)
        assert user.log.recover().next_position == 10
    for path in tmp_path.glob("log.db*"):
        path.unlink()
    with story(tmp_path) as user:
        assert user.log.notices == ("the log ends at record 0, but 9 was stored: its end was damaged and is lost",)
        assert user.read() == ([], True)
        user.store(record(user.log.recover().next_position))
        assert user.read() == ([record(10)], True)
        assert user.read(10) == ([record(10)], False)
    assert "is lost" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM tally",
        "UPDATE tally SET last_position = 3",
        "UPDATE tally SET checksum = NULL WHERE false",
        "UPDATE version SET version = 99",
    ],
)
def test_a_damaged_tally_or_version_is_made_good(tmp_path: Path, change: str) -> None:
    with story(tmp_path) as user:
        user.store(*records(1, 9))
        before = user.log.stats()
    spoil(tmp_path, change)
    for _ in range(2):
        with story(tmp_path) as user:
            assert user.log.stats().records == 9
            assert user.log.stats().bytes == before.bytes
            assert user.log.recover().next_position == 10
            assert user.read() == (records(1, 9), False)


def test_a_file_that_is_no_database_is_set_aside_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for turn in range(1, 6):
        (tmp_path / "log.db").write_bytes(b"no database at all " * 1000)
        with story(tmp_path) as user:
            assert "was damaged" in user.log.notices[0]
            assert f"damaged.{turn};" in user.log.notices[0]
            user.store(record(user.log.recover().next_position))
    assert len(list(tmp_path.glob("damaged.*"))) == log_repair.ASIDE_MAX
    assert (tmp_path / "damaged.5" / "log.db").read_bytes().startswith(b"no database")
    assert "was moved to" in caplog.text


def test_the_readable_part_of_a_damaged_database_is_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cursors = tuple(Cursor(f"n{number}", "o", "true", number) for number in range(5))
    with story(tmp_path) as user:
        user.store(*records(1, 3000), cursors=cursors)
    with (tmp_path / "log.db").open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xff" * 4096)
    with story(tmp_path) as user:
        assert "5 durable subscriptions were saved" in user.log.notices[0]
        recovered = user.log.recover()
        assert (recovered.next_position, recovered.cursors) == (3001, cursors)
        kept, lost = user.read()
        assert lost
        assert 2900 < len(kept) < 3000
        assert set(kept) <= set(records(1, 3000))
    with story(tmp_path) as user:
        assert user.log.notices == ()
        assert user.read() == (kept, True)


def test_damage_met_while_open_is_passed_over_and_repaired_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_repair, "CHECKED_BYTES_MAX", 0)
    with story(tmp_path) as user:
        user.store(*records(1, 3000))
    with (tmp_path / "log.db").open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xff" * 4096)
    with story(tmp_path) as user:
        assert user.log.notices == ()
        kept, lost = user.read()
        assert lost
        assert 2900 < len(kept) < 3000
        user.store(record(3001))
    with story(tmp_path) as user:
        assert "were saved" in user.log.notices[0]
        assert user.read() == ([*kept, record(3001)], True)


# --- what comes back --------------------------------------------------------------------------------------------------


def test_an_empty_log(tmp_path: Path) -> None:
    with story(tmp_path / "a" / "b") as user:
        recovered = user.log.recover()
        assert (recovered.next_position, recovered.cursors, recovered.recent) == (1, (), ())
        assert user.read() == ([], False)
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_recovery_brings_cursors_positions_and_the_newest_records(tmp_path: Path) -> None:
    first = Cursor("orders", "alice", "price > 3", 5, (7, 8, 20), ((9, "price > 1"), (12, "name == 'ü'")), 1_700_000)
    second = Cursor("örders", "bob", "name == 'ü'", 2)
    with story(tmp_path) as user:
        user.store(*records(1, 30), cursors=(first, second))
        user.store(cursors=(Cursor("gone", "bob", "true", 1), Cursor("orders", "alice", "price > 3", 6, (8,))))
        user.store(forgotten=(("bob", "gone"), ("nobody", "nothing")))
    with story(tmp_path) as user:
        recovered = user.log.recover(recent=4)
        assert recovered.next_position == 31
        assert recovered.cursors == (Cursor("orders", "alice", "price > 3", 6, (8,)), second)
        assert list(recovered.recent) == records(27, 30)
        assert list(user.log.recover(recent_bytes_max=250).recent) == records(29, 30)
        assert list(user.log.recover().recent) == records(1, 30)


def test_a_name_given_up_and_taken_again_at_once_is_kept(tmp_path: Path) -> None:
    anew = Cursor("orders", "alice", "true", 9)
    with story(tmp_path) as user:
        user.store(cursors=(Cursor("orders", "alice", "price > 3", 5),))
        user.store(cursors=(anew,), forgotten=(("alice", "orders"),))
        assert user.log.recover().cursors == (anew,)


def test_a_position_that_was_acknowledged_is_not_given_out_again(tmp_path: Path) -> None:
    """If its record was not stored, the next event must not count as acknowledged."""
    with story(tmp_path) as user:
        user.store(record(1), cursors=(Cursor("orders", "alice", "true", 4, (6,)),))
        assert user.log.recover().next_position == 7


def test_a_damaged_cursor_is_reported(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(cursors=(Cursor("a", "o", "true", 5), Cursor("b", "o", "true", 5)))
    spoil(tmp_path, "UPDATE cursor SET acknowledged = 500 WHERE name = x'61'")
    with story(tmp_path) as user:
        assert user.log.recover().cursors == (Cursor("b", "o", "true", 5),)
        assert user.log.notices == ("1 durable subscriptions were damaged and are forgotten",)


def test_a_second_broker_is_refused(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        with pytest.raises(LogInUse, match="in use by another broker") as refused:
            EventLog.open(tmp_path)
        assert refused.value.retryable
        assert "directory of its own" in refused.value.hint
        user.store(record(1))
    with story(tmp_path) as user:
        assert user.read() == ([record(1)], False)


def test_a_later_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(record(1))
    spoil(tmp_path, "UPDATE version SET version = ?, checksum = ?", 3, numbers_checksum(3))
    before = (tmp_path / "log.db").read_bytes()
    with pytest.raises(LogTooNew, match="has format 3, and this broker knows 2"):
        EventLog.open(tmp_path)
    assert (tmp_path / "log.db").read_bytes() == before


def test_a_directory_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LogError, match="cannot be opened"):
        EventLog.open(tmp_path / "file")


# --- which log it is --------------------------------------------------------------------------------------------------


def identity(directory: Path) -> int:
    """Return the identity that a starting broker recovers."""
    with story(directory) as user:
        return user.log.recover().log


def test_a_log_keeps_its_identity_and_another_has_another(tmp_path: Path) -> None:
    first = identity(tmp_path / "a")
    assert 0 < first < 2**63
    assert identity(tmp_path / "a") == first
    assert identity(tmp_path / "b") != first


def test_a_log_that_was_wiped_or_lost_is_another(tmp_path: Path) -> None:
    home = tmp_path / "log"
    seen = {identity(home)}
    shutil.rmtree(home)
    seen.add(identity(home))
    for path in home.glob("log.db*"):
        path.unlink()  # and the mark stays
    seen.add(identity(home))
    assert len(seen) == 3


def test_a_repaired_log_is_the_one_that_it_was(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        before = user.log.recover().log
        user.store(*records(1, 400, 500))
    with (tmp_path / "log.db").open("r+b") as file:
        file.seek(20 * 4096)
        file.write(b"\xff" * 4096)
    with story(tmp_path) as user:
        assert "were saved from it" in user.log.notices[0]
        assert user.log.recover().log == before


@pytest.mark.parametrize(
    "change", ["UPDATE identity SET secret = zeroblob(32)", "DELETE FROM identity", "DROP TABLE identity"]
)
def test_a_damaged_or_missing_identity_is_replaced_once(tmp_path: Path, change: str) -> None:
    before = identity(tmp_path)
    with closing(sqlite3.connect(tmp_path / "log.db")) as connection, connection:
        connection.execute(change)
    after = identity(tmp_path)
    assert after not in (before, before + 1)
    assert identity(tmp_path) == after


# --- retention --------------------------------------------------------------------------------------------------------


def settled(user: Story) -> None:
    """Wait until retention has nothing left to do."""
    deadline = threading.Event()
    writer = user.log._writer
    for _ in range(500):
        trimmed = writer.records_trimmed
        user.store()  # answered before room is made
        user.store()  # and this one after it
        if trimmed == writer.records_trimmed and user.log.stats().bytes <= writer._retention.bytes_max:
            return
        deadline.wait(0.01)
    pytest.fail("retention does not come to rest")


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    with story(tmp_path, Retention(bytes_max=100_000)) as user:
        for first in range(1, 5001, 100):
            user.store(*records(first, first + 99))
        settled(user)
        stats = user.log.stats()
        assert 90_000 < stats.bytes <= 100_000
        assert stats.records == 5000 - stats.records_trimmed
        kept, lost = user.read()
        assert (kept, lost) == (records(5001 - stats.records, 5000), True)
        assert user.read(kept[0].position) == (kept, False)
        assert user.read(1, since_us=kept[3].logged_us) == (kept[3:], False)


def test_the_oldest_go_when_they_are_too_old_and_positions_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_us = NOON_US + 50
    with story(tmp_path, Retention(age_s_max=60), lambda: now_us) as user:
        user.store(*records(1, 100))
        now_us = NOON_US + 60 * SECOND_US + 41
        user.log._writer._check_at = 0
        settled(user)
        assert user.read() == (records(41, 100), True)
        now_us = NOON_US + 61 * SECOND_US
        user.log._writer._check_at = 0
        settled(user)
        assert user.read() == ([], True)
        assert user.read(101) == ([], False)
        assert (user.log.stats().records, user.log.stats().bytes) == (0, 0)
    (tmp_path / "log.mark").unlink()
    with story(tmp_path) as user:
        assert user.log.recover().next_position == 101
    assert not caplog.text


def test_the_file_stays_flat_and_shrinks(tmp_path: Path) -> None:
    retention = Retention(bytes_max=1 << 20)
    with story(tmp_path, Retention(bytes_max=16 << 20)) as user:
        for position in range(1, 101):
            user.store(record(position, 100_000))
    large = (tmp_path / "log.db").stat().st_size
    assert large > 9_000_000
    sizes = []
    with story(tmp_path, retention) as user:
        for first in range(101, 2101, 100):
            user.store(*records(first, first + 99, 5000))
            settled(user)
            sizes.append((tmp_path / "log.db").stat().st_size)
    assert (tmp_path / "log.db").stat().st_size < 4 << 20
    assert max(sizes[10:]) <= max(sizes[5:10])


def test_empty_pages_are_given_back_many_at_a_time(tmp_path: Path) -> None:
    with story(tmp_path) as user:
        user.store(*records(1, 100, 100_000))
    with closing(Store(tmp_path / "log.db", fsync=False)) as store:
        assert store.trim(1 << 40, 0, records_max=1000, bytes_max=1 << 40) == 100
        (before,) = store.connection.execute("PRAGMA page_count").fetchone()
        turns = 0
        while store.shrink():
            turns += 1
        (after,) = store.connection.execute("PRAGMA page_count").fetchone()
    assert after < 300 < 2400 < before
    assert turns <= (before - after) / VACUUM_PAGES + 1
