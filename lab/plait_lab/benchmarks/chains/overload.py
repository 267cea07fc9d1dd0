"""A chain of brokers that is offered more than it carries: goodput, memory, and how late its loops run.

One publisher at the first broker offers events of a kilobyte on a schedule. A crowd at the last broker subscribes, and
each of its filters matches one event in a hundred. The publisher wants no confirmation, so its broker drops, counts and
reports what the chain has no room for.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ...competitors.child_command import ChildCommand
from ...competitors.contender import HOST
from ...competitors.paced_publishing import Phase, Plan
from ...competitors.processes import cost, free_port
from ...competitors.shared_counters import READY, SharedCounters
from ...competitors.trials import CROWD_BATCH, CROWD_WINDOW, JOIN_S, TrialOutcome, TrialRun
from ...failures import TrialFailed
from ..groups import Session
from ..reports import Figure, Target
from .catalogue import PlaitChain
from .chain import LONG
from .trials import running_chain

EVENT_BYTES: Final = 1024
SUBSCRIBERS: Final = 1000
RATE: Final = 5000
OVERLOAD: Final = 3
GOODPUT_MIN: Final = 80
LAG_MS_MAX: Final = 20
WARM_S: Final = 2.0
SCRAPE_S: Final = 10.0
LAGS: Final = "plait_loop_lag_seconds"
DROPPED: Final = "plait_events_dropped_total"
UNMATCHED: Final = "unmatched"
"""The reason of events that nobody wants: these are no loss."""


class ScrapedChain(PlaitChain):
    """Brokers with a metrics page."""

    def __init__(self, long: int = LONG) -> None:
        self.pages = [free_port() for _ in range(long)]

    def commands(self, ports: Sequence[int], place: Path) -> list[list[str]]:
        commands = super().commands(ports, place)
        return [[*command, "--http", f"{HOST}:{page}"] for command, page in zip(commands, self.pages, strict=True)]


@dataclass(frozen=True, slots=True)
class Load:
    """The results of a chain under a load."""

    outcome: TrialOutcome
    lag_p99_s: float
    """Upper bound of the bucket of the loop's lag, of the broker that has the greatest."""
    resident_mb: float
    """Of the broker that has the most."""
    refused: int
    """Events that the publisher's broker dropped, counted and reported."""


def measure_load(seed: int, rate: int, seconds: float, subscribers: int = SUBSCRIBERS) -> Load:
    """Offer events at a rate to a new chain, and measure what its crowd receives."""
    chain = ScrapedChain()
    phases = (Phase("paced", WARM_S, rate), Phase("paced", seconds, rate))
    plan = Plan(seed, CROWD_WINDOW, phases, CROWD_BATCH, EVENT_BYTES)
    with running_chain(chain, LONG) as servers:
        counters = SharedCounters.create(path := servers.place / "counters", 1)
        try:
            key, (first, *_), last = chain.contender.key, servers.ports, servers.ports[-1]
            crowd = ChildCommand(key, "crowd", last, str(path), 0, False, None, seed, subscribers, subscribers)
            receiving = servers.children.start("crowd", crowd.command())
            servers.children.wait("a crowd", lambda: all(counters.ready), JOIN_S)
            publisher = ChildCommand(key, "publisher", first, str(path), 0, False, plan, seed, subscribers)
            sending = servers.children.start("publisher", publisher.command())
            servers.children.wait("a publisher", lambda: counters.cells[READY] == 1)
            before = [_lags(page) for page in chain.pages]
            outcome = TrialRun(servers.children, counters, plan, (servers.processes[0], sending, receiving)).measure()
            lags = [_p99(then, _lags(page)) for then, page in zip(before, chain.pages, strict=True)]
            resident_mb = max(cost(process).resident_mb for process in servers.processes)
            refused = _refused(chain.pages[0])
            if outcome.lost and not refused:
                raise TrialFailed(f"{outcome.lost:,} deliveries are missing, and no broker has dropped an event")
            return Load(outcome, max(lags), resident_mb, refused)
        finally:
            counters.close()


def load_figures(session: Session) -> Iterator[Figure]:
    """Yield the figures of a chain at the rate that it must hold, and offered three times that. The clients run on this
    machine, too: on two cores, they take half of it."""
    rate, subscribers = session.size(RATE, 200), session.size(SUBSCRIBERS, 50)
    held = _offered(session, rate, subscribers)
    over = _offered(session, OVERLOAD * rate, subscribers)
    label = f"{rate:,} publishes/s of 1 KB to {subscribers:,} subscribers, 1% of events each"
    yield Figure(f"{label}: lost", held.outcome.lost, "events", Target("<=", 0))
    yield Figure(
        f"{label}: lag of the loop, p99", 1e3 * held.lag_p99_s, "ms", Target("<=", LAG_MS_MAX),
        {"three times that offered": 1e3 * over.lag_p99_s},
    )  # fmt: skip
    goodput = over.outcome.delivered_per_s / held.outcome.delivered_per_s
    yield Figure(
        f"{OVERLOAD} times that offered: delivered", 100 * goodput, "% of what was delivered before",
        Target(">=", GOODPUT_MIN), {"events refused, and counted": over.refused},
    )  # fmt: skip
    yield Figure(
        f"{OVERLOAD} times that offered: memory of the broker that has the most", over.resident_mb, "MB", None,
        {"before": held.resident_mb},
    )  # fmt: skip


def _offered(session: Session, rate: int, subscribers: int) -> Load:
    seconds = session.size(20, 1)
    session.progress(f"{rate:,} publishes a second to {subscribers:,} subscribers for {seconds} s")
    return measure_load(session.seed, rate, seconds, subscribers)


def _scrape(page: int, name: str) -> list[Sample]:
    """Return the samples of one metric."""
    with urllib.request.urlopen(f"http://{HOST}:{page}/metrics", timeout=SCRAPE_S) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return [sample for family in families for sample in family.samples if sample.name == name]


def _lags(page: int) -> dict[float, float]:
    """Return the cumulative counts of the loop's lags by the upper bounds of their buckets."""
    return {float(sample.labels["le"]): sample.value for sample in _scrape(page, f"{LAGS}_bucket")}


def _refused(page: int) -> int:
    return round(sum(sample.value for sample in _scrape(page, DROPPED) if sample.labels["reason"] != UNMATCHED))


def _p99(before: dict[float, float], after: dict[float, float]) -> float:
    """Return the upper bound of the bucket below which 99% of the lags between two scrapes are."""
    news = {bound: count - before[bound] for bound, count in sorted(after.items())}
    total = max(news.values())
    return next(bound for bound, count in news.items() if count >= 0.99 * total)
