"""Replays every kept input of the frame fuzzer through its check: seeds, edge cases and past findings."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CORPUS = sorted((HERE / "corpus" / "frames").iterdir())
DIFFERENTIAL = runpy.run_path(str(HERE / "frames_differential.py"))


def test_there_is_a_corpus() -> None:
    assert len(CORPUS) >= 40


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_replay(path: Path) -> None:
    DIFFERENTIAL["check"](path.read_bytes())


def test_the_corpus_reaches_every_frame_and_every_fault() -> None:
    said = ""
    for path in CORPUS:
        data = path.read_bytes()
        seen, end = DIFFERENTIAL["outcome"]([data[DIFFERENTIAL["CHOICES_BYTES"] :]], bool(data[0] & 1))
        said += " ".join(seen) + f" ends {end}\n"
    for frame in ("Hello", "Close", "Ping", "Pong", "Publish", "Forward", "Deliver", "EndToEnd"):
        assert f"{frame}(" in said
    for fault in ("oversize", "truncated", "version", "type", "order", "body", "field"):
        assert f" ends {fault}: " in said
