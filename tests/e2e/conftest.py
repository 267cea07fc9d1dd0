"""`make e2e` runs the tests of a whole deployment. They need a Docker engine and the images."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deployment import missing

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if item.path.is_relative_to(HERE)]
    if not mine:
        return
    why = missing() if os.environ.get("PLAIT_E2E") else "runs in make e2e"
    for item in mine if why else ():
        item.add_marker(pytest.mark.skip(reason=why))
