"""Replays every kept input of the filter fuzzer through its check: seeds, edge cases and past findings."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from plait_core.errors import FilterError
from plait_core.filters import parse

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus" / "filters").iterdir())
CHECK = runpy.run_path(str(HERE / "fuzz_filters.py"))["check"]


def test_there_is_a_corpus() -> None:
    assert len(CORPUS) >= 40


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_replay(path: Path) -> None:
    CHECK(path.read_bytes())


def test_the_corpus_has_filters_and_every_sort_of_refusal() -> None:
    said = []
    for path in CORPUS:
        try:
            said.append(str(parse(path.read_bytes().decode(errors="surrogateescape"))))
        except FilterError as error:
            said.append(f"{type(error).__name__}: {error}")
    everything = "\n".join(said)
    for word in (" and ", " or ", "not (", " in [", " not in [", "has(", " is null", " like ", " startswith ", " >= "):
        assert word in everything
    for word in ("FilterSyntax", "FilterTooComplex", "never ends", "nest", "surrogate", "bits", "canonical text"):
        assert word in everything
