"""Figures and their presentation: aligned tables, JSON lines, and document sections that a command rewrites.

A figure has its target and the values measured beside it in the same run. The tables are Markdown, which is readable on
a terminal, too.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from plait_core.values import Json


@dataclass(frozen=True, slots=True)
class Target:
    """The value that a figure must reach."""

    sense: Literal["<=", ">="]
    value: float

    def met_by(self, reached: float) -> bool:
        return reached <= self.value if self.sense == "<=" else reached >= self.value


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    measure: str
    reached: float | None
    """None: each of its trials failed."""
    unit: str
    target: Target | None = None
    beside: Mapping[str, float | None] = field(default_factory=dict)
    """Values for comparison, by name, in the same unit. None: each trial of that contender failed."""

    @property
    def failed(self) -> bool:
        """Return whether there is no result."""
        return self.reached is None

    @property
    def met(self) -> bool | None:
        """Return whether the target is met: None without a target, False without a result."""
        if self.target is None:
            return None
        return self.reached is not None and self.target.met_by(self.reached)


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine and the versions that figures were measured with."""

    processor: str
    cores: int
    system: str
    python: str
    numpy: str
    commit: str

    def __str__(self) -> str:
        versions = f"Python {self.python}, numpy {self.numpy}"
        return f"{self.processor}, {self.cores} cores; {self.system}; {versions}; commit {self.commit}"


PACKAGES: Final = ("plait", "plait_broker", "plait_core", "plait_crypto", "plait_lab", "plait_peer")
"""Packages that the processes of a trial import."""

HEADINGS = ("measure", "reached", "target", "met", "beside it")


def figure_table(figures: Iterable[Figure]) -> str:
    """Return the figures as an aligned Markdown table."""
    return table(HEADINGS, [_cells(figure) for figure in figures])


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an aligned Markdown table."""
    lines = [list(headings), *[[cell.replace("|", "\\|") for cell in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    rule = "-|-".join("-" * width for width in widths)
    return "\n".join([f"| {padded[0]} |", f"|-{rule}-|", *[f"| {line} |" for line in padded[1:]]])


def figure_record(figure: Figure) -> Json:
    """Return a figure as a JSON object."""
    return {**asdict(figure), "met": figure.met}


def number_text(number: float | None) -> str:
    """Format three significant digits with thousands separators; "failed" for None."""
    if number is None:
        return "failed"
    if number != number or abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def machine() -> Machine:
    """Return this machine, interpreter and commit."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        numpy=np.__version__,
        commit=commit_of(Path(__file__).parent),
    )


def sources() -> dict[str, str]:
    """Return the folder that each of the product's packages is imported from."""
    found = {name: importlib.util.find_spec(name) for name in PACKAGES}
    return {name: str(Path(spec.origin).parents[1]) for name, spec in found.items() if spec and spec.origin}


def replace_section(document: str, name: str, body: str) -> str:
    """Replace the body between the markers of section `name`. Append the section if the document has none."""
    opening, closing = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    section = f"{opening}\n{body.strip()}\n{closing}"
    before, found, rest = document.partition(opening)
    if not found:
        return f"{document.rstrip()}\n\n{section}\n".lstrip()
    _, closed, after = rest.partition(closing)
    if not closed:
        raise ValueError(f"section {name} is opened with {opening} and never closed with {closing}")
    return f"{before}{section}{after}"


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that an interrupted run leaves the old one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _cells(figure: Figure) -> list[str]:
    unit = f" {figure.unit}" if figure.unit else ""
    target = f"{figure.target.sense} {number_text(figure.target.value)}{unit}" if figure.target else ""
    met = {True: "yes", False: "NO", None: ""}[figure.met]
    beside = "; ".join(f"{name} {number_text(value)}" for name, value in figure.beside.items())
    reached = number_text(figure.reached) + ("" if figure.failed else unit)
    return [figure.measure, reached, target, met, beside]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def commit_of(folder: Path) -> str:
    """Return the commit that is checked out there, marked if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    try:
        found_commit = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return found_commit.stdout.strip() or "none yet"
