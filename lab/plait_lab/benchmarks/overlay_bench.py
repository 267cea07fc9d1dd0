"""The overlay of real brokers: a chain's throughput and the delay of a hop beside other systems, a chain that is
offered more than it carries, and the cost of faults.

The contenders take turns in every repeat, in rotating order. Figures are medians; for faults the worst is shown. A
fault during which the machine stalled is repeated, unless events went wrong, and the repetition is reported. A trial
without a measurement is repeated. A figure whose trials all failed is shown as failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from ..attempts import Attempts
from .chains.catalogue import OURS, RIVALS
from .chains.chain import LONG, Chain
from .chains.overload import load_figures
from .chains.trials import Passed, RunningChain, flood_chain, paced_chain, running_chain
from .groups import Group, Session
from .measurement.machine_stalls import MachineStalls
from .measurement.overlay import healing
from .measurement.overlay.healing import DETECT_S, FaultCost
from .measures import median, quartiles
from .reports import Figure, Target

RATE: Final = 1000
TRIES: Final = 3
"""Attempts at a fault during which the machine stalls."""

STILL_MS: Final = 30.0
"""Duration of a stall from which on a fault is repeated: its own cost is in milliseconds."""

NOISE_S: Final = 30.0
CLOSED_MS: Final = 100.0
"""Allowed cost of a killed broker, whose sockets close."""
SILENT_MS: Final = 1000 * DETECT_S + 50
"""Allowed cost of a stopped broker, whose sockets stay open: the detection bound and a margin."""


def overlay_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of the overlay."""
    attempts = Attempts(session.progress, {rival.title for rival in RIVALS})
    yield from _chains(session, attempts)
    yield from load_figures(session)
    yield from _faults(session, attempts)
    yield from _delays(session, attempts)
    yield from attempts.figures()


GROUP = Group(
    "overlay", f"The overlay: a chain of {LONG} brokers beside others' chains, and what faults cost", overlay_figures
)


# --- chains -----------------------------------------------------------------------------------------------------------


class ChainRow:
    """The trials of one system."""

    def __init__(self, chain: Chain, attempts: Attempts) -> None:
        self.chain = chain
        self._attempts = attempts
        self.floods: list[Passed] = []
        self.paced: dict[int, list[Passed]] = {1: [], LONG: []}
        self.missing = chain.missing()

    def measure(self, session: Session, seed: int) -> None:
        """Run one repeat: the chain at full rate, then paced, and one server for comparison."""
        seconds = session.size(20, 5) / 10
        self._add(self.floods, LONG, "as fast as it goes", lambda servers: flood_chain(servers, seed, seconds))
        for long, found in self.paced.items():
            self._add(found, long, f"at {RATE:,}/s", lambda servers: paced_chain(servers, seed, RATE, seconds))

    def _add(self, found: list[Passed], long: int, what: str, trial: Callable[[RunningChain], Passed]) -> None:
        """Run a trial and keep its result unless it failed."""

        def attempt() -> Passed:
            with running_chain(self.chain, long) as servers:
                return trial(servers)

        passed = self._attempts.measure(self.chain.title, f"chain of {long} {what}", attempt)
        if passed is not None:
            found.append(passed)

    @property
    def absent(self) -> bool:
        """Return whether it is not installed or was excluded."""
        return self.missing is not None or self.chain.title in self._attempts.excluded

    @property
    def rate(self) -> float | None:
        return median(one.outcome.delivered_per_s for one in self.floods)

    @property
    def lost(self) -> int | None:
        return sum(one.outcome.lost for one in self.floods) if self.floods else None

    def p50_us(self, long: int) -> float | None:
        return median(quartiles(one.outcome.delays_ns).p50 for one in self.paced[long])

    @property
    def hop_us(self) -> float | None:
        """Return the delay added by one server."""
        far, near = self.p50_us(LONG), self.p50_us(1)
        return None if far is None or near is None else (far - near) / (LONG - 1)

    @property
    def servers_us(self) -> list[float | None]:
        """Return the CPU time of each server for an event."""
        return [median(one.servers_us[number] for one in self.floods) for number in range(LONG)]


def _chains(session: Session, attempts: Attempts) -> Iterator[Figure]:
    seed = int(session.rng("chains").integers(2**31))
    rows = [ChainRow(chain, attempts) for chain in (OURS, *RIVALS)]
    repeats = session.size(3, 1)
    for repeat in range(repeats):
        first = repeat % len(rows)
        for row in (*rows[first:], *rows[:first]):
            if not row.absent:
                session.progress(f"{row.chain.title}, chains, {repeat + 1} of {repeats}")
                row.measure(session, seed)
    ours, *rivals = rows
    others = [row for row in rivals if not row.absent]
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


def _taken_part(row: ChainRow) -> Figure:
    if row.missing is not None:
        reason = f"{row.missing}; see python -m plait_lab.competitors install"
        return Figure(f"left out: {row.chain.title} ({reason})", 0, "trials")
    trials = len(row.floods) + sum(map(len, row.paced.values()))
    beside = {f"{row.chain.contender.versions()}; {row.chain.means}; repeats": float(len(row.floods))}
    return Figure(f"taken part: {row.chain.title}", trials, "trials", None, beside)


# --- faults and delays ------------------------------------------------------------------------------------------------


def _faults(session: Session, attempts: Attempts) -> Iterator[Figure]:
    for what, fault, most_ms, repeats in (
        ("broker on the way killed", healing.killed, CLOSED_MS, session.size(7, 1)),
        ("broker on the way stopped", healing.stopped, SILENT_MS, session.size(5, 1)),
    ):
        found: list[FaultCost] = []
        for repeat in range(repeats):
            session.progress(f"{what}, {repeat + 1} of {repeats}")
            one = attempts.measure(OURS.title, what, partial(_undisturbed, session, fault))
            if one is not None:
                found.append(one)
        gaps = [one.longest_ms for one in found]
        beside = {"median": median(gaps), "least": min(gaps, default=None)}
        label = f"{what}: longest gap in arrivals, worst of {repeats}"
        yield Figure(label, max(gaps, default=None), "ms", Target("<=", most_ms), beside)
        wrong = sum(one.wrong for one in found) if found else None
        yield Figure(f"{what}: lost, repeated or out of order", wrong, "events", Target("<=", 0))


def _undisturbed(session: Session, fault: Callable[[], FaultCost]) -> FaultCost:
    for remaining in reversed(range(TRIES)):
        with MachineStalls() as machine:
            found = fault()
        still_ms = machine.longest_ms
        if still_ms < STILL_MS or found.wrong:
            break
        again = "once more" if remaining else "it counts all the same"
        session.progress(f"the machine stood still for {still_ms:.0f} ms ({found.longest_ms:.0f} found): {again}")
    return found


def _delays(session: Session, attempts: Attempts) -> Iterator[Figure]:
    repeats = session.size(5, 1)
    left: list[float] = []
    wrong: list[int] = []
    for repeat in range(repeats):
        session.progress(f"a link becomes ten times as slow, {repeat + 1} of {repeats}")
        if (found := attempts.measure(OURS.title, "a link becomes slow", healing.slowed)) is not None:
            left.append(found[0])
            wrong.append(found[1])
    beside = {"median": median(left)}
    label = f"delay of a link times ten: left after, worst of {repeats}"
    yield Figure(label, max(left, default=None), "s", Target("<=", 2), beside)
    seconds = session.size(round(NOISE_S), 5)
    session.progress(f"two ways with delays that vary by a half, for {seconds} s")
    noise = attempts.measure(OURS.title, "delays that vary", lambda: healing.noisy(seconds))
    label = "two ways as long, delays that vary by a half: changes of path in ten seconds"
    if noise is None:
        yield Figure(label, None, "at most", Target("<=", 1))
    else:
        wrong.append(noise.wrong)
        beside = {f"in all {seconds} s": float(noise.changes)}
        yield Figure(label, noise.within_ten_s, "at most", Target("<=", 1), beside)
    total = sum(wrong) if wrong else None
    yield Figure("the same: lost, repeated or out of order", total, "events", Target("<=", 0))
