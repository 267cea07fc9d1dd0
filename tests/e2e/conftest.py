"""`make e2e` runs the tests of a whole deployment. Without a Docker engine and the images it fails."""

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
    if not os.environ.get("PLAIT_E2E"):
        for item in mine:
            item.add_marker(pytest.mark.skip(reason="runs in make e2e"))
    elif why := missing():
        raise pytest.UsageError(why)
