"""The overlay between real brokers: how much a chain carries and what a hop adds, beside other systems' chains; and
what faults on the way cost.

Every contender has its turn in every repeat, in rotating order; figures are medians, of faults the worst is beside.
A fault during which the machine itself stood still is tried once more, unless something went wrong, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Final

from . import overlay_healing
from .baselines import WrongAnswer
from .chains.catalogue import OURS, RIVALS
from .chains.chain import LONG, Chain
from .chains.trials import Passed, flood, paced, standing
from .groups import Group, Session
from .measures import spread
from .overlay_healing import DETECT_S, Fault
from .reports import Figure, Target
from .rivals.processes import Disturbed, TrialFailed
from .standstill import Standstill

RATE: Final = 1000
TRIES: Final = 3
"""Of a trial that is disturbed from outside."""

STILL_MS: Final = 30.0
"""When the machine itself stood still for so long, a fault is tried once more: its cost is in milliseconds."""

NOISE_S: Final = 30.0
CLOSED_MS: Final = 100.0
"""A killed broker whose sockets close may cost so much."""
SILENT_MS: Final = 1000 * DETECT_S + 50
"""One that stops and keeps them may cost the detection bound, and this."""


def run(session: Session) -> Iterator[Figure]:
    """All figures of the overlay."""
    yield from _chains(session)
    yield from _faults(session)
    yield from _delays(session)


GROUP = Group("overlay", f"The overlay: a chain of {LONG} brokers beside others' chains, and what faults cost", run)


# --- chains -----------------------------------------------------------------------------------------------------------


class Row:
    """What was found of one system."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.floods: list[Passed] = []
        self.paced: dict[int, list[Passed]] = {1: [], LONG: []}
        self.failed = chain.missing() or ""

    def measure(self, session: Session, seed: int) -> None:
        """One repeat: the chain as fast as it goes; then paced, and one server alone for comparison."""
        seconds = session.size(20, 5) / 10
        self.floods.append(self._tried(session, LONG, lambda servers: flood(servers, seed, seconds)))
        for long, found in self.paced.items():
            found.append(self._tried(session, long, lambda servers: paced(servers, seed, RATE, seconds)))

    def _tried(self, session: Session, long: int, trial: Callable[..., Passed]) -> Passed:
        for remaining in reversed(range(TRIES)):
            try:
                with standing(self.chain, long) as servers:
                    return trial(servers)
            except Disturbed as error:
                session.tell(f"{self.chain.title} was disturbed: {error}")
                if not remaining:
                    raise
        raise AssertionError("the last try returns or raises")

    @property
    def rate(self) -> float:
        return median(one.outcome.delivered_per_s for one in self.floods)

    @property
    def lost(self) -> int:
        return sum(one.outcome.lost for one in self.floods)

    def p50_us(self, long: int) -> float:
        return median(spread(one.outcome.delays_ns).p50 for one in self.paced[long])

    @property
    def hop_us(self) -> float:
        """What a server more adds."""
        return (self.p50_us(LONG) - self.p50_us(1)) / (LONG - 1)

    @property
    def servers_us(self) -> list[float]:
        return [median(costs) for costs in zip(*(one.servers_us for one in self.floods), strict=True)]


def _chains(session: Session) -> Iterator[Figure]:
    seed = int(session.rng("chains").integers(2**31))
    rows = [Row(chain) for chain in (OURS, *RIVALS)]
    repeats = session.size(3, 1)
    for repeat in range(repeats):
        first = repeat % len(rows)
        for row in (*rows[first:], *rows[:first]):
            if not row.failed:
                session.tell(f"{row.chain.title}, chains, {repeat + 1} of {repeats}")
                _measure(session, row, seed)
    ours, *rivals = rows
    others = [row for row in rivals if not row.failed]
    rates = {row.chain.title + (f" ({row.lost:,} lost)" if row.lost else ""): row.rate for row in others}
    yield Figure(f"chain of {LONG}: delivered", ours.rate, "/s", Target(">=", 80_000), rates)
    yield Figure(f"chain of {LONG}: lost", ours.lost, "events", Target("<=", 0))
    hops = {row.chain.title: row.hop_us for row in others}
    yield Figure(f"chain of {LONG} at {RATE:,}/s: p50 added by a hop", ours.hop_us, "us", Target("<=", 150), hops)
    delays = {row.chain.title: row.p50_us(LONG) for row in others}
    yield Figure(f"chain of {LONG} at {RATE:,}/s: p50 from end to end", ours.p50_us(LONG), "us", None, delays)
    for number, place in enumerate(("publisher's broker", "broker between", "subscriber's broker")):
        costs = {row.chain.title: row.servers_us[number] for row in others}
        yield Figure(f"chain of {LONG}: CPU of the {place}, an event", ours.servers_us[number], "us", None, costs)
    for row in rows:
        yield _taken_part(row)


def _measure(session: Session, row: Row, seed: int) -> None:
    try:
        row.measure(session, seed)
    except TrialFailed as error:
        if row.chain is OURS:
            raise WrongAnswer(f"{row.chain.title}: {error}") from error
        session.tell(f"{row.chain.title} failed: {error}")
        row.failed = str(error).partition(":")[0]


def _taken_part(row: Row) -> Figure:
    if row.failed:
        return Figure(
            f"left out: {row.chain.title} ({row.failed}; see python -m plait_lab.rivals install)", 0, "trials"
        )
    trials = len(row.floods) + sum(map(len, row.paced.values()))
    beside = {f"{row.chain.contender.versions()}; {row.chain.means}; repeats": float(len(row.floods))}
    return Figure(f"taken part: {row.chain.title}", trials, "trials", None, beside)


# --- faults and delays ------------------------------------------------------------------------------------------------


def _faults(session: Session) -> Iterator[Figure]:
    for what, fault, most_ms, repeats in (
        ("broker on the way killed", overlay_healing.killed, CLOSED_MS, session.size(7, 1)),
        ("broker on the way stopped", overlay_healing.stopped, SILENT_MS, session.size(5, 1)),
    ):
        found: list[Fault] = []
        for repeat in range(repeats):
            session.tell(f"{what}, {repeat + 1} of {repeats}")
            found.append(_undisturbed(session, fault))
        gaps = [one.longest_ms for one in found]
        beside = {"median": median(gaps), "least": min(gaps)}
        yield Figure(
            f"{what}: longest gap in arrivals, worst of {repeats}", max(gaps), "ms", Target("<=", most_ms), beside
        )
        yield Figure(
            f"{what}: lost, repeated or out of order", sum(one.wrong for one in found), "events", Target("<=", 0)
        )


def _undisturbed(session: Session, fault: Callable[[], Fault]) -> Fault:
    for remaining in reversed(range(TRIES)):
        with Standstill() as machine:
            found = fault()
        still_ms = machine.longest_ms
        if still_ms < STILL_MS or found.wrong:
            break
        again = "once more" if remaining else "it counts all the same"
        session.tell(f"the machine stood still for {still_ms:.0f} ms ({found.longest_ms:.0f} found): {again}")
    return found


def _delays(session: Session) -> Iterator[Figure]:
    repeats = session.size(5, 1)
    left: list[float] = []
    wrong = 0
    for repeat in range(repeats):
        session.tell(f"a link becomes ten times as slow, {repeat + 1} of {repeats}")
        took_s, missing = overlay_healing.slowed()
        left.append(took_s)
        wrong += missing
    beside = {"median": median(left)}
    yield Figure(f"delay of a link times ten: left after, worst of {repeats}", max(left), "s", Target("<=", 2), beside)
    seconds = session.size(round(NOISE_S), 5)
    session.tell(f"two ways with delays that vary by a half, for {seconds} s")
    noise = overlay_healing.noisy(seconds)
    beside = {f"in all {seconds} s": float(noise.changes)}
    label = "two ways as long, delays that vary by a half: changes of path in ten seconds"
    yield Figure(label, noise.within_ten_s, "at most", Target("<=", 1), beside)
    yield Figure("the same: lost, repeated or out of order", wrong + noise.wrong, "events", Target("<=", 0))
