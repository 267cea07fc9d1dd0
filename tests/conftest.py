"""Fixtures for every test: hypothesis profiles, and a check for leaked tasks, threads and file descriptors."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, settings

NIGHTLY = bool(os.environ.get("PLAIT_NIGHTLY"))
DEPTH_MAX = sys.getrecursionlimit()

settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, print_blob=True
)  # the same examples everywhere: what passes here passes there; nightly looks for new ones
settings.register_profile("nightly", parent=settings.get_profile("default"), derandomize=False, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

uvloop.new_event_loop().close()
"""The first event loop opens a pipe that the process keeps. Opened here, it does not count as a test's leak."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _leaving_no_task(item.obj)
        if not NIGHTLY and item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="runs in make nightly"))


def pytest_collection_finish() -> None:
    """Restore the recursion limit. Tests import py_ecc, which raises it so far that a deeply nested text would end the
    process."""
    sys.setrecursionlimit(DEPTH_MAX)


def _leaving_no_task(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = asyncio.all_tasks()
        await test(*args, **kwargs)
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - before
        assert not left, f"tasks left running: {left}"

    return checked


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Check that a test leaves no new thread or file descriptor open. Those that are closing get a moment."""
    threads, descriptors = set(threading.enumerate()), _open_files()
    yield
    for wait in (0, 0.01, 0.05, 0.2, 1.0):
        time.sleep(wait)
        new_threads = [thread for thread in set(threading.enumerate()) - threads if thread.is_alive()]
        new_files = {fd: name for fd, name in _open_files().items() if descriptors.get(fd) != name}
        if not new_threads and not new_files:
            return
        gc.collect()
    assert not new_threads, f"threads left running: {new_threads}"
    assert not new_files, f"file descriptors left open: {new_files}"


def _open_files() -> dict[str, str]:
    """Return the open file descriptors that a test could have opened, without the interpreter's own caches."""
    found: dict[str, str] = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            name = str(link.readlink())
        except OSError:
            continue  # the descriptor of the listing itself
        if "site-packages" not in name and "/.hypothesis/" not in name:
            found[link.name] = name
    return found
