"""Durable publish, end to end: confirmed by the broker, beside JetStream and Redis streams, and beside the log alone.

One publisher keeps a thousand events unconfirmed; a durable subscriber acknowledges all events. Plait confirms an event
once it is on this disk, with group commit. So do JetStream with `sync_interval: always` and Redis with `appendfsync
always`; with their defaults both confirm earlier, and a power cut loses what they have confirmed. The log alone uses
the same disk and group commit without protocol, sockets and clients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ..competitors.participants import Participants
from ..competitors.systems.catalogue import OURS_DURABLE
from ..competitors.trials import TrialOutcome, confirmed
from . import log_bench
from .groups import Session
from .measures import median, quartiles
from .reports import Figure, Target


def durable_figures(session: Session, field: Participants) -> Iterator[Figure]:
    """Yield all figures of durability."""
    seed, seconds = int(session.rng("durable").integers(2**31)), session.size(20, 5) / 10
    disk = Path.cwd()  # a real one: temporary folders may be memory
    found: dict[str, list[TrialOutcome]] = {contender.title: [] for contender in field.durable}
    for contender in field.rounds(session.size(3, 1), field.durable, "confirmed by the broker"):
        outcome = field.measure(contender, "durable", lambda server: confirmed(server, seed, seconds), disk)
        if outcome is not None:
            found[contender.title].append(outcome)
    runs = found.pop(OURS_DURABLE.title)
    session.progress("the log alone")
    log = log_bench.measure_log(session.size(60, 12) / 10)
    beside: dict[str, float | None] = {"the log alone, in groups": log["records stored/s, in groups"]}
    beside["the log alone, one commit each"] = log["records stored/s, one commit each"]

    def middle(read: Callable[[TrialOutcome], float]) -> float | None:
        return median(map(read, runs))

    def others(read: Callable[[TrialOutcome], float]) -> dict[str, float | None]:
        return {title: median(map(read, theirs)) for title, theirs in found.items()}

    rate = middle(lambda run: run.sent_per_s)
    beside |= others(lambda run: run.sent_per_s)
    yield Figure('publish with confirm="broker": confirmed', rate, "/s", Target(">=", 10_000), beside)
    alone = {"p50": log["acknowledgement p50, ms"], "p99": log["acknowledgement p99, ms"]}

    def p50(run: TrialOutcome) -> float:
        return quartiles(run.delays_ns).p50 / 1000

    def p99(run: TrialOutcome) -> float:
        return quartiles(run.delays_ns).p99 / 1000

    beside_p50 = {"the log alone": alone["p50"], **others(p50)}
    yield Figure("publish to confirmation, p50", middle(p50), "ms", None, beside_p50)
    beside_p99 = {"the log alone": alone["p99"], **others(p99)}
    yield Figure("publish to confirmation, p99", middle(p99), "ms", None, beside_p99)
    cpu = {
        "publisher": middle(lambda run: 1e6 * run.publisher_cpu_s / run.sent),
        "subscriber": middle(lambda run: 1e6 * run.subscribers_cpu_s / run.sent),
    }
    broker = middle(lambda run: 1e6 * run.server_cpu_s / run.sent)
    cpu |= others(lambda run: 1e6 * run.server_cpu_s / run.sent)
    yield Figure("CPU of the broker, a million events", broker, "s", None, cpu)
    lost = sum(run.lost for run in runs) if runs else None
    theirs = {title: float(sum(run.lost for run in runs)) if runs else None for title, runs in found.items()}
    yield Figure("confirmed or delivered too little", lost, "events", Target("<=", 0), theirs)
