"""The side-by-side benchmark: its counters, its events, its processes, how it tells, and one real trial of Plait."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from plait_core.filters import parse
from plait_lab import brokers_bench
from plait_lab.baselines import WrongAnswer
from plait_lab.groups import Session, find_groups
from plait_lab.rivals import board as boards
from plait_lab.rivals import installation, trials
from plait_lab.rivals.board import Board, Window
from plait_lab.rivals.catalogue import CONTENDERS, OURS, RIVALS
from plait_lab.rivals.contender import Listener
from plait_lab.rivals.errands import Errand
from plait_lab.rivals.processes import Cast, TrialFailed, cost, free_port
from plait_lab.rivals.publishing import Phase, Plan, Stream, publish_all, publish_all_blocking
from plait_lab.rivals.quotes import EVENT_BYTES, EVERYTHING, interests, matches, quotes, same_symbol, stamp
from plait_lab.rivals.trials import Outcome

ROOT = Path(__file__).parents[2]
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def outcome(rate: int, lost: int = 0) -> Outcome:
    return Outcome(rate, rate - lost, lost, 1.0, 1.0, 10.0, 1.0, 1.0, [1000, 2000, 3000])


def gone(process: int) -> bool:
    """Ended, or a zombie that someone has yet to bury."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- counting ---------------------------------------------------------------------------------------------------------


def test_a_board_is_seen_by_all_who_open_it(tmp_path: Path) -> None:
    one = Board.create(tmp_path / "board", subscribers=2, samples=3)
    other = Board(tmp_path / "board")
    assert (other.subscribers, other.samples) == (2, 3)
    one.cells[boards.SENT] = 7
    one.counts[1] = 5
    one.delays(1)[2] = 99
    assert (other.cells[boards.SENT], other.counts[1], list(other.delays(1))) == (7, 5, [0, 0, 99])
    assert list(other.delays(0)) == [0, 0, 0]
    assert list(other.ready) == [0, 0]


def test_a_listener_counts_and_notes_delays_while_there_is_room(tmp_path: Path) -> None:
    board = Board.create(tmp_path / "board", subscribers=1, samples=2)
    listener = Listener(board, 0, measure=True)
    for _ in range(3):
        listener.heard(stamp(time.monotonic_ns()) + b"rest")
    assert board.counts[0] == 3
    assert all(0 < delay < 10**9 for delay in board.delays(0))


def test_a_window_waits_for_the_slowest_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board.create(tmp_path / "board", subscribers=2)
    window = Window(board, width=10)
    board.counts[0] = 20
    assert not window.full(10)
    assert window.full(11)
    monkeypatch.setattr(Window, "STALL_S", 0.0)
    time.sleep(0.001)
    assert window.full(11)  # and given up
    assert not window.full(21)


# --- events -----------------------------------------------------------------------------------------------------------


def test_events_are_of_one_size_in_every_form() -> None:
    for quote in quotes(3, 50):
        assert len(quote.body()) == len(quote.text()) == EVENT_BYTES
        assert quote.text().count(b"\0") == 1
        assert quote.payload(stamp(5)).startswith(stamp(5))
        assert parse(EVERYTHING).matches(quote.attributes)


def test_an_interest_takes_one_event_in_a_hundred_and_its_count_is_what_filters_say() -> None:
    events, wanted = quotes(5, 200), interests(5, 300)
    counts = matches(events, wanted)
    filters = [parse(interest.filter) for interest in wanted]
    assert counts == [sum(filter.matches(event.attributes) for filter in filters) for event in events]
    assert 0.007 < sum(counts) / len(events) / len(wanted) < 0.013
    assert all(less <= more for less, more in zip(counts, same_symbol(events, wanted), strict=True))


# --- publishing -------------------------------------------------------------------------------------------------------


def one_phase(board: Board, kind: str, seconds: float, rate: int = 0) -> Stream:
    board.cells[boards.PHASE] = 1
    plan = Plan(1, 10_000, (Phase(kind, seconds, rate),))  # type: ignore[arg-type]
    return Stream(plan, board, lambda quote, stamp: (quote.body(stamp),))


async def test_a_schedule_is_kept_and_every_event_carries_its_moment(tmp_path: Path) -> None:
    board = Board.create(tmp_path / "board", subscribers=1)
    moments: list[int] = []

    async def publish(body: bytes) -> None:
        moments.append(int.from_bytes(body[:8], "little"))
        if len(moments) == 20:
            board.cells[boards.PHASE] = boards.STOP

    with pytest.raises(SystemExit):
        await publish_all(one_phase(board, "paced", 0.02, 1000), publish)
    assert {after - before for before, after in itertools.pairwise(moments)} == {1_000_000}
    assert board.cells[boards.SENT] == board.cells[boards.EXPECTED] == 20
    assert board.cells[boards.DONE] == 1


def test_a_flood_is_counted_and_ends_by_itself(tmp_path: Path) -> None:
    board = Board.create(tmp_path / "board", subscribers=1)
    published = 0

    def publish(body: bytes) -> None:
        nonlocal published
        published += 1
        board.counts[0] = published
        if published == 512:
            board.cells[boards.PHASE] = boards.STOP

    with pytest.raises(SystemExit):
        publish_all_blocking(one_phase(board, "flood", 0.05), publish)
    assert board.cells[boards.SENT] == published >= 512


# --- processes --------------------------------------------------------------------------------------------------------


def test_an_errand_survives_its_journey() -> None:
    errand = Errand("nats", "publisher", 5, "b", 1, True, Plan(1, 2, (Phase("paced", 1.0, 10),)), 3, 4, 5)
    assert Errand.parse(errand.command()[-1]) == errand
    assert json.loads(errand.command()[-1])["contender"] in CONTENDERS


def test_no_process_outlives_its_block_even_when_interrupted(tmp_path: Path) -> None:
    started = []
    with pytest.raises(KeyboardInterrupt), Cast(tmp_path) as cast:
        started += [cast.start("one", SLEEP), cast.start("two", SLEEP)]
        assert cost(started[0]).resident_mb > 0
        raise KeyboardInterrupt
    assert all(map(gone, started))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's promise to kill orphans is Linux's")
def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from plait_lab.rivals.processes import Cast\n"
        f"cast = Cast(Path({str(tmp_path)!r})); print(cast.start('one', {SLEEP!r}), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.3)  # for the child to have asked
        parent.kill()
    end = time.monotonic() + 10
    while not gone(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert gone(child)


def test_a_process_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    with Cast(tmp_path) as cast:
        cast.start("server", [sys.executable, "-c", "import sys; sys.exit('no such thing')"])
        with pytest.raises(TrialFailed, match="server ended with 1: no such thing"):
            cast.wait("never", lambda: False, 20)


def test_what_is_measured_on_a_stopped_process_does_not_count(tmp_path: Path) -> None:
    with Cast(tmp_path) as cast:
        process = cast.start("server", SLEEP)
        cast.check()
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(TrialFailed, match="server was stopped from outside"):
            cast.wait("never", lambda: False, 20)
        os.kill(process, signal.SIGCONT)


def test_a_wait_has_an_end(tmp_path: Path) -> None:
    with Cast(tmp_path) as cast, pytest.raises(TrialFailed, match=r"rain: not within 0\.02 s"):
        cast.wait("rain", lambda: False, 0.02)


def test_two_ports_in_a_row_are_free() -> None:
    assert 1024 < free_port() < 65_535


# --- what is measured -------------------------------------------------------------------------------------------------


def test_every_contender_has_a_name_and_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OURS.missing() is None
    assert {rival.key for rival in RIVALS} == {"nats", "mosquitto", "zenoh", "zeromq", "activemq"}
    monkeypatch.setattr("plait_lab.rivals.contender.find_program", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert all(rival.missing() for rival in RIVALS)


def test_what_is_installed_is_the_extra_and_no_registry_is_named() -> None:
    project = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    assert tuple(project["optional-dependencies"]["rivals"]) == installation.PYTHON_PACKAGES
    command = installation.python_command()
    assert command[-len(installation.PYTHON_PACKAGES) :] == list(installation.PYTHON_PACKAGES)
    assert not [word for word in command if "://" in word or "index" in word]


def test_the_groups_are_found() -> None:
    assert {"brokers", "durable"} <= {group.name for group in find_groups(lambda step: None)}


def test_losses_stand_next_to_their_figures() -> None:
    found = {OURS.title: [outcome(100)], "other": [outcome(200), outcome(200, lost=40)]}
    one, four = brokers_bench._speeds(found, found)
    assert one.measure == "1->1: delivered"
    assert one.beside == {"other (lost 10.00%)": 180.0}
    assert four.target is not None


def test_who_cannot_be_measured_is_told_and_plait_has_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    failed: dict[str, str] = {}
    session = Session(1, True, told.append)

    def fail(server: object) -> None:
        raise TrialFailed("server ended with 1: why")

    class Served:
        def __init__(self, contender: object) -> None: ...
        def __enter__(self) -> None: ...
        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(brokers_bench, "served", Served)
    brokers_bench._attempt(session, RIVALS[0], fail, failed)
    assert failed == {RIVALS[0].title: "server ended with 1"}
    assert "why" in told[0]
    with pytest.raises(WrongAnswer, match="why"):
        brokers_bench._attempt(session, OURS, fail, failed)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="what processes cost is read from /proc")
def test_a_real_trial_of_plait_loses_nothing_and_leaves_nothing() -> None:
    with trials.served(OURS) as server:
        found = trials.throughput(server, 1, 1, 0.1)
        paced = trials.latency(server, 1, 500, 0.2)
        selective = trials.crowd(server, 1, 20, 4, 0.1)
        process = server.process
        os.kill(process, signal.SIGCONT)  # it is there
    assert gone(process)
    assert found.delivered == found.sent > 0
    assert (paced.sent, len(paced.delays_ns), min(paced.delays_ns) > 0) == (100, 100, True)
    assert (found.lost, paced.lost, selective.lost) == (0, 0, 0)
    assert selective.delivered < selective.sent
    assert not server.place.exists()
