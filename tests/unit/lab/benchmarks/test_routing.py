"""The benchmark of routing in simulated overlays: found, documented, and run at a small size."""

from __future__ import annotations

import pytest

from plait_lab import bench
from plait_lab.benchmarks import routing_bench
from plait_lab.benchmarks.groups import Session, find_groups
from plait_lab.experiments.tid.adaptive import EXPECTED, GraphRow


def test_the_group_is_found_and_written_down() -> None:
    assert routing_bench.GROUP in find_groups(lambda step: None)
    assert "<!-- bench:routing -->" in bench.DOCUMENT.read_text(encoding="utf-8")


def test_small_overlays_keep_what_is_promised() -> None:
    steps: list[str] = []
    figures = list(routing_bench.routing_figures(Session(7, quick=True, progress=steps.append)))
    aimed = [figure for figure in figures if figure.target is not None]
    assert "20 brokers" in aimed[0].measure
    assert [figure.met for figure in aimed if figure.unit != "%"] == [True] * 5
    assert [figure.unit for figure in aimed if figure.unit == "%"] == ["%"], "one graph proves nothing of delays"
    assert len(steps) == 3


def test_other_seeds_draw_other_graphs() -> None:
    seeds = [routing_bench._seeds(Session(seed, True, lambda step: None), "costs", 3) for seed in (1, 1, 2)]
    assert seeds[0] == seeds[1] != seeds[2]
    assert len(set(seeds[0])) == 3


def test_delays_are_compared_over_all_graphs_and_by_graph() -> None:
    rows = [GraphRow(0, 1, 10.0, 5.0, 100.0, 40.0, 1, 0), GraphRow(1, 1, 10.0, 5.0, 300.0, 300.0, 1, 0)]
    figure = routing_bench._lower("p99", rows, routing_bench._p99, 100 * EXPECTED)
    assert figure.reached == pytest.approx(15.0)
    assert figure.met is False
    assert figure.beside == pytest.approx({"median graph": 30.0, "worst": 0.0, "best": 60.0})
