"""Routing in simulated overlays: the cost of control messages, and the delay saved compared with a static tree.

Messages are counted on each link in graphs of 60 brokers (`measurement/overlay/costs.py`). The second part plays each
graph twice with the same events and slow links (`adaptive.py`, which plays fifty graphs and plots them). All time is
virtual, so figures do not depend on the machine; the graphs follow from the seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import fmean, median

from ..experiments.tid import adaptive
from ..experiments.tid.adaptive import EXPECTED, GraphRow, GraphTerms, Played
from .groups import Group, Session
from .measurement.overlay import costs
from .measurement.overlay.costs import Costs
from .reports import Figure, Target


def routing_figures(session: Session) -> Iterator[Figure]:
    """Yield all figures of routing."""
    yield from _costs(session)
    yield from _delays(session)
    yield from _strategies(session)


GROUP = Group("routing", "Routing in simulated overlays", routing_figures)


def _costs(session: Session) -> Iterator[Figure]:
    graphs, brokers = session.size(3, 1), session.size(costs.BROKERS, 20)
    links = session.size(costs.LINKS, 40)
    found: list[Costs] = []
    for number, seed in enumerate(_seeds(session, "costs", graphs), 1):
        session.progress(f"messages among {brokers} brokers, graph {number} of {graphs}")
        found.append(costs.measure_costs(seed, brokers=brokers, links=links))
    all_of_them = f"{graphs} graphs of {brokers} brokers and {links} links"
    flooding = max(one.advertisement_frames_on_a_link for one in found)
    frames = fmean(one.advertisement_frames for one in found)
    yield Figure(
        f"{all_of_them}: advertisement, most on a link", flooding, "messages", Target("<=", 2),
        {"on all links": frames, "if each took two": 2.0 * links},
    )  # fmt: skip
    hops = {"hops of the trees": fmean(one.tree_hops for one in found)}
    updates = fmean(one.update_frames for one in found)
    yield Figure(f"the same: subscription that meets {costs.PUBLISHERS} publishers", updates, "messages", None, hops)
    beyond = max(one.update_frames_beyond_trees for one in found)
    yield Figure("the same: beyond one message a hop of each tree, worst", beyond, "messages", Target("<=", 0))
    answered = max(one.ack_frames / one.ack_hops for one in found)
    yield Figure("the same: answers a hop, worst", answered, "messages", Target("<=", 1))
    yield Figure("the same: its withdrawal", fmean(one.withdrawal_frames for one in found), "messages", None, hops)


def _delays(session: Session) -> Iterator[Figure]:
    graphs = session.size(20, 1)
    terms = GraphTerms(for_s=session.size(90, 15), slow_for_s=session.size(30, 5))
    rows: list[GraphRow] = []
    for number, seed in enumerate(_seeds(session, "delays", graphs), 1):
        session.progress(f"slow links, with our routing and with a static tree, graph {number} of {graphs}")
        rows.append(adaptive.compare_graph(seed, terms))
    slow = f"{terms.slow_share:.0%} of links {terms.slow_factor:g} times slower"
    yield _lower(f"{slow}, {graphs} graphs of {terms.brokers} brokers: p99 lower by", rows, _p99, 100 * EXPECTED)
    yield _lower("the same: mean lower by", rows, _mean)
    for name, pair in (("p99", _p99), ("mean", _mean)):
        static, ours = (fmean(values) for values in zip(*map(pair, rows), strict=True))
        yield Figure(f"the same: {name} with our routing, mean of graphs", ours, "ms", None, {"static tree": static})
    yield Figure("the same: lost", sum(row.missing for row in rows), "events", Target("<=", 0))
    yield Figure("the same: changes of path, mean of graphs", fmean(row.moves for row in rows), "changes")


def _strategies(session: Session) -> Iterator[Figure]:
    """Yield the figures of the TID paper's tables, with feasible links only, beside those of shortest paths."""
    graphs = session.size(5, 1)
    terms = GraphTerms(for_s=session.size(90, 15), slow_for_s=session.size(30, 5))
    found: dict[str, list[Played]] = {"shortest-paths": [], "tree-tables": []}
    for number, seed in enumerate(_seeds(session, "strategies", graphs), 1):
        session.progress(f"strategies side by side, graph {number} of {graphs}")
        for name, played in found.items():
            played.append(adaptive.Graph(seed, terms).play(adaptive=True, dissemination=name))
    tables, shortest = found["tree-tables"], found["shortest-paths"]

    def beside(measure: str, unit: str, value: Callable[[Played], float]) -> Figure:
        return Figure(
            f"tree-tables, {graphs} graphs: {measure}", fmean(map(value, tables)), unit, None,
            {"shortest paths": fmean(map(value, shortest))},
        )  # fmt: skip

    yield beside("mean delay", "ms", lambda played: 1e3 * played.mean_s)
    yield beside("p99", "ms", lambda played: 1e3 * played.quantile_s(0.99))
    yield beside("copies a delivery", "copies", lambda played: played.copies / len(played.delays_s))
    yield Figure("the same: lost", sum(played.missing for played in tables), "events", Target("<=", 0))


def _lower(
    measure: str, rows: list[GraphRow], pair: Callable[[GraphRow], tuple[float, float]], target: float | None = None
) -> Figure:
    """Return by how much the delays of all graphs are lower than with the static tree; beside it, those of single
    graphs."""
    static, ours = (fmean(values) for values in zip(*map(pair, rows), strict=True))
    single = [100 * (1 - mine / its) for its, mine in map(pair, rows)]
    beside = {"median graph": median(single), "worst": min(single), "best": max(single)}
    return Figure(measure, 100 * (1 - ours / static), "%", None if target is None else Target(">=", target), beside)


def _p99(row: GraphRow) -> tuple[float, float]:
    return row.static_p99, row.adaptive_p99


def _mean(row: GraphRow) -> tuple[float, float]:
    return row.static_mean, row.adaptive_mean


def _seeds(session: Session, purpose: str, count: int) -> list[int]:
    return [int(seed) for seed in session.rng(f"routing, {purpose}").integers(2**31, size=count)]
