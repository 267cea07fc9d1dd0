"""Runs a command's asyncio part. Ctrl-C and SIGTERM cancel it, so that it closes its resources."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from .interrupts import interruptible

T = TypeVar("T")

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_async(main: Coroutine[Any, Any, T]) -> T:
    """Return the result of `main`; KeyboardInterrupt after Ctrl-C, SystemExit(128 + n) after signal n."""
    interruptible()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_cancelled_by_signals(main))


async def _cancelled_by_signals(main: Coroutine[Any, Any, T]) -> T:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "runs in a task"
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in _SIGNALS:
        with contextlib.suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(number, end, number)
    try:
        return await main
    except asyncio.CancelledError:
        if received:
            sys.exit(128 + received[0])
        raise
    finally:
        for number in _SIGNALS:
            with contextlib.suppress(NotImplementedError):
                loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's loop factory if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
