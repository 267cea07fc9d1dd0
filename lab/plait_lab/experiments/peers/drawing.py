"""Tables and plots of the studies. Without matplotlib there are no plots."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

Row: TypeAlias = Mapping[str, str | int | float]
Lines: TypeAlias = Mapping[str, Sequence[tuple[float, float]]]

RESULTS: Final = Path(__file__).parents[3] / "results"
COLOURS: Final = ("#23608f", "#b5473c", "#4d8f5b", "#c9922e", "#7b5aa6", "#666666", "#3ba3a3", "#99582a")


def write_lines(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in row.values()])


def read_lines(path: Path) -> list[dict[str, str | int | float]]:
    """Read rows that `write_lines` wrote."""
    with path.open(newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> str | int | float:
    try:
        return float(text) if "." in text or text in ("inf", "nan") else int(text)
    except ValueError:
        return text


def draw_figure(
    panels: Sequence[tuple[str, str, str, Lines]], title: str, path: Path, *, logarithmic: bool = False
) -> bool:
    """Draw one panel for each (title, x, y, lines), with linear or logarithmic axes. Return False without
    matplotlib."""
    try:
        matplotlib = importlib.import_module("matplotlib")
        matplotlib.use("Agg")
        plot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return False
    figure, axes = plot.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.4), constrained_layout=True)
    for axis, panel in zip([axes] if len(panels) == 1 else axes, panels, strict=True):
        _panel(axis, *panel)
        if logarithmic:
            _make_logarithmic(axis, sorted({x for line in panel[3].values() for x, _ in line}))
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=110)
    plot.close(figure)
    return True


def _panel(axis: Any, title: str, x: str, y: str, lines: Lines) -> None:
    for place, (name, points) in enumerate(lines.items()):
        style = "--" if "thesis" in name else "-"
        colour = COLOURS[place % len(COLOURS)]
        axis.plot(*zip(*points, strict=True), style, color=colour, marker="o", markersize=3, linewidth=1.3, label=name)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, fontsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _make_logarithmic(axis: Any, places: Sequence[float]) -> None:
    """Make both axes logarithmic, with a tick at each place, and numbers without exponents."""
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.autoscale(axis="y")
    axis.set_xticks(places, [f"{place:,g}" for place in places])
    axis.set_xticks([], minor=True)
    axis.yaxis.set_major_locator(importlib.import_module("matplotlib.ticker").LogLocator(subs=(1.0, 3.0)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.yaxis.set_minor_formatter(lambda value, _: "")
    axis.grid(which="major", color="#e4e4e4", linewidth=0.6)
    axis.set_axisbelow(True)
