"""Durable publish, end to end: confirmed by the broker once it is on this disk, in groups, next to the log alone.

One publisher keeps a thousand events unconfirmed; a durable subscriber acknowledges everything meanwhile. The log
alone is what the same disk and the same group commit do without protocol, sockets and clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from . import log_bench
from .groups import Session
from .measures import spread
from .reports import Figure, Target
from .rivals.catalogue import OURS_DURABLE
from .rivals.field import Field
from .rivals.trials import Outcome, confirmed


def figures(session: Session, field: Field) -> Iterator[Figure]:
    """All figures of durability."""
    seed, seconds = int(session.rng("durable").integers(2**31)), session.size(20, 5) / 10
    disk = Path.cwd()  # a real one: temporary folders may be memory
    runs: list[Outcome] = []
    for contender in field.rounds(session.size(3, 1), [OURS_DURABLE], "confirmed by the broker"):
        outcome = field.measure(contender, lambda server: confirmed(server, seed, seconds), disk)
        assert outcome is not None, "Plait is measured, or the run ends"
        runs.append(outcome)
    session.tell("the log alone")
    log = log_bench.run(session.size(60, 12) / 10)
    beside = {"the log alone, in groups": log["records stored/s, in groups"]}
    beside["the log alone, one commit each"] = log["records stored/s, one commit each"]
    rate = median(run.sent / run.seconds for run in runs)
    yield Figure('publish with confirm="broker": confirmed', rate, "/s", Target(">=", 10_000), beside)
    spreads = [spread(run.delays_ns) for run in runs]
    alone = {"p50": log["acknowledgement p50, ms"], "p99": log["acknowledgement p99, ms"]}
    p50, p99 = median(found.p50 for found in spreads) / 1000, median(found.p99 for found in spreads) / 1000
    yield Figure("publish to confirmation, p50", p50, "ms", None, {"the log alone": alone["p50"]})
    yield Figure("publish to confirmation, p99", p99, "ms", None, {"the log alone": alone["p99"]})
    cpu = {
        "publisher": median(run.publisher_cpu_s / run.sent for run in runs) * 1e6,
        "subscriber": median(run.subscribers_cpu_s / run.sent for run in runs) * 1e6,
    }
    broker = median(run.server_cpu_s / run.sent for run in runs) * 1e6
    yield Figure("CPU of the broker, a million events", broker, "s", None, cpu)
    yield Figure("confirmed or delivered too little", sum(run.lost for run in runs), "events", Target("<=", 0))
