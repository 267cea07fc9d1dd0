"""The side-by-side benchmark: its counters, events, processes and reports, and one real trial of Plait."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from pathlib import Path

import msgpack  # type: ignore[import-untyped]
import pytest
from checkout import ROOT

from plait_core.filters import parse
from plait_lab.benchmarks import brokers_bench
from plait_lab.benchmarks.groups import Session, find_groups
from plait_lab.benchmarks.measurement.baselines import WrongAnswer
from plait_lab.benchmarks.reports import Target, figure_record, figure_table
from plait_lab.competitors import installation, trials
from plait_lab.competitors import shared_counters as boards
from plait_lab.competitors.child_command import ChildCommand
from plait_lab.competitors.listening import Listener
from plait_lab.competitors.paced_publishing import (
    IdleTimer,
    Phase,
    Plan,
    PublishedStream,
    publish_all,
    publish_all_blocking,
)
from plait_lab.competitors.participants import Participants
from plait_lab.competitors.processes import TrialProcesses, cost, free_port
from plait_lab.competitors.quotes import (
    EVENT_BYTES,
    EVERYTHING,
    QuoteFilter,
    interests,
    matches,
    other_interests,
    quotes,
    same_topic,
)
from plait_lab.competitors.shared_counters import SharedCounters, Window
from plait_lab.competitors.stamps import CYCLE, MEASURED, WARM, age_ns, closing, phase_of, restamp, stamp
from plait_lab.competitors.systems.catalogue import ALL_RIVALS, CONTENDERS, OURS, OURS_DURABLE, RIVALS
from plait_lab.competitors.trials import TrialOutcome, TrialRun
from plait_lab.failures import Disturbed, NothingMeasured, TrialFailed

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def outcome(rate: int, lost: int = 0) -> TrialOutcome:
    return TrialOutcome(rate, rate - lost, lost, 1.0, 1.0, 10.0, 1.0, 1.0, [1000, 2000, 3000])


def gone(process: int) -> bool:
    """Return whether a process has ended or is a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# --- counting ---------------------------------------------------------------------------------------------------------


def test_a_board_is_seen_by_all_who_open_it(tmp_path: Path) -> None:
    one = SharedCounters.create(tmp_path / "board", subscribers=2, samples=3)
    other = SharedCounters(tmp_path / "board")
    assert (other.subscribers, other.samples) == (2, 3)
    one.sent[WARM] = 7
    one.received[MEASURED][1] = 5
    one.delays(1)[2] = 99
    assert (other.sent[WARM], other.received[MEASURED][1], list(other.delays(1))) == (7, 5, [0, 0, 99])
    assert list(other.delays(0)) == [0, 0, 0]
    assert [*other.ready, *other.received[WARM], *other.breaks[MEASURED]] == [0] * 6


def test_a_stamp_holds_phase_number_and_moment() -> None:
    moment = time.monotonic_ns()
    data = stamp(MEASURED, CYCLE + 3, moment) + b"rest"
    assert phase_of(data) == MEASURED
    assert 0 <= age_ns(data) < 10**10
    assert data[:8] == stamp(MEASURED, 3, moment)
    assert restamp(data, moment + 5) == stamp(MEASURED, 3, moment + 5)


def feed(listener: Listener, phase: int, numbers: list[int]) -> None:
    for number in numbers:
        listener.receive(stamp(phase, number, time.monotonic_ns()) + b"rest")


def counts_of(counters: SharedCounters) -> tuple[int, int, int]:
    """Return the counts of the warm-up and the measured phase, and the breaks of the latter."""
    return counters.received[WARM][0], counters.received[MEASURED][0], counters.breaks[MEASURED][0]


@pytest.mark.parametrize("measure", [False, True])
def test_a_listener_assigns_late_events_to_their_phase(tmp_path: Path, measure: bool) -> None:
    counters = SharedCounters.create(tmp_path / "board", subscribers=1, samples=2)
    listener = Listener(counters, 0, measure=measure)
    feed(listener, WARM, [0, 1])
    feed(listener, MEASURED, [0, 1])
    feed(listener, WARM, [2])
    feed(listener, MEASURED, [2])
    assert counts_of(counters) == (3, 3, 0)
    assert counters.breaks[WARM][0] == 0
    assert all((delay > 0) == measure for delay in counters.delays(0))


@pytest.mark.parametrize(
    ("numbers", "breaks"),
    [
        (list(range(CYCLE)) * 2, 0),
        ([0, 1, 1, 2], 1),
        ([0, 2, 3], 1),
        ([0, 2, 1, 3], 3),
        ([1, 2], 1),
        ([*range(8), *range(8)], 1),
    ],
    ids=["in order", "twice", "one lost", "overtaken", "the first lost", "a batch twice"],
)
def test_a_listener_notices_what_is_not_next(tmp_path: Path, numbers: list[int], breaks: int) -> None:
    counters = SharedCounters.create(tmp_path / "board", subscribers=1)
    feed(Listener(counters, 0, measure=False), MEASURED, numbers)
    assert counts_of(counters) == (0, len(numbers), breaks)


def test_a_window_waits_for_the_slowest_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = SharedCounters.create(tmp_path / "board", subscribers=2)
    window = Window(counters, WARM, width=10)

    def full(expected: int) -> bool:
        counters.expected[WARM] = expected
        return window.full()

    counters.received[WARM][0] = 20
    assert not full(10)
    assert full(11)
    monkeypatch.setattr(Window, "STALL_S", 0.0)
    time.sleep(0.001)
    assert full(11)  # and given up
    assert not full(21)


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [EVENT_BYTES, 1024, 65_536])
def test_events_are_of_one_size_in_every_form(size: int) -> None:
    for quote in quotes(3, 50, size):
        text, mark = quote.text(MEASURED), stamp(MEASURED, 5)
        assert len(quote.body(mark)) == len(text) == size
        assert len(quote.payload(mark)) == size - len(msgpack.packb(quote.attributes))
        assert text.isascii()
        assert text[:-1].decode().isprintable()
        assert text.count(closing(MEASURED)) == 1
        assert text.count(closing(WARM)) == 0
        assert quote.payload(mark).startswith(mark)
        assert parse(EVERYTHING).matches(quote.attributes)


def test_an_interest_matches_one_event_in_a_hundred() -> None:
    events, wanted = quotes(5, 200), interests(5, 300)
    counts = matches(events, wanted)
    filters = [parse(interest.filter) for interest in wanted]
    assert counts == [sum(filter.matches(event.attributes) for filter in filters) for event in events]
    assert 0.007 < sum(counts) / len(events) / len(wanted) < 0.013
    topics = same_topic(events, wanted)
    assert all(less <= more for less, more in zip(counts, topics, strict=True))
    assert 0.015 < sum(topics) / len(events) / len(wanted) < 0.021, "an interest is two topics of a hundred"
    assert not any(matches(events, other_interests(5, 300)))
    assert not any(same_topic(events, other_interests(5, 300)))


def test_the_topics_of_an_interest_contain_it() -> None:
    wanted = interests(5, 300)
    for quote in quotes(6, 100):
        topics = [quote.topic in interest.topics for interest in wanted]
        assert topics >= [parse(interest.filter).matches(quote.attributes) for interest in wanted]
    assert QuoteFilter("S1", 200.0).topics == [("S1", 2)]
    assert QuoteFilter("S1", 200.01).topics == [("S1", 2), ("S1", 3)]


def test_payloads_are_random_bytes() -> None:
    """A filler of one byte flatters brokers that search payloads for another one, such as `$`."""
    payloads = [quote.payload(stamp(WARM)) for quote in quotes(3)]
    assert len(set(b"".join(payloads))) == 256
    assert 0.2 < sum(b"$" in payload for payload in payloads) / len(payloads) < 0.5
    assert len(set(b"".join(quote.text(WARM)[:-1] for quote in quotes(3)))) > 60


# --- publishing -------------------------------------------------------------------------------------------------------


def one_phase(counters: SharedCounters, kind: str, seconds: float, rate: int = 0) -> PublishedStream:
    counters.cells[boards.PHASE] = 1
    plan = Plan(1, 10_000, (Phase(kind, seconds, rate),))  # type: ignore[arg-type]
    return PublishedStream(plan, counters, lambda quote, stamp: (quote.body(stamp),))


async def test_a_schedule_is_kept_and_every_event_carries_its_moment(tmp_path: Path) -> None:
    counters = SharedCounters.create(tmp_path / "board", subscribers=1)
    moments: list[int] = []

    async def publish(body: bytes) -> None:
        moments.append(int.from_bytes(body[:6], "little"))
        assert body.startswith(stamp(WARM, len(moments) - 1, moments[-1]))
        if len(moments) == 20:
            counters.cells[boards.PHASE] = boards.STOP

    with pytest.raises(SystemExit):
        await publish_all(one_phase(counters, "paced", 0.02, 1000), publish)
    assert {after - before for before, after in itertools.pairwise(moments)} == {1_000_000}
    assert counters.sent[WARM] == counters.expected[WARM] == 20
    assert counters.cells[boards.DONE] == 1


async def test_a_publisher_is_idle_until_the_next_event() -> None:
    """Work that a library leaves for later turns of the loop is done before the next event."""
    loop = asyncio.get_running_loop()
    turns = 0

    def turn(left: int) -> None:
        nonlocal turns
        turns += 1
        if left:
            loop.call_soon(turn, left - 1)

    with IdleTimer() as timer:
        loop.call_soon(turn, 19)
        due_ns = time.monotonic_ns() + 1_000_000_000
        await timer.idle_until(due_ns)
        assert time.monotonic_ns() >= due_ns
        assert turns == 20
        loop.call_soon(turn, 0)
        await timer.idle_until(due_ns)
        assert turns == 21, "the loop runs also when the event is late"


def test_a_flood_is_counted_and_ends_by_itself(tmp_path: Path) -> None:
    counters = SharedCounters.create(tmp_path / "board", subscribers=1)
    published = 0

    def publish(body: bytes) -> None:
        nonlocal published
        published += 1
        counters.received[WARM][0] = published
        if published == 512:
            counters.cells[boards.PHASE] = boards.STOP

    with pytest.raises(SystemExit):
        publish_all_blocking(one_phase(counters, "flood", 0.05), publish)
    assert counters.sent[WARM] == published >= 512


# --- processes --------------------------------------------------------------------------------------------------------


def test_an_errand_survives_its_journey() -> None:
    command = ChildCommand("nats", "publisher", 5, "b", 1, True, Plan(1, 2, (Phase("paced", 1.0, 10),)), 3, 4, 5)
    assert ChildCommand.parse(command.command()[-1]) == command
    assert json.loads(command.command()[-1])["contender"] in CONTENDERS


def test_no_process_outlives_its_block_even_when_interrupted(tmp_path: Path) -> None:
    started = []
    with pytest.raises(KeyboardInterrupt), TrialProcesses(tmp_path) as children:
        started += [children.start("one", SLEEP), children.start("two", SLEEP)]
        assert cost(started[0]).resident_mb > 0
        raise KeyboardInterrupt
    assert all(map(gone, started))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's promise to kill orphans is Linux's")
def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from plait_lab.competitors.processes import TrialProcesses\n"
        f"cast = TrialProcesses(Path({str(tmp_path)!r}))\n"
        f"print(cast.start('one', {SLEEP!r}), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        command = Path(f"/proc/{child}/cmdline")
        while b"launch.py" in command.read_bytes():  # until then it has not asked the kernel
            time.sleep(0.01)
        parent.kill()
    end = time.monotonic() + 10
    while not gone(child) and time.monotonic() < end:
        time.sleep(0.01)
    assert gone(child)


def test_the_last_output_of_an_ended_process_is_reported(tmp_path: Path) -> None:
    with TrialProcesses(tmp_path) as children:
        children.start("server", [sys.executable, "-c", "import sys; sys.exit('no such thing')"])
        with pytest.raises(TrialFailed, match="server ended with 1: no such thing"):
            children.wait("never", lambda: False, 20)


def test_a_trial_with_a_stopped_process_fails(tmp_path: Path) -> None:
    with TrialProcesses(tmp_path) as children:
        process = children.start("server", SLEEP)
        children.check()
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(TrialFailed, match="server was stopped from outside"):
            children.wait("never", lambda: False, 20)
        os.kill(process, signal.SIGCONT)


def test_a_wait_has_an_end(tmp_path: Path) -> None:
    with TrialProcesses(tmp_path) as children, pytest.raises(TrialFailed, match=r"rain: not within 0\.02 s"):
        children.wait("rain", lambda: False, 0.02)


def test_a_machine_that_stood_still_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    TrialProcesses.rest(0.001)
    now = iter((0.0, 3.0))
    monkeypatch.setattr("plait_lab.competitors.processes.time.monotonic", lambda: next(now))
    with pytest.raises(Disturbed, match=r"stood still for 3\.0 s"):
        TrialProcesses.rest(0.001)


def test_two_ports_in_a_row_are_free() -> None:
    assert 1024 < free_port() < 65_535


# --- verdicts ---------------------------------------------------------------------------------------------------------


def judge(place: Path, numbers: list[int], *, expected: int, warm: int = 0) -> tuple[int, int]:
    """Return the trial's counts for these events, with late events of the warm-up between them."""
    counters = SharedCounters.create(place / "board", subscribers=1)
    listener = Listener(counters, 0, measure=False)
    feed(listener, MEASURED, numbers[:1])
    feed(listener, WARM, list(range(warm)))
    feed(listener, MEASURED, numbers[1:])
    counters.sent[MEASURED] = counters.expected[MEASURED] = expected
    counters.cells[boards.DONE] = MEASURED
    counters.received[WARM][0] += 1
    with TrialProcesses(place) as children:
        found = TrialRun(
            children, counters, Plan(1, 1, (Phase("flood", 0.0), Phase("flood", 0.0))), (os.getpid(),) * 3
        ).measure()
    return found.delivered, found.lost


def test_late_events_of_the_warm_up_are_not_measured(tmp_path: Path) -> None:
    assert judge(tmp_path, list(range(512)), expected=512, warm=256) == (512, 0)


def test_more_than_was_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="768 deliveries where 512 match"):
        judge(tmp_path, [*range(512), *range(256)], expected=512)


def test_one_lost_and_another_twice_is_refused_though_the_count_is_right(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="twice or out of order, with 0 lost"):
        judge(tmp_path, [0, 1, 1, 3], expected=4)


def test_lost_events_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "QUIET_S", 0.01)
    assert judge(tmp_path, [0, 1, 3], expected=4) == (3, 1)


@pytest.mark.parametrize("expected", [512, 0], ids=["all lost", "none sent"])
def test_a_phase_without_an_event_gives_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int
) -> None:
    monkeypatch.setattr(trials, "QUIET_S", 0.01)
    with pytest.raises(NothingMeasured, match=rf"0 of {expected} events arrived in 0 s"):
        judge(tmp_path, [], expected=expected)


# --- what is measured -------------------------------------------------------------------------------------------------


def test_every_contender_has_a_name_and_lists_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OURS.missing() is None
    assert {rival.key for rival in RIVALS} == {"nats", "mosquitto", "zenoh", "zeromq", "activemq"}
    monkeypatch.setattr("plait_lab.competitors.contender.find_program", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert all(rival.missing() for rival in ALL_RIVALS)


def test_the_installed_packages_are_those_of_the_extra() -> None:
    project = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    assert tuple(project["optional-dependencies"]["rivals"]) == installation.PYTHON_PACKAGES
    command = installation.python_command()
    assert command[-len(installation.PYTHON_PACKAGES) :] == list(installation.PYTHON_PACKAGES)
    assert not [word for word in command if "://" in word or "index" in word]


def test_the_group_is_found() -> None:
    assert "brokers" in {group.name for group in find_groups(lambda step: None)}


def test_losses_stand_next_to_their_figures() -> None:
    found = {OURS.title: [outcome(100)], "other": [outcome(200), outcome(200, lost=40)]}
    one, four = brokers_bench._speeds(found, found)
    assert one.measure == "1->1: delivered"
    assert one.beside == {"other (lost 10.00%)": 180.0}
    assert four.target is not None


class Unserved:
    """Replaces a server in trials that need none."""

    def __init__(self, contender: object, folder: object) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...


@pytest.fixture
def field(monkeypatch: pytest.MonkeyPatch) -> Participants:
    monkeypatch.setattr("plait_lab.competitors.participants.served", Unserved)
    monkeypatch.setattr("plait_lab.competitors.contender.Contender.missing", lambda self: None)
    return Participants(lambda step: None)


def test_a_failed_contender_is_skipped_and_a_failed_plait_raises(field: Participants) -> None:
    def fail(server: object) -> None:
        raise TrialFailed("server ended with 1: why")

    assert field.measure(RIVALS[0], "1->1", fail) is None
    assert field.failed == {RIVALS[0].title: "server ended with 1"}
    assert RIVALS[0] not in list(field.rounds(2, field.present, "again"))
    with pytest.raises(WrongAnswer, match="why"):
        field.measure(OURS, "1->1", fail)


class Failing:
    """A trial that fails a number of times before it returns a result."""

    def __init__(self, error: TrialFailed, times: int) -> None:
        self.error = error
        self.left = times

    def __call__(self, server: object) -> int:
        if not self.left:
            return 7
        self.left -= 1
        raise self.error


@pytest.mark.parametrize(
    ("error", "tries"),
    [(NothingMeasured("0 of 9 events arrived"), 2), (Disturbed("the machine stood still"), 3)],
    ids=["nothing measured", "disturbed"],
)
def test_a_trial_without_a_measurement_is_repeated_and_then_listed(
    field: Participants, monkeypatch: pytest.MonkeyPatch, error: TrialFailed, tries: int
) -> None:
    monkeypatch.setattr(field, "present", [OURS])
    monkeypatch.setattr(field, "durable", [OURS_DURABLE])
    monkeypatch.setattr(field, "missing", {})
    assert field.measure(OURS, "1->1", Failing(error, tries - 1)) == 7
    taken, _ = field.figures()
    assert (taken.reached, list(taken.beside.values())) == (1, [tries - 1])

    always = Failing(error, 100)
    assert field.measure(OURS, "1->1", always) is None
    assert always.left == 100 - tries
    _, _, failed = field.figures()
    assert (failed.measure, failed.reached) == (f"failed trial: Plait, 1->1 ({error})", 1)
    assert field.measure(OURS, "1->4", Failing(error, 0)) == 7, "the contender takes part in the next trial"


def test_the_group_continues_after_trials_that_measured_nothing(
    field: Participants, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object) -> TrialOutcome:
        raise NothingMeasured("nothing was measured: 0 of 9 events arrived in 0 s")

    def throughput(server: object, seed: int, subscribers: int, seconds: float, size: int = 128) -> TrialOutcome:
        return nothing() if subscribers == 1 and size == 128 else outcome(100)

    monkeypatch.setattr(field, "present", [OURS])
    monkeypatch.setattr(field, "durable", [OURS_DURABLE])
    monkeypatch.setattr(field, "missing", {})
    monkeypatch.setattr(brokers_bench, "Participants", lambda progress: field)
    monkeypatch.setattr(brokers_bench, "throughput", throughput)
    monkeypatch.setattr(brokers_bench, "latency", lambda *_: outcome(100))
    monkeypatch.setattr(
        "plait_lab.benchmarks.durable_bench.log_bench.measure_log", lambda seconds: defaultdict(lambda: 1.0)
    )
    monkeypatch.setattr(brokers_bench, "beside_slow", nothing)
    for name in ("brokers_bench.crowd", "brokers_bench.idle", "brokers_bench.churn_trial", "durable_bench.confirmed"):
        monkeypatch.setattr(f"plait_lab.benchmarks.{name}", nothing)
    steps: list[str] = []
    figures = {figure.measure: figure for figure in brokers_bench.brokers_figures(Session(7, True, steps.append))}
    assert figures["1->1: delivered"].reached is None
    assert figures["1->4, all together: delivered"].reached == 100
    assert figures["delay at 1,000/s: p50"].reached == 2
    assert figures["1->1, events of 64 KB: delivered"].reached == 100
    assert figures["fast subscriber alone at 5,000/s: p99"].reached == 3
    failed = {measure for measure, figure in figures.items() if figure.failed}
    for measure in (
        "1->1: CPU of the server, a million events",
        "fast subscriber beside a slow subscriber at 5,000/s: p99",
        "50 subscribers at 1%: delivered needlessly",
        "200 subscriptions at 1%, Python index: events in",
        "50 idle connections: server memory each",
        "1 s of churn over 50 subscriptions: growth of the broker",
        'publish with confirm="broker": confirmed',
        "confirmed or delivered too little",
    ):
        assert measure in failed
    trials = [measure.partition(" (")[0] for measure in figures if measure.startswith("failed trial: ")]
    assert trials[:3] == [
        "failed trial: Plait, 1->1",
        "failed trial: Plait, beside a slow subscriber at 5,000/s",
        "failed trial: Plait, 50 subscribers at 1%",
    ]


def test_a_failed_figure_is_shown_as_failed_in_tables_and_json() -> None:
    figure = brokers_bench._figure("1->1", {OURS.title: None, "other": None}, "/s", Target(">=", 150_000))
    assert figure_table([figure]).splitlines()[2] == "| 1->1    | failed  | >= 150,000 /s | NO  | other failed |"
    record = json.loads(json.dumps(figure_record(figure)))
    assert (record["reached"], record["met"], record["beside"]) == (None, False, {"other": None})


def test_contenders_take_turns_in_rotating_order(field: Participants) -> None:
    first, second = list(field.present[:2])
    assert list(field.rounds(2, [first, second], "something")) == [first, second, second, first]


def test_participants_are_listed_with_versions_and_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing competitor is listed with the command that installs it, and the others take part."""
    for rival in ALL_RIVALS:
        monkeypatch.setattr(type(rival), "missing", lambda self: "no program")
    field = Participants(lambda step: None)
    assert (field.present, field.durable) == ([OURS], [OURS_DURABLE])
    ours, durable, *absent = field.figures()
    assert (ours.measure, durable.measure) == ("taken part: Plait", "taken part: Plait, durable")
    assert "content" in next(iter(ours.beside))
    assert "fsync" in next(iter(durable.beside))
    assert [figure.measure for figure in absent] == [
        f"left out: {rival.title} (no program; install it with: {rival.install})" for rival in ALL_RIVALS
    ]
    assert all("apt-get install" in rival.install or "pip install" in rival.install for rival in ALL_RIVALS)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="what processes cost is read from /proc")
def test_a_real_trial_of_plait_loses_nothing_and_leaves_nothing() -> None:
    with trials.served(OURS) as server:
        found = trials.throughput(server, 1, 1, 0.1)
        paced = trials.latency(server, 1, 500, 0.2)
        selective = trials.crowd(server, 1, 20, 4, 0.1)
        large = trials.throughput(server, 1, 1, 0.1, 65_536)
        beside = trials.beside_slow(server, 1, 5_000, 0.2)
        process = server.process
        os.kill(process, signal.SIGCONT)  # it is there
    assert gone(process)
    assert found.delivered == found.sent > 0
    assert (paced.sent, len(paced.delays_ns), min(paced.delays_ns) > 0) == (100, 100, True)
    assert (found.lost, paced.lost, selective.lost, large.lost, beside.lost) == (0, 0, 0, 0, 0)
    assert len(beside.delays_ns) == 1_000
    assert selective.delivered < selective.sent
    assert not server.place.exists()
