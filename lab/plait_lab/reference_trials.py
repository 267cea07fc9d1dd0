"""Single trials of Plait alone, by which two states of the source are compared.

`python -m plait_lab.bench --trial NAME --seed N --json` runs one. `compare` runs that command in another checkout. So
its options and its output are a contract between all states of the source, and stay as they are. A trial in `SCRIPTS`
is a program of this state with the same options and output, which runs with the packages of each state.

- The first line has `sources`: the folder of each imported package.
- A line follows for each measure of the trial in `MEASURES`, with `measure`, `reached` (null: failed) and `unit`.
- `delivered` is a rate in events/s, more is better. `p50` is the median delay at 1,000 events/s in us, less is better.
- `cpu` is the processor time in us for an event at full speed, of all processes (two-peers: of the subscriber).
- The measures of `sealed` are milliseconds of single operations and bytes of events, less is better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from .attempts import Attempts
from .benchmarks.chains.catalogue import OURS as CHAIN
from .benchmarks.chains.chain import LONG
from .benchmarks.chains.trials import Passed, flood_chain, running_chain
from .benchmarks.groups import Group, Session
from .benchmarks.measurement.peers.pairs import measured_pair
from .benchmarks.measurement.sealed import operations
from .benchmarks.measures import quartiles
from .benchmarks.reports import Figure, Target
from .competitors.systems.catalogue import OURS
from .competitors.trials import Server, TrialOutcome, latency, served, throughput


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of a trial."""

    name: str
    unit: str
    bar: Target | None = None
    """The allowed ratio of the second state to the base. Without a bar it explains the others."""
    yardstick: str = ""
    """A measure of the same trial, by which each value is divided before the ratio is judged: the machine's speed."""


DELIVERED: Final = Measure("delivered", "/s", Target(">=", 0.97))
CPU: Final = Measure("cpu", "us")
P50: Final = Measure("p50", "us", Target("<=", 1.03))
PAIRING: Final = Measure("pairing", "ms")

_SHAPES: Final = tuple(operations.shape_name(*shape) for shape in operations.SHAPES)

MEASURES: Final = {
    "one-to-one": (DELIVERED, CPU, P50),
    "chain": (DELIVERED, CPU),
    "two-peers": (DELIVERED, CPU, P50),
    "sealed": (
        PAIRING,
        *(
            Measure(name, "ms", Target("<=", 1.05), PAIRING.name)
            for name in (
                *(f"{verb}, {shape}" for shape in _SHAPES for verb in ("seal", "sign", "open", "verify")),
                "issue a credential",
            )
        ),
        *(Measure(f"size, {shape}", "bytes") for shape in _SHAPES),
    ),
}
"""Measures of each trial. The size of a sealed event is part of its format, and so has no bar."""

SCRIPTS: Final = {"sealed": Path(operations.__file__)}
"""Trials that older states of the source do not have."""

RATE: Final = 1000
PEER_EVENTS: Final = 200_000
"""About a second's worth at full speed: starting the processes takes longer."""


def _one_to_one(session: Session) -> Iterator[Figure]:
    """Run a broker with one publisher and one subscriber: at full speed, then paced with a new broker."""
    attempts, seconds = Attempts(session.progress, ()), session.size(20, 4) / 10
    seed = int(session.rng("brokers").integers(2**31))

    def attempt(trial: Callable[[Server], TrialOutcome]) -> TrialOutcome:
        with served(OURS) as server:
            return trial(server)

    full = partial(attempt, lambda server: throughput(server, seed, 1, seconds))
    fast = attempts.measure(OURS.title, "1->1", full)
    yield Figure("delivered", None if fast is None else fast.delivered_per_s, "/s")
    yield Figure("cpu", None if fast is None else _clients_us(fast) + 1e6 * fast.server_cpu_s / fast.delivered, "us")
    slow = partial(attempt, lambda server: latency(server, seed, RATE, seconds))
    paced = attempts.measure(OURS.title, f"1->1 at {RATE:,}/s", slow)
    yield Figure("p50", None if paced is None else quartiles(paced.delays_ns).p50, "us")


def _chain(session: Session) -> Iterator[Figure]:
    """Run a chain of brokers with a publisher at one end and a subscriber at the other, at full speed."""
    attempts, seconds = Attempts(session.progress, ()), session.size(20, 4) / 10
    seed = int(session.rng("chains").integers(2**31))

    def attempt() -> Passed:
        with running_chain(CHAIN, LONG) as servers:
            return flood_chain(servers, seed, seconds)

    found = attempts.measure(CHAIN.title, f"chain of {LONG}", attempt)
    yield Figure("delivered", None if found is None else found.outcome.delivered_per_s, "/s")
    yield Figure("cpu", None if found is None else _clients_us(found.outcome) + sum(found.servers_us), "us")


def _two_peers(session: Session) -> Iterator[Figure]:
    """Run two live peers, at full speed and paced."""
    attempts, count, few = Attempts(session.progress, ()), session.size(PEER_EVENTS, 2_000), session.size(2 * RATE, 200)
    fast = attempts.measure("plait.peer", "two peers", partial(measured_pair, "plait", count))
    yield Figure("delivered", None if fast is None else fast.events_per_s, "/s")
    yield Figure("cpu", None if fast is None else fast.cpu_us, "us")
    paced = attempts.measure(
        "plait.peer", f"two peers at {RATE:,}/s", partial(measured_pair, "plait", few, float(RATE))
    )
    yield Figure("p50", None if paced is None else paced.p50_us, "us")


def _clients_us(outcome: TrialOutcome) -> float:
    return 1e6 * (outcome.publisher_cpu_s + outcome.subscribers_cpu_s) / outcome.delivered


TRIALS: Final = {
    group.name: group
    for group in (
        Group("one-to-one", "One broker, one publisher, one subscriber", _one_to_one),
        Group("chain", f"A chain of {LONG} brokers", _chain),
        Group("two-peers", "Two live peers", _two_peers),
    )
}
