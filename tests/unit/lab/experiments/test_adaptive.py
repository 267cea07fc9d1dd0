"""The comparison with the static tree on a small graph: the same events with both routings, and lower delays with
ours."""

from __future__ import annotations

from pathlib import Path

from plait_lab.experiments.tid.adaptive import (
    Graph,
    GraphTerms,
    compare_graph,
    read_comparison,
    summary,
    write_comparison,
)

SMALL = GraphTerms(brokers=8, links=14, publishers=2, subscribers=4, for_s=40.0, events_per_s=5.0, slow_for_s=20.0)


def test_adaptive_is_sooner_and_loses_nothing(tmp_path: Path) -> None:
    rows = [compare_graph(seed, SMALL) for seed in range(3)]
    for row in rows:
        assert row.missing == 0
        assert row.events == 200 * SMALL.subscribers
        assert row.moves > 0
        assert row.adaptive_mean <= row.static_mean
    assert sum(row.adaptive_p99 for row in rows) < sum(row.static_p99 for row in rows)
    write_comparison(rows, tmp_path / "table.csv")
    assert [row.seed for row in read_comparison(tmp_path / "table.csv")] == [0, 1, 2]
    assert any("expected: at least 30%" in line for line in summary(rows, SMALL))


def test_where_no_link_is_ever_slow_both_are_alike() -> None:
    terms = GraphTerms(brokers=8, links=14, publishers=2, subscribers=4, for_s=20.0, events_per_s=5.0, slow_share=0.0)
    graph = Graph(1, terms)
    static, adaptive = graph.play(adaptive=False), graph.play(adaptive=True)
    assert static.missing == adaptive.missing == 0
    assert adaptive.moves == 0, "nothing moves without a reason"
    assert sorted(static.delays_s) == sorted(adaptive.delays_s)
