"""Replays every kept input of the tree messages' fuzzer through its check, and mutations of them from a fixed seed."""

from __future__ import annotations

import runpy
from pathlib import Path
from random import Random

import pytest

from plait_broker.overlay.dissemination.tree_messages import TreeAdvertised, TreeSubscribed, decode_message
from plait_core.errors import FrameError

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus" / "tree_messages").iterdir())
FUZZER = runpy.run_path(str(HERE / "fuzz_tree_messages.py"))
MUTATIONS = 20


def test_there_is_a_corpus() -> None:
    assert len(CORPUS) >= 30


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_replay(path: Path) -> None:
    FUZZER["check"](path.read_bytes())


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_mutations(path: Path) -> None:
    """Change, insert and remove bytes of each message, and add random ones."""
    rng = Random(path.name)
    for _ in range(MUTATIONS):
        messages = [
            mutated(body, rng) for body in (*FUZZER["cut"](path.read_bytes()), rng.randbytes(rng.randint(0, 60)))
        ]
        FUZZER["check"](b"".join(len(body).to_bytes(2, "big") + body for body in messages))


def mutated(body: bytes, rng: Random) -> bytes:
    data = bytearray(body)
    for _ in range(rng.randint(0, 3)):
        at = rng.randint(0, len(data))
        data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
    return bytes(data[:65_535])


def test_the_corpus_has_both_messages_and_every_sort_of_refusal() -> None:
    said = set()
    for path in CORPUS:
        for body in FUZZER["cut"](path.read_bytes()):
            try:
                message = decode_message(body)
            except FrameError as error:
                said.add(f"{error.fault}: {error}")
            else:
                said.add(f"{type(message).__name__} {'without' if message.filter is None else 'with'} a filter")
    everything = "\n".join(sorted(said))
    for kind in (TreeAdvertised, TreeSubscribed):
        assert f"{kind.__name__} with a filter" in said
        assert f"{kind.__name__} without a filter" in said
    for word in (
        "64-bit number",
        "tree 0",
        "without a filter, or",
        "bad filter",
        "alternatives",
        "comes twice",
        "map with",
    ):
        assert word in everything
