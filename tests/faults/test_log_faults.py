"""The event log on failing disks and in killed processes: SCORECARD F1, F2, F10, F11.

Killed writers are real processes and full disks real file systems. Flipped and torn files are those of a log that was
not closed.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from plait_broker.log.event_log import EventLog, LogError
from plait_broker.outputs import Cursor, Fetch, LogRecord, Persist

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))
KILLS = 20 if NIGHTLY else 5
SPOILED = 3_000 if NIGHTLY else 120


NOON_US = 1_700_000_000_000_000


def opened(directory: str | Path, *, fsync: bool = True) -> EventLog:
    return EventLog.open(directory, fsync=fsync, wall_us=lambda: NOON_US)


def record(position: int) -> LogRecord:
    """Return the only record that may be written at a position: any other record served there is wrong."""
    digest = hashlib.sha256(b"%d" % position).digest()
    return LogRecord(
        position, 1_700_000_000_000_000 + position, digest * (1 + position % 7 + 200 * (position % 50 == 0))
    )


def cursor(number: int, position: int) -> Cursor:
    """Return a cursor that has acknowledged everything before a position."""
    return Cursor(f"name {number}", "owner", "true", position - 3, (position - 1,))


def store(log: EventLog, persist: Persist) -> str | None:
    told: SimpleQueue[tuple[int, str | None]] = SimpleQueue()
    log.persist(persist, lambda ticket, error: told.put((ticket, error)))
    return told.get(timeout=30)[1]


def read(log: EventLog, position: int = 1, count: int = 1_000_000) -> tuple[list[LogRecord], bool]:
    told: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    log.fetch(Fetch(1, position, count), lambda *answer: told.put(answer))
    _, records, lost, error = told.get(timeout=30)
    assert error is None
    return records, lost


# --- F1: killed -------------------------------------------------------------------------------------------------------

WRITER = """
import os, sys
sys.path[:0] = {path!r}
from test_log_faults import cursor, opened, record
from plait_broker.outputs import Persist
from threading import Semaphore

log = opened(sys.argv[1])
position = log.recover().next_position
room = Semaphore(300)

def acknowledged(ticket, error):
    assert error is None, error
    os.write(1, b"%d\\n" % ticket)
    room.release()

while True:
    room.acquire()
    log.persist(Persist(position, (record(position),), (cursor(1, position),)), acknowledged)
    position += 1
"""


def killed_writer(directory: Path, acknowledgements: int) -> int:
    """Run a writer and kill it after a number of acknowledgements; return the last acknowledged position."""
    program = WRITER.format(path=[str(Path(__file__).parent), *filter(None, sys.path)])
    with subprocess.Popen([sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(acknowledgements)]
        child.kill()
        told += [line for line in child.stdout if line.endswith(b"\n")]
    return int(told[-1])


def test_acknowledged_records_survive_a_killed_writer(tmp_path: Path) -> None:
    chance = random.Random(1)
    for turn in range(KILLS):
        acknowledged = killed_writer(tmp_path, chance.randrange(1, 3000))
        with closing(opened(tmp_path)) as log:
            assert log.notices == ()
            recovered = log.recover()
            records, lost = read(log)
            assert not lost
            assert len(records) >= acknowledged, f"turn {turn}"
            assert records == [record(position) for position in range(1, len(records) + 1)]
            assert recovered.next_position == len(records) + 1
            assert recovered.cursors == (cursor(1, len(records)),), "of the same transactions as the records"


# --- F2, F11: torn and flipped ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a log of 1,200 records that was not closed: most in the database, the rest in SQLite's
    log."""
    home = tmp_path_factory.mktemp("log")
    with closing(opened(home / "live")) as log:
        for first in range(1, 1001, 50):
            batch = tuple(record(position) for position in range(first, first + 50))
            assert store(log, Persist(1, batch, (cursor(first, first),))) is None
    with closing(opened(home / "live")) as log:
        for position in range(1001, 1201):
            assert store(log, Persist(1, (record(position),), (cursor(1, position),))) is None
        (home / "image").mkdir()
        for path in (home / "live").glob("log*"):
            shutil.copy(path, home / "image")
    return home / "image"


def flip(path: Path, chance: random.Random) -> str:
    with path.open("r+b") as file:
        offsets = [chance.randrange(path.stat().st_size) for _ in range(chance.choice((1, 1, 2, 20)))]
        if chance.random() < 0.2:
            offsets[0] = chance.randrange(100)  # the header
        for offset in offsets:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << chance.randrange(8)]))
    return f"bits flipped at {offsets}"


def cut(path: Path, chance: random.Random) -> str:
    size = chance.choice((0, chance.randrange(path.stat().st_size), chance.randrange(path.stat().st_size) & ~4095))
    os.truncate(path, size)
    return f"cut to {size}"


def tear(path: Path, chance: random.Random) -> str:
    page = chance.randrange(path.stat().st_size // 4096) * 4096
    with path.open("r+b") as file:
        file.seek(page + chance.choice((0, 512, 2048)))
        file.write(chance.choice((bytes, chance.randbytes))(512))
    return f"page at {page} torn"


def remove(path: Path, chance: random.Random) -> str:
    path.unlink()
    return "removed"


@pytest.mark.parametrize("part", range(4))
def test_torn_or_flipped_records_are_detected_and_never_served(image: Path, tmp_path: Path, part: int) -> None:
    written = {position: record(position) for position in range(1, 1201)}
    pages_damaged = 0
    for seed in range(part, SPOILED, 4):
        chance = random.Random(seed)
        home = shutil.copytree(image, tmp_path / f"seed {seed}")
        name = chance.choice(("log.db", "log.db", "log.db-wal", "log.db-wal", "log.mark"))
        what = chance.choice((flip, flip, flip, cut, tear, remove))(home / name, chance)
        story = f"seed {seed}: {name} {what}"
        with closing(opened(home, fsync=False)) as log:
            recovered = log.recover()
            records, lost = read(log)
            positions = [one.position for one in records]
            assert positions == sorted(set(positions)), story
            assert all(one == written.get(one.position) for one in [*records, *recovered.recent]), story
            assert lost or len(records) == 1200, f"{story}: a record is missed without a report"
            assert recovered.next_position == 1201, story
            assert len(recovered.cursors) == 20 or log.notices, story
            assert all(
                one.acknowledged <= 1200 and one == cursor(int(one.name[5:]), one.acknowledged + 3)
                for one in recovered.cursors
            ), story
            assert store(log, Persist(1, (record(1201),))) is None, story
            assert read(log, 1201) == ([record(1201)], False), story
            pages_damaged += bool(log.notices)
        with closing(opened(home, fsync=False)) as log:
            assert log.notices == () or "durable" in log.notices[0], f"{story}: repaired once is repaired"
            assert read(log) == ([*records, record(1201)], lost), story
        shutil.rmtree(home)
    assert pages_damaged


def test_flips_in_every_page_of_records_are_each_detected(image: Path, tmp_path: Path) -> None:
    """Payload bytes have no structure that SQLite could check: only our checksum detects these flips."""
    written = {position: record(position) for position in range(1, 1201)}
    chance = random.Random(2)
    home = shutil.copytree(image, tmp_path / "log")
    with closing(opened(home, fsync=False)):
        pass
    content = (home / "log.db").read_bytes()
    spoiled = set(chance.sample(range(1, 1001), 200))
    for position in spoiled:
        digest = hashlib.sha256(b"%d" % position).digest()
        flipped = bytearray(digest)
        flipped[chance.randrange(32)] ^= 1 << chance.randrange(8)
        content = content.replace(digest, flipped)  # a page that was split may hold it twice
    (home / "log.db").write_bytes(content)
    with closing(opened(home, fsync=False)) as log:
        assert log.notices == ()
        records, lost = read(log)
        assert lost
        assert {one.position for one in records} == written.keys() - spoiled
        assert all(written[one.position] == one for one in records)
        assert log.stats().records_damaged == 200


# --- F10: full --------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs to be root; the limit on file sizes below needs not")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(ballast: Path) -> None:
    """Fill the file system completely."""
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_full_disk_refuses_and_a_freed_one_goes_on(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    with closing(opened(small_disk / "log")) as log:
        acknowledged, position, refusals = [], 1, 0
        while refusals < 20:
            batch = tuple(record(at) for at in range(position, position + 20))
            error = store(log, Persist(1, batch, (cursor(1, position),)))
            assert error in (None, "the disk is full")
            if error is None:
                acknowledged += batch
            refusals += error is not None
            position += 20
        assert log.stats().failing == "the disk is full"
        assert read(log) == (acknowledged, False)
        ballast.unlink()
        batch = (record(position),)
        assert store(log, Persist(2, batch)) is None
        acknowledged += batch
        assert log.stats().failing is None
        assert read(log) == (acknowledged, False)
    with closing(opened(small_disk / "log")) as log:
        assert log.notices == ()
        assert read(log) == (acknowledged, False)


def test_a_disk_that_is_full_when_the_broker_dies_loses_nothing(small_disk: Path) -> None:
    with closing(opened(small_disk / "log")) as log:
        acknowledged, position, error = [], 1, None
        while error is None:
            batch = tuple(record(at) for at in range(position, position + 20))
            error = store(log, Persist(1, batch))
            acknowledged += batch if error is None else ()
            position += 20
        left = small_disk.parent / "left"
        shutil.copytree(small_disk / "log", left)
    with closing(opened(left)) as log:
        assert log.notices == ()
        assert read(log) == (acknowledged, False)


def test_opening_a_log_on_a_full_disk_fails_with_the_reason(small_disk: Path) -> None:
    with closing(opened(small_disk / "log")) as log:
        assert store(log, Persist(1, (record(1),))) is None
    ballast = small_disk / "ballast"
    fill(ballast)
    with pytest.raises(LogError, match=r"cannot be opened: the disk") as refused:
        opened(small_disk / "log")
    assert "some room" in refused.value.hint
    ballast.unlink()
    with closing(opened(small_disk / "log")) as log:
        assert read(log) == ([record(1)], False)


@pytest.mark.parametrize("room", [60_000, 100_000, 140_000])
def test_a_repair_that_finds_no_room_leaves_the_damaged_log_as_it_was(small_disk: Path, room: int) -> None:
    """At whichever step the disk is full."""
    home = small_disk / "log"
    with closing(opened(home)) as log:
        assert store(log, Persist(1, tuple(record(position) for position in range(1, 401)))) is None
    with (home / "log.db").open("r+b") as file:
        file.seek(10 * 4096)
        file.write(b"\xff" * 4096)
    before = (home / "log.db").read_bytes()
    ballast = small_disk / "ballast"
    fill(ballast)
    os.truncate(ballast, ballast.stat().st_size - room)
    with pytest.raises(LogError, match="cannot be opened"):
        opened(home)
    assert (home / "log.db").read_bytes() == before
    sizes = {path.name: path.stat().st_size for path in home.iterdir()}
    assert not sizes.pop("log.db-wal", 0), "SQLite, which found no room for its own files, leaves an empty one"
    sizes.pop("log.db-shm", None)
    assert sorted(sizes) == ["log.db", "log.mark"]
    ballast.unlink()
    with closing(opened(home)) as log:
        assert "were saved from it" in log.notices[0]
        records, lost = read(log)
        assert lost
        assert 350 < len(records) < 400


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_repair_that_was_cut_short_is_finished(image: Path, tmp_path: Path, moved: int) -> None:
    home = shutil.copytree(image, tmp_path / "log")
    with (home / "log.db").open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"\xff" * 4096)
    whole = shutil.copytree(home, tmp_path / "whole")
    with closing(opened(whole)) as log:
        expected = read(log)
    shutil.copy(whole / "log.db", home / "repaired.db")  # as it was when the broker was killed
    (home / "damaged.1").mkdir()
    for name in ("log.db", "log.db-wal")[:moved]:
        (home / name).rename(home / "damaged.1" / name)
    with closing(opened(home)) as log:
        assert read(log) == expected
        assert ("cut short" if moved else "was damaged") in log.notices[0]
        assert not (home / "repaired.db").exists()


LIMITED = """
import resource, sys
sys.path[:0] = {path!r}
from contextlib import closing
from test_log_faults import opened, read, record, store
from plait_broker.outputs import Persist

with closing(opened(sys.argv[1])) as log:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    acknowledged, position, refusals = [], 1, 0
    while refusals < 5:
        batch = tuple(record(at) for at in range(position, position + 20))
        error = store(log, Persist(1, batch))
        assert error in (None, "the disk is full", "the disk reports an I/O error"), error
        acknowledged += batch if error is None else ()
        refusals += error is not None
        position += 20
    assert read(log) == (acknowledged, False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert store(log, Persist(1, (record(position),))) is None
    assert read(log) == ([*acknowledged, record(position)], False)
"""


def test_a_write_that_fails_otherwise_refuses_and_goes_on(tmp_path: Path) -> None:
    program = LIMITED.format(path=[str(Path(__file__).parent), *filter(None, sys.path)])
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
