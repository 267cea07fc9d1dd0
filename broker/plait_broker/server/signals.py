"""Signals of a broker's process: stop gracefully, stop at once on the second signal, reload the configuration."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_STOP: Final = (signal.SIGINT, signal.SIGTERM)

log: Final = logging.getLogger(__name__)


@contextmanager
def handle_signals(stop: asyncio.Event, reload: Callable[[], None]) -> Iterator[None]:
    """Set `stop` on the first SIGINT or SIGTERM, exit with code 1 on a second one, and reload on SIGHUP."""
    loop = asyncio.get_running_loop()

    def on_stop_signal(number: int) -> None:
        if stop.is_set():
            log.error("second stop signal: stopping at once")
            os._exit(1)
        log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    for number in _STOP:
        loop.add_signal_handler(number, on_stop_signal, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (*_STOP, signal.SIGHUP):
            loop.remove_signal_handler(number)
