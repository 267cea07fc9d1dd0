"""The benchmark of wide overlays: found, documented, and run at a small size."""

from __future__ import annotations

from plait_lab import bench
from plait_lab.benchmarks import wide_bench
from plait_lab.benchmarks.groups import Session, find_groups


def test_the_group_is_found_and_written_down() -> None:
    assert wide_bench.GROUP in find_groups(lambda step: None)
    assert "<!-- bench:wide -->" in bench.DOCUMENT.read_text(encoding="utf-8")


def test_small_overlays_are_measured() -> None:
    steps: list[str] = []
    figures = list(wide_bench.wide_figures(Session(7, quick=True, progress=steps.append)))
    assert steps
    for figure in figures:
        assert figure.target is not None or "a lone event" in figure.measure
        assert figure.reached is not None
        assert figure.reached >= 0
