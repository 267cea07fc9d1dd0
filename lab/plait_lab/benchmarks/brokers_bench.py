"""Plait beside the brokers that a Python user could choose instead, in one run: throughput, delay, cost, filters.

Server, publisher and each subscriber are processes, new for every trial, so that a server keeps nothing of the trial
before. The contenders take turns in every repeat, in rotating order; figures are medians. Lost events are reported
beside the figure, and contenders that cannot be measured are named. A figure whose trials all failed is shown as
failed.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from plait_broker.clients.client_reports import REPORT_S

from ..competitors.contender import Contender, loop_name
from ..competitors.participants import Participants
from ..competitors.systems.catalogue import OURS, OURS_IN_PYTHON, OURS_REPORTING, OURS_SILENT, RIVALS
from ..competitors.trials import (
    OTHER_FILTERS,
    Server,
    TrialOutcome,
    beside_slow,
    churn_trial,
    crowd,
    idle,
    latency,
    throughput,
)
from . import durable_bench
from .groups import Group, Session
from .measurement.idle_clients import BYTES_MAX as IDLE_BYTES_MAX
from .measures import Quartiles, median, quartiles
from .reports import Figure, Target

RATE: Final = 1000
SLOW_RATE: Final = 5_000
"""Events/s of a trial with a slow subscriber, which handles at most 200 of them."""
EVENT_SIZES: Final = (1024, 65_536)
"""Bytes of larger events."""
CHURN_S: Final = 30
"""Seconds of churn. PLAIT_BENCH_CHURN_S=600 measures the ten minutes of a release."""

Outcomes: TypeAlias = dict[str, list[TrialOutcome]]
"""Outcomes by the contender's title."""


def brokers_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of the brokers."""
    field = Participants(session.progress)
    session.progress(f"asyncio clients run on {loop_name()}")
    yield from _side_by_side(session, field)
    yield from _large_events(session, field)
    yield from _beside_slow(session, field)
    yield from _selective(session, field)
    yield from _many_subscriptions(session, field)
    yield from _reports(session, field)
    yield from _idle(session, field)
    yield from _churn(session, field)
    yield from durable_bench.durable_figures(session, field)
    yield from field.figures()


GROUP = Group(
    "brokers",
    f"Brokers side by side: events of 128 bytes with three attributes, beside {OTHER_FILTERS:,} filters of others",
    brokers_figures,
)


# --- all of them ------------------------------------------------------------------------------------------------------


def _side_by_side(session: Session, field: Participants) -> Iterator[Figure]:
    seed, seconds = _seed(session, "brokers"), session.size(20, 4) / 10
    one, four, paced = _outcomes(field.present), _outcomes(field.present), _outcomes(field.present)
    trials: list[tuple[str, Outcomes, Callable[[Server], TrialOutcome]]] = [
        ("1->1", one, lambda server: throughput(server, seed, 1, seconds)),
        ("1->4", four, lambda server: throughput(server, seed, 4, seconds)),
        (f"delay at {RATE:,}/s", paced, lambda server: latency(server, seed, RATE, seconds * 2)),
    ]
    for contender in field.rounds(session.size(3, 1), field.present, "alone and to four, as fast as it goes and paced"):
        for what, found, trial in trials:
            outcome = field.measure(contender, what, trial)
            if outcome is not None:
                found[contender.title].append(outcome)
    yield from _speeds(one, four)
    yield from _delays(paced)
    yield from _costs(one, four)


def _speeds(one: Outcomes, four: Outcomes) -> Iterator[Figure]:
    for label, found, least in (("1->1", one, 150_000), ("1->4, all together", four, 350_000)):
        rates = {title: _median(runs, lambda run: run.delivered_per_s) for title, runs in found.items()}
        yield _figure(f"{label}: delivered", rates, "/s", Target(">=", least), _losses(found))


def _delays(paced: Outcomes) -> Iterator[Figure]:
    spreads = {title: [quartiles(run.delays_ns) for run in runs] for title, runs in paced.items()}
    readings: dict[str, Callable[[Quartiles], float]] = {
        "p50": lambda found: found.p50,
        "p99": lambda found: found.p99,
        "p99.9": lambda found: found.p999,
    }
    peer = next((rival.title for rival in RIVALS if rival.key == "nats"), "")
    for name, read in readings.items():
        values = {title: median(map(read, found)) for title, found in spreads.items()}
        beaten = values.get(peer) if name == "p50" else None
        target = None if beaten is None else Target("<=", beaten)
        yield _figure(f"delay at {RATE:,}/s: {name}", values, "us", target, _losses(paced))
    lags = {title: max(run.lag_ns for run in runs) / 1000 if runs else None for title, runs in paced.items()}
    yield _figure("the publisher's own lag, longest", lags, "us")


def _costs(one: Outcomes, four: Outcomes) -> Iterator[Figure]:
    parts: dict[str, Callable[[TrialOutcome], float]] = {
        "server": lambda run: 1e6 * run.server_cpu_s / run.delivered,
        "publisher": lambda run: 1e6 * run.publisher_cpu_s / run.sent,
        "subscriber": lambda run: 1e6 * run.subscribers_cpu_s / run.delivered,
    }
    for name, part in parts.items():
        values = {title: _median(runs, part) for title, runs in one.items()}
        yield _figure(f"1->1: CPU of the {name}, a million events", values, "s")
    values = {title: _median(runs, parts["server"]) for title, runs in four.items()}
    yield _figure("1->4: CPU of the server, a million deliveries", values, "s")
    memory = {title: _median(runs, lambda run: run.server_mb) for title, runs in four.items()}
    yield _figure("resident memory of the server after it", memory, "MB")


def _large_events(session: Session, field: Participants) -> Iterator[Figure]:
    seed, seconds = _seed(session, "large"), session.size(20, 4) / 10
    found = {size: _outcomes(field.present) for size in EVENT_SIZES}
    for contender in field.rounds(session.size(3, 1), field.present, "larger events"):
        for size in EVENT_SIZES:

            def trial(server: Server, size: int = size) -> TrialOutcome:
                return throughput(server, seed, 1, seconds, size)

            outcome = field.measure(contender, f"1->1, {size:,} bytes", trial)
            if outcome is not None:
                found[size][contender.title].append(outcome)
    for size, outcomes in found.items():
        rates = {title: _median(runs, lambda run: run.delivered_per_s) for title, runs in outcomes.items()}
        yield _figure(f"1->1, events of {size // 1024} KB: delivered", rates, "/s", None, _losses(outcomes))
        cpu = {
            title: _median(runs, lambda run: 1e6 * run.server_cpu_s / run.delivered) for title, runs in outcomes.items()
        }
        yield _figure(f"1->1, events of {size // 1024} KB: CPU of the server, a million events", cpu, "s")


def _beside_slow(session: Session, field: Participants) -> Iterator[Figure]:
    """One subscriber that keeps up, alone and beside one that does not. The slow one's losses are not counted."""
    seed, seconds, rate = _seed(session, "slow"), session.size(40, 4) / 10, SLOW_RATE
    alone, beside = _outcomes(field.present), _outcomes(field.present)
    trials: list[tuple[str, Outcomes, Callable[[Server], TrialOutcome]]] = [
        ("alone", alone, lambda server: latency(server, seed, rate, seconds)),
        ("beside a slow subscriber", beside, lambda server: beside_slow(server, seed, rate, seconds)),
    ]
    for contender in field.rounds(session.size(3, 1), field.present, "beside a slow subscriber"):
        for what, found, trial in trials:
            outcome = field.measure(contender, f"{what} at {rate:,}/s", trial)
            if outcome is not None:
                found[contender.title].append(outcome)
    for what, found, _ in trials:
        label = f"fast subscriber {what} at {rate:,}/s"
        p50 = {title: _median(runs, lambda run: quartiles(run.delays_ns).p50) for title, runs in found.items()}
        yield _figure(f"{label}: p50", p50, "us", None, _losses(found))
        p99 = {title: _median(runs, lambda run: quartiles(run.delays_ns).p99) for title, runs in found.items()}
        yield _figure(f"{label}: p99", p99, "us", None, _losses(found))
    memory = {title: _median(runs, lambda run: run.server_mb) for title, runs in beside.items()}
    yield _figure("resident memory of the server beside a slow subscriber", memory, "MB")


# --- content filters --------------------------------------------------------------------------------------------------


def _selective(session: Session, field: Participants) -> Iterator[Figure]:
    """Each subscriber matches one event in a hundred. A contender with topics delivers the two topics that contain its
    interest."""
    subscribers, seconds, seed = session.size(1_000, 50), session.size(20, 4) / 10, _seed(session, "selective")
    label = f"{subscribers:,} subscribers at 1%"
    able = [contender for contender in field.present if contender.selects]
    found = _outcomes(able)
    for contender in field.rounds(session.size(2, 1), able, f"{subscribers:,} selective subscribers"):
        outcome = field.measure(contender, label, lambda server: crowd(server, seed, subscribers, subscribers, seconds))
        if outcome is not None:
            found[contender.title].append(outcome)
    lost = _losses(found)
    rates = {title: _median(runs, lambda run: run.sent_per_s) for title, runs in found.items()}
    yield _figure(f"{label}: events in", rates, "/s", None, lost)
    yield _filtered(label, found, subscribers, lost)
    yield _needless(label, found)
    costs = {title: _median(runs, lambda run: 1e6 * run.server_cpu_s / run.sent) for title, runs in found.items()}
    yield _figure(f"{label}: CPU of the server, an event in", costs, "us")
    memory = {title: _median(runs, lambda run: run.server_mb) for title, runs in found.items()}
    yield _figure(f"{label}: resident memory of the server", memory, "MB")


def _filtered(label: str, found: Outcomes, subscribers: int, lost: dict[str, str]) -> Figure:
    values: dict[str, float | None] = {}
    for title, runs in found.items():
        rate, kept = _median(runs, lambda run: run.sent_per_s), _median(runs, _deliveries_an_event)
        values[title] = None if rate is None or kept is None else rate * (subscribers - kept)
    return _figure(f"{label}: filtered out by the server", values, "/s", None, lost)


def _needless(label: str, found: Outcomes) -> Figure:
    """Compare deliveries with those of Plait, whose filters are exact. A difference below 1% is ignored."""
    measure, target = f"{label}: delivered needlessly", Target("<=", 0)
    exact = _median(found[OURS.title], _deliveries_an_event)
    if exact is None:
        return Figure(measure, None, "/s", target)
    beside: dict[str, float | None] = {}
    for title, runs in found.items():
        rate, kept = _median(runs, lambda run: run.sent_per_s), _median(runs, _deliveries_an_event)
        if rate is not None and kept is not None and kept - exact > 0.01 * exact:
            beside[title] = rate * (kept - exact)
    return Figure(measure, 0.0, "/s", target, beside)


def _deliveries_an_event(run: TrialOutcome) -> float:
    return (run.delivered + run.lost) / run.sent


def _many_subscriptions(session: Session, field: Participants) -> Iterator[Figure]:
    """Each event matches a hundred subscriptions on ten connections, in one frame for each connection."""
    count, seconds, seed = session.size(10_000, 200), session.size(20, 4) / 10, _seed(session, "subscriptions")
    native = importlib.util.find_spec("plait_kernel") is not None
    if not native:
        session.progress("the native kernel is not installed: the Python index alone")
    contenders = [OURS_IN_PYTHON, OURS] if native else [OURS_IN_PYTHON]
    found, what = _outcomes(contenders), f"{count:,} subscriptions"
    for contender in field.rounds(session.size(3, 1), contenders, what):
        outcome = field.measure(contender, what, lambda server: crowd(server, seed, count, 10, seconds))
        if outcome is not None:
            found[contender.title].append(outcome)
    for contender in contenders:
        runs = found[contender.title]
        name = "Python index" if contender is OURS_IN_PYTHON else "native kernel"
        beside = {
            "deliveries/s": _median(runs, lambda run: run.delivered_per_s),
            "us of the broker's CPU, an event": _median(runs, lambda run: 1e6 * run.server_cpu_s / run.sent),
            "MB resident": _median(runs, lambda run: run.server_mb),
        }
        label = f"{count:,} subscriptions at 1%, {name}: events in{_lost_text(runs)}"
        rate = _median(runs, lambda run: run.sent_per_s)
        yield Figure(label, rate, "/s", Target(">=", 5_000), beside)


def _reports(session: Session, field: Participants) -> Iterator[Figure]:
    """Measure the cost of reports by clients that report a hundred times as often, since that of one a second is below
    the noise."""
    seconds, seed = session.size(20, 4) / 10, _seed(session, "reports")
    contenders = [OURS_SILENT, OURS_REPORTING]
    found = _outcomes(contenders)
    for contender in field.rounds(session.size(7, 1), contenders, "reports of clients"):
        outcome = field.measure(contender, "1->1", lambda server: throughput(server, seed, 1, seconds))
        if outcome is not None:
            found[contender.title].append(outcome)
    costs = {title: _median(runs, _cpu_us) for title, runs in found.items()}
    silent, reporting = costs[OURS_SILENT.title], costs[OURS_REPORTING.title]
    share = None
    if silent and reporting is not None:
        share = 100 * (reporting / silent - 1) * OURS_REPORTING.interval_s / REPORT_S
    beside = {f"{title}: CPU us an event": cost for title, cost in costs.items() if cost is not None}
    yield Figure("cost of client reports, one a second", share, "%", Target("<=", 1), beside)


def _cpu_us(outcome: TrialOutcome) -> float:
    """Return the processor time for one event, of all processes."""
    return 1e6 * (outcome.server_cpu_s + outcome.publisher_cpu_s + outcome.subscribers_cpu_s) / outcome.delivered


# --- memory -----------------------------------------------------------------------------------------------------------


def _idle(session: Session, field: Participants) -> Iterator[Figure]:
    connections, rest_s = session.size(5_000, 50), session.size(20, 2) / 10
    able = [contender for contender in field.present if contender.selects]
    what = f"{connections:,} idle connections"
    found = {
        contender.title: field.measure(contender, what, lambda server: idle(server, connections, rest_s))
        for contender in field.rounds(1, able, what)
    }
    yield _figure(f"{what}: server memory each", found, "KB", Target("<=", IDLE_BYTES_MAX / 1000))


def _churn(session: Session, field: Participants) -> Iterator[Figure]:
    """Measure memory while subscriptions come and go. Growth within a twentieth counts as flat."""
    live, seed = session.size(1_000, 50), _seed(session, "churn")
    seconds = session.size(int(os.environ.get("PLAIT_BENCH_CHURN_S", CHURN_S)), 1)
    session.progress(f"{seconds} s of subscribing and unsubscribing")
    label = f"{seconds} s of churn over {live:,} subscriptions: growth of the broker"
    found = field.measure(OURS, "churn", lambda server: churn_trial(server, seed, live, seconds))
    if found is None:
        yield Figure(label, None, "MB")
        return
    memory, changes = found
    third = max(1, len(memory) // 3)
    first, last = statistics.median(memory[:third]), statistics.median(memory[-third:])
    beside = {"MB in the first third": first, "subscriptions come and gone/s": changes}
    yield Figure(label, last - first, "MB", Target("<=", first / 20), beside)


# --- telling ----------------------------------------------------------------------------------------------------------


def _seed(session: Session, purpose: str) -> int:
    return int(session.rng(purpose).integers(2**31))


def _outcomes(contenders: Sequence[Contender]) -> Outcomes:
    """Return an empty list for each contender, so that one whose trials all fail still appears in each figure."""
    return {contender.title: [] for contender in contenders}


def _median(runs: list[TrialOutcome], read: Callable[[TrialOutcome], float]) -> float | None:
    return median(map(read, runs))


def _losses(found: Outcomes) -> dict[str, str]:
    return {title: _lost_text(runs) for title, runs in found.items()}


def _lost_text(runs: list[TrialOutcome]) -> str:
    """Return the share of lost events for a label; nothing if none was lost."""
    lost = sum(run.lost for run in runs)
    if not lost:
        return ""
    return f" (lost {lost / (lost + sum(run.delivered for run in runs)):.2%})"


def _figure(
    measure: str,
    values: Mapping[str, float | None],
    unit: str,
    target: Target | None = None,
    notes: Mapping[str, str] | None = None,
) -> Figure:
    """Return a figure with Plait's value and the others' beside it."""
    notes = notes or {}
    beside = {f"{title}{notes.get(title, '')}": value for title, value in values.items() if title != OURS.title}
    return Figure(f"{measure}{notes.get(OURS.title, '')}", values[OURS.title], unit, target, beside)
