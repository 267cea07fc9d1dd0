"""Checks of documents: generated files are current (if not, run `make docs`), and the others stay short."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 200
"""Lines of one document: some ten minutes to read. A longer one is divided into pages that have one subject each."""

EXEMPT = {
    "CHANGELOG.md",  # grows with every release
    "docs/reference/tables.md",  # written by `python -m plait_analytics.tables.tables_reference`
}
GENERATED = "Written by `make docs`"
FIGURES = ("<!-- bench:", "<!-- /bench:")
"""Marks around the sections of lab/BENCHMARKS.md that `make bench` writes."""


def documents() -> list[str]:
    """Return the documents of the repository that people write."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    present = [name for name in listed.splitlines() if (ROOT / name).is_file()]
    return [name for name in present if name not in EXEMPT and GENERATED not in first_line(name)]


def first_line(name: str) -> str:
    return (ROOT / name).read_text().partition("\n")[0]


def written_lines(text: str) -> int:
    """Count the lines outside of the generated sections."""
    count, generated = 0, False
    for line in text.splitlines():
        if line.startswith(FIGURES):
            generated = line.startswith(FIGURES[0])
        elif not generated:
            count += 1
    return count


def test_generated_documents_are_current() -> None:
    """Check in a new process, because click caches how a command was called first."""
    checking = [sys.executable, "-m", "plait_lab.documents", "--check"]
    checked = subprocess.run(checking, capture_output=True, text=True, timeout=120, check=False)
    assert not checked.returncode, f"make docs writes anew:\n{checked.stdout}{checked.stderr}"


@pytest.mark.parametrize("name", documents())
def test_documents_are_short(name: str) -> None:
    lines = written_lines((ROOT / name).read_text())
    assert lines <= LINES_MAX, f"{name} has {lines} lines: divide it"


def test_generated_sections_do_not_count() -> None:
    assert written_lines("a\n<!-- bench:core -->\nb\nc\n<!-- /bench:core -->\nd\n") == 2


def test_exempt_documents_exist() -> None:
    assert all((ROOT / name).is_file() for name in EXEMPT)
