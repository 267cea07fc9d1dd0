"""The figures of thesis 2.8: the rows of each table and the panels of each plot, for the thesis' variant and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import Final

from ...simulation.peers.trial import VARIANTS, Terms, Trial
from ...simulation.peers.workload import PeerSpread, PeerWorkload
from .drawing import Lines, Row

PERIODS_MAX: Final = 80
"""Periods after which a group counts as it is, complete or not."""
SETTLING: Final = 25
"""Periods before churn begins."""
WORKLOADS: Final = {spread.value: PeerWorkload(spread=spread) for spread in PeerSpread}
MODERATE: Final = (5, 6, 7, 8, 9, 10)
TIGHT: Final = (2, 3, 4)

Panels = list[tuple[str, str, str, Lines]]


@dataclass(frozen=True, slots=True)
class FigureSizes:
    """The sizes of an experiment."""

    plait: int = 1000
    thesis: int = 1000
    seed: int = 1
    variants: tuple[str, ...] = tuple(VARIANTS)

    def of(self, variant: str) -> int:
        """Return the number of peers for a variant."""
        return self.plait if variant == "plait" else self.thesis


@dataclass(frozen=True, slots=True)
class ThesisFigure:
    """One figure: its rows and its panels."""

    title: str
    rows: Callable[[FigureSizes], Iterator[Row]]
    panels: Callable[[list[Row]], Panels]
    sizes: FigureSizes


def lines(rows: Iterable[Row], by: tuple[str, ...], x: str, y: str, scale: float = 1.0) -> Lines:
    """Return points of y over x, one line for each combination of `by`."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = " ".join(f"m={row[key]}" if key == "m" else str(row[key]) for key in by)
        found.setdefault(name, []).append((float(row[x]), scale * float(row[y])))
    return found


# --- 2.7: convergence -------------------------------------------------------------------------------------------------


def convergence(sizes: FigureSizes) -> Iterator[Row]:
    """Yield converged and notified shares over time, with the connection requests."""
    for name, workload in WORKLOADS.items():
        for variant in sizes.variants:
            peers = sizes.of(variant)
            trial = Trial(Terms(peers, workload=workload, variant=variant, seed=sizes.seed, events_per_period=3))
            for period, standing in enumerate(trial.periods(PERIODS_MAX), 1):
                counts = sorted(peer.counters.connects_sent for peer in trial.world.peers.values())
                yield {
                    "workload": name,
                    "variant": variant,
                    "peers": peers,
                    "period": period,
                    "converged": standing.converged_share,
                    "notified": standing.notified_share,
                    "requests_mean": fmean(counts),
                    "requests_p90": counts[int(0.9 * len(counts))],
                    "requests_p99": counts[int(0.99 * len(counts))],
                    "in_degree": standing.in_degree,
                }


def convergence_panels(rows: list[Row]) -> Panels:
    """Return figures 2.7 (a) to (c)."""
    by = ("workload", "variant", "peers")
    return [
        ("converged", "period", "% of peers", lines(rows, by, "period", "converged", 100)),
        ("notified", "period", "% of peers", lines(rows, by, "period", "notified", 100)),
        ("connection requests per peer", "period", "mean", lines(rows, by, "period", "requests_mean")),
    ]


# --- 2.8: churn -------------------------------------------------------------------------------------------------------


def churn_lines(sizes: FigureSizes) -> Iterator[Row]:
    """Yield rows for a share of the group replaced in every period, or at once."""
    for variant in sizes.variants:
        for name, workload in WORKLOADS.items():
            for share in (0.005, 0.01, 0.025):
                yield _continuous(sizes, variant, name, workload, share)
        for share in (0.1, 0.25, 0.4):
            trial = Trial(Terms(sizes.of(variant), variant=variant, seed=sizes.seed))
            settled = [*trial.periods(PERIODS_MAX)][-1]
            trial.churn(share)
            yield _sudden(variant, trial, share, 0, settled.converged_share, settled.notified_share)
            for period, standing in enumerate(trial.periods(30, enough=False), 1):
                yield _sudden(variant, trial, share, period, standing.converged_share, standing.notified_share)


def _continuous(sizes: FigureSizes, variant: str, name: str, workload: PeerWorkload, share: float) -> Row:
    trial = Trial(Terms(sizes.of(variant), workload=workload, variant=variant, seed=sizes.seed))
    for _ in range(SETTLING):
        trial.period()
    seen = []
    for _ in range(20):
        trial.churn(share)
        trial.period()
        seen.append(trial.state())
    converged, notified = [each.converged_share for each in seen], [each.notified_share for each in seen]
    return {
        "kind": "continuous",
        "variant": variant,
        "workload": name,
        "peers": trial.terms.peers,
        "churn": 100 * share,
        "period": 0,
        "converged": fmean(converged),
        "notified": fmean(notified),
        "deviation": pstdev(notified),
    }


def _sudden(variant: str, trial: Trial, share: float, period: int, converged: float, notified: float) -> Row:
    return {
        "kind": "sudden",
        "variant": variant,
        "workload": "wl1",
        "peers": trial.terms.peers,
        "churn": 100 * share,
        "period": period,
        "converged": converged,
        "notified": notified,
        "deviation": 0.0,
    }


def churn_panels(rows: list[Row]) -> Panels:
    """Return figures 2.8 (a) to (c)."""
    steady = [row for row in rows if row["kind"] == "continuous"]
    sudden = [row for row in rows if row["kind"] == "sudden"]
    by = ("variant", "workload")
    return [
        ("continuous churn: converged", "% per period", "% of peers", lines(steady, by, "churn", "converged", 100)),
        ("continuous churn: notified", "% per period", "% of peers", lines(steady, by, "churn", "notified", 100)),
        ("sudden churn", "period", "% notified", lines(sudden, ("variant", "churn"), "period", "notified", 100)),
    ]


# --- 2.9: scalability -------------------------------------------------------------------------------------------------


def scaling(sizes: FigureSizes) -> Iterator[Row]:
    """Yield construction time over the number of peers, and in-degree over the number of sub-spaces."""
    for variant in sizes.variants:
        for name, workload in WORKLOADS.items():
            for part in (8, 4, 2, 1):
                peers = sizes.of(variant) // part
                trial = Trial(Terms(peers, workload=workload, variant=variant, seed=sizes.seed, events_per_period=3))
                seen = [*trial.periods(PERIODS_MAX)]
                yield _scaled("peers", variant, name, trial, seen[-1].in_degree, len(seen), seen[-1].notified_share)
        for attributes, grid_bits in ((2, 3), (2, 4), (3, 3), (3, 4)):
            workload = PeerWorkload(attributes=attributes, grid_bits=grid_bits, bounds=MODERATE)
            trial = Trial(Terms(300, workload=workload, variant=variant, seed=sizes.seed, events_per_period=3))
            seen = [*trial.periods(PERIODS_MAX // 2)]
            yield _scaled("sub-spaces", variant, "wl1", trial, seen[-1].in_degree, len(seen), seen[-1].notified_share)


def _scaled(kind: str, variant: str, name: str, trial: Trial, in_degree: float, periods: int, notified: float) -> Row:
    subscribers = [peer for peer in trial.world.peers.values() if not peer.state.publisher]
    return {
        "kind": kind,
        "variant": variant,
        "workload": name,
        "peers": trial.terms.peers,
        "attributes": trial.terms.workload.attributes,
        "sub_spaces": fmean(len(peer.state.interest) for peer in subscribers),
        "in_degree": in_degree,
        "periods": periods,
        "notified": notified,
    }


def scaling_panels(rows: list[Row]) -> Panels:
    """Return figures 2.9 (a) and (b)."""
    over_peers = [row for row in rows if row["kind"] == "peers"]
    over_spaces = [row for row in rows if row["kind"] == "sub-spaces"]
    by = ("variant", "workload")
    return [
        ("construction time", "peers", "periods", lines(over_peers, by, "peers", "periods")),
        ("in-degree", "sub-spaces per subscription", "parents", lines(over_spaces, by, "sub_spaces", "in_degree")),
    ]


# --- 2.10: constraints ------------------------------------------------------------------------------------------------


FALSE_SHARES: Final = (0.0, 0.031, 0.062, 0.125)


def constraints(sizes: FigureSizes) -> Iterator[Row]:
    """Yield notified peers and false positives over the allowed share, for two out-degrees and two kinds of bounds."""
    for scenario, bounds in (("S1", MODERATE), ("S2", TIGHT)):
        workload = PeerWorkload(grid_bits=4, side_bits=(1, 2, 3, 4), aligned=True, bounds=bounds)
        for variant in sizes.variants:
            for m in (6, 12):
                for share in FALSE_SHARES:
                    terms = Terms(
                        sizes.of(variant), 4, workload, variant, m, share, events_per_period=8, seed=sizes.seed
                    )
                    trial = Trial(terms)
                    for _ in range(50):
                        trial.period()
                    false = trial.false_rate(10)
                    standing = trial.state()
                    yield {
                        "scenario": scenario,
                        "variant": variant,
                        "m": m,
                        "peers": terms.peers,
                        "allowed": 100 * share,
                        "converged": standing.converged_share,
                        "notified": standing.notified_share,
                        "false": 100 * false,
                    }


def constraints_panels(rows: list[Row]) -> Panels:
    """Return figures 2.10 (a) and (b)."""
    by = ("scenario", "m", "variant")
    few = [row for row in rows if float(row["allowed"]) <= 13]
    return [
        ("notified", "allowed false positives, % of events", "% of peers", lines(few, by, "allowed", "notified", 100)),
        ("false positives", "allowed, % of events", "received, % of events", lines(few, by, "allowed", "false")),
    ]


FIGURES: Final = {
    "figure27": ThesisFigure("Construction", convergence, convergence_panels, FigureSizes(7000, 2000)),
    "figure28": ThesisFigure("Churn", churn_lines, churn_panels, FigureSizes(500, 500)),
    "figure29": ThesisFigure("Scalability", scaling, scaling_panels, FigureSizes(4000, 1000)),
    "figure210": ThesisFigure("Bandwidth and out-degree", constraints, constraints_panels, FigureSizes(500, 500)),
}
