"""Adaptive routing against a static tree while links become slow and recover: python -m
plait_lab.experiments.tid.adaptive

Random graphs of simulated brokers on virtual time; a fifth of all links is slow at any time, another fifth after a
while. Each graph is played twice with the same events and slow links: with the overlay's routing, and with its routes
frozen as they were at the start, when no link was slow. The frozen routes form the tree that a static overlay would
keep. Writes a table of all graphs (CSV) and a plot (PNG, which needs matplotlib) to a folder.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from plait_broker.overlay.topology.forwarding_table import ForwardingTable

from ...simulation.overlay.world import SETTINGS
from ...simulation.overlay.worlds.given_graph import GivenGraph

RESULTS: Final = Path(__file__).parents[3] / "results"
EXPECTED: Final = 0.3
"""Expected reduction of the p99."""


@dataclass(frozen=True, slots=True)
class GraphTerms:
    """The parameters of a simulated graph."""

    brokers: int = 16
    links: int = 32
    publishers: int = 4
    subscribers: int = 8
    for_s: float = 90.0
    events_per_s: float = 8.0
    slow_share: float = 0.2
    slow_factor: float = 10.0
    slow_for_s: float = 30.0
    """Seconds that one set of links stays slow."""


@dataclass(frozen=True, slots=True)
class Played:
    """The result of one graph with one routing."""

    delays_s: tuple[float, ...]
    """The delay of each event from its publisher to each of its subscribers."""
    missing: int
    moves: int
    """Changes of the next hop to a destination, over all brokers."""
    copies: int
    """Copies of events on all links."""

    @property
    def mean_s(self) -> float:
        return statistics.fmean(self.delays_s)

    def quantile_s(self, share: float) -> float:
        """Return the delay that this share of the delays does not exceed."""
        ordered = sorted(self.delays_s)
        return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]


def freeze(routes: ForwardingTable, me: int, brokers: Sequence[int]) -> None:
    """Freeze the next hops of a broker, so that later changes of links have no effect."""
    frozen = {to: routes.feasible_ids(to)[:1] for to in brokers if to != me}
    routes._rank = lambda to: frozen.get(to, [])  # type: ignore[method-assign]
    routes.stale()


class Graph:
    """A random graph with its events and slow links."""

    def __init__(self, seed: int, terms: GraphTerms) -> None:
        rng = Random(f"adaptive/{seed}")
        self.seed = seed
        self.terms = terms
        self.delays_s = _random_graph(rng, terms)
        roles = rng.sample(range(terms.brokers), terms.publishers + terms.subscribers)
        self.publishers, self.subscribers = roles[: terms.publishers], roles[terms.publishers :]
        links = range(terms.links)
        epochs = math.ceil(terms.for_s / terms.slow_for_s)
        self.slow = [set(rng.sample(links, round(terms.slow_share * terms.links))) for _ in range(epochs)]
        count = round(terms.for_s * terms.events_per_s)
        self.events = sorted((rng.uniform(0.0, terms.for_s), rng.choice(self.publishers)) for _ in range(count))

    def play(self, *, adaptive: bool, dissemination: str = "shortest-paths") -> Played:
        """Play the graph with the overlay's routing, or with its routes frozen at the start."""
        linking = replace(SETTINGS.linking, dissemination=dissemination)
        world = GivenGraph(self.delays_s, seed=self.seed, settings=replace(SETTINGS, linking=linking))
        world.start()
        for number in self.publishers:
            world.advertise(number, "x >= 0")
        for number in self.subscribers:
            world.subscribe(number, "x >= 0")
        world.run(10.0)
        if not adaptive:
            self._freeze(world)
        before = self._changes(world)
        timeline = world.world.timeline

        def publish(number: int) -> None:
            world.publish(number, {"x": 1})

        for epoch, slow in enumerate(self.slow):
            timeline.after(epoch * self.terms.slow_for_s, partial(self._slow, world, slow))
        for at, publisher in self.events:
            timeline.after(at, partial(publish, publisher))
        world.run(self.terms.for_s + 20.0)
        assert not world.world.complaints, world.world.complaints
        found = [reception.delay_s for number in self.subscribers for reception in world.receptions(number)]
        owed = len(world.events) * len(self.subscribers)
        return Played(tuple(found), owed - len(found), self._changes(world) - before if adaptive else 0, world.copies)

    @staticmethod
    def _changes(world: GivenGraph) -> int:
        """Return how often brokers have changed a next hop."""
        return sum(node.overlay.routes.changes for node in world.nodes)

    def _slow(self, world: GivenGraph, slow: set[int]) -> None:
        for link, delay_s in zip(world.links, self.delays_s.values(), strict=True):
            world.slow(link, delay_s * (self.terms.slow_factor if link.number in slow else 1.0))

    @staticmethod
    def _freeze(world: GivenGraph) -> None:
        brokers = [node.overlay.me for node in world.nodes]
        for node in world.nodes:
            freeze(node.overlay.routes, node.overlay.me, brokers)


def _random_graph(rng: Random, terms: GraphTerms) -> dict[tuple[int, int], float]:
    """Return a random tree with random additional links, with delays of 2 to 20 ms."""
    edges = {(rng.randrange(node), node) for node in range(1, terms.brokers)}
    while len(edges) < terms.links:
        near, far = sorted(rng.sample(range(terms.brokers), 2))
        edges.add((near, far))
    return {edge: rng.uniform(0.002, 0.020) for edge in sorted(edges)}


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One graph of the table; delays in milliseconds."""

    seed: int
    events: int
    static_mean: float
    adaptive_mean: float
    static_p99: float
    adaptive_p99: float
    moves: int
    missing: int


def compare_graph(seed: int, terms: GraphTerms) -> GraphRow:
    """Play one graph both ways."""
    graph = Graph(seed, terms)
    static, adaptive = graph.play(adaptive=False), graph.play(adaptive=True)
    return GraphRow(
        seed,
        len(adaptive.delays_s),
        1e3 * static.mean_s,
        1e3 * adaptive.mean_s,
        1e3 * static.quantile_s(0.99),
        1e3 * adaptive.quantile_s(0.99),
        adaptive.moves,
        static.missing + adaptive.missing,
    )


def write_comparison(rows: list[GraphRow], path: Path) -> None:
    """Write all graphs as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(GraphRow.__slots__)
        for row in rows:
            values = [getattr(row, name) for name in GraphRow.__slots__]
            writer.writerow([f"{value:.3f}" if isinstance(value, float) else value for value in values])


def read_comparison(path: Path) -> list[GraphRow]:
    """Read the rows that `write_comparison` wrote."""
    with path.open(newline="") as file:
        return [
            GraphRow(*(float(text) if "." in text else int(text) for text in values.values()))  # type: ignore[arg-type]
            for values in csv.DictReader(file)
        ]


def summary(rows: list[GraphRow], terms: GraphTerms) -> list[str]:
    """Return a summary of all graphs beside the expectation."""
    lines = [
        f"{len(rows)} graphs of {terms.brokers} brokers and {terms.links} links, {terms.for_s:g} s each; "
        f"{terms.slow_share:.0%} of the links are {terms.slow_factor:g} times slower at any time, "
        f"others every {terms.slow_for_s:g} s"
    ]
    for name, static, adaptive in (
        ("mean", [row.static_mean for row in rows], [row.adaptive_mean for row in rows]),
        ("p99", [row.static_p99 for row in rows], [row.adaptive_p99 for row in rows]),
    ):
        ours, its = statistics.fmean(adaptive), statistics.fmean(static)
        lower = [1 - a / s for a, s in zip(adaptive, static, strict=True)]
        lines.append(
            f"{name:4} static {its:7.1f} ms, adaptive {ours:7.1f} ms: {1 - ours / its:.0%} lower"
            f" (per graph: median {statistics.median(lower):.0%}, worst {min(lower):.0%}, best {max(lower):.0%})"
            + (f"; expected: at least {EXPECTED:.0%}" if name == "p99" else "")
        )
    lines.append(
        f"moves per graph {statistics.fmean(row.moves for row in rows):.0f}; lost: {sum(r.missing for r in rows)}"
    )
    return lines


def draw_comparison(rows: list[GraphRow], terms: GraphTerms, path: Path) -> bool:
    """Draw the plot. Return False without matplotlib."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        plot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return False
    figure, panels = plot.subplots(1, 2, figsize=(11, 4.6), constrained_layout=True)
    ordered = sorted(rows, key=lambda row: row.static_p99)
    for panel, name in zip(panels, ("mean", "p99"), strict=True):
        _panel(panel, name, ordered)
    figure.suptitle(
        f"Adaptive routing and the static tree: {len(rows)} random graphs of {terms.brokers} brokers,\n"
        f"{terms.slow_share:.0%} of the links {terms.slow_factor:g} times slower at any time, "
        f"others every {terms.slow_for_s:g} s",
        fontsize=11,
    )
    figure.savefig(path, dpi=110)
    plot.close(figure)
    return True


def _panel(panel: Any, name: str, rows: list[GraphRow]) -> None:
    static = [getattr(row, f"static_{name}") for row in rows]
    adaptive = [getattr(row, f"adaptive_{name}") for row in rows]
    places = range(1, len(rows) + 1)
    panel.vlines(places, adaptive, static, color="#cccccc", linewidth=1.5, zorder=1)
    panel.scatter(places, static, color="#b5473c", s=18, label="static tree", zorder=2)
    panel.scatter(places, adaptive, color="#23608f", s=18, label="adaptive", zorder=2)
    lower = 1 - statistics.fmean(adaptive) / statistics.fmean(static)
    expected = f" (expected: {EXPECTED:.0%})" if name == "p99" else ""
    panel.set_title(f"{name} delay: {lower:.0%} lower{expected}", fontsize=10)
    panel.set_xlabel("graph, ordered by the static tree's p99")
    panel.set_ylabel("milliseconds")
    panel.set_ylim(bottom=0)
    panel.legend(frameon=False, loc="upper left")
    panel.spines[["top", "right"]].set_visible(False)


def main(arguments: list[str] | None = None) -> int:
    """Play all graphs, print a summary, and write table and plot."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.experiments.tid.adaptive", description=__doc__)
    parser.add_argument("--graphs", type=int, default=50)
    parser.add_argument("--for", type=float, default=GraphTerms().for_s, dest="for_s", help="seconds of each")
    parser.add_argument("--into", type=Path, default=RESULTS, help="a folder")
    parser.add_argument("--draw", action="store_true", help="only draw the table that is there")
    options = parser.parse_args(arguments)
    terms = GraphTerms(for_s=options.for_s)
    options.into.mkdir(parents=True, exist_ok=True)
    table, plot = options.into / "adaptive.csv", options.into / "adaptive.png"
    if options.draw:
        rows = read_comparison(table)
    else:
        rows = []
        for seed in range(options.graphs):
            rows.append(row := compare_graph(seed, terms))
            print(f"graph {seed}: p99 {row.static_p99:.1f} -> {row.adaptive_p99:.1f} ms", flush=True)
        write_comparison(rows, table)
    print("\n".join(summary(rows, terms)))
    if not draw_comparison(rows, terms, plot):
        print(f"no plot: matplotlib is not installed; install it, then add --draw to draw {table.name} alone")
    lower = 1 - statistics.fmean(r.adaptive_p99 for r in rows) / statistics.fmean(r.static_p99 for r in rows)
    return 0 if lower >= EXPECTED else 1


if __name__ == "__main__":
    raise SystemExit(main())
