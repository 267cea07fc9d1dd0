"""Event loops of the tests of a running broker. Their helpers are in `scripted.py` and `processes.py`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run tests of the server on both event loops, and other tests on one."""
    both = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return both if item.path.name.startswith("test_server") else {"asyncio": asyncio.new_event_loop}
