"""Replays every kept input of the fuzzers of sealed events and of peers' links through its check, and changes of them
from a fixed seed. The first byte of an input selects a way in."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

HERE = Path(__file__).parent
TARGETS = ("envelopes", "keys", "deposits", "key_requests", "links")
CORPUS = [(target, path) for target in TARGETS for path in sorted((HERE / "corpus" / target).iterdir())]
CHECKS: dict[str, Callable[[bytes], None]] = {
    target: runpy.run_path(str(HERE / f"fuzz_{target}.py"))["check"] for target in TARGETS
}
SEEDS: dict[str, Callable[[], Iterator[tuple[str, bytes]]]] = runpy.run_path(str(HERE / "seed_ways.py"))["SEEDS"]
MUTATIONS = 5


@pytest.mark.parametrize("target", TARGETS)
def test_there_is_a_corpus(target: str) -> None:
    assert len([path for each, path in CORPUS if each == target]) >= 15


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_are_those_of_the_present_formats(target: str) -> None:
    """Otherwise the fuzzers begin with inputs that fail the first check: `python tests/fuzz/seed_ways.py`."""
    for name, data in SEEDS[target]():
        assert (HERE / "corpus" / target / name).read_bytes() == data, name


@pytest.mark.parametrize(("target", "path"), CORPUS, ids=lambda each: getattr(each, "name", each))
def test_replay(target: str, path: Path) -> None:
    CHECKS[target](path.read_bytes())


@pytest.mark.parametrize(("target", "path"), CORPUS, ids=lambda each: getattr(each, "name", each))
def test_mutations(target: str, path: Path) -> None:
    """Change, insert and remove bytes behind the first, which selects the way in."""
    rng = Random(f"{target} {path.name}")
    for _ in range(MUTATIONS):
        data = bytearray(path.read_bytes())
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(1, max(1, len(data)))
            data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
        CHECKS[target](bytes(data))


def test_nothing_is_an_input() -> None:
    for check in CHECKS.values():
        check(b"")
