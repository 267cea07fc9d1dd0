"""Figures 2.3, 2.4 and 2.5 of the thesis as text files: each holds a group's input and the expected result.

PLAIT_REWRITE=1 rewrites the expected results; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait_lab.simulation.peers.scenario import LINE, Scenario

FILES = sorted((Path(__file__).parent / "peers").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text()
    story, _, expected = text.partition(f"{LINE}\n")
    found = Scenario().play(text)
    if os.environ.get("PLAIT_REWRITE"):
        path.write_text(f"{story}{LINE}\n{found}")
        return
    assert found == expected


def test_there_are_scenarios() -> None:
    assert {path.stem for path in FILES} >= {"figure23", "figure24", "figure25"}
