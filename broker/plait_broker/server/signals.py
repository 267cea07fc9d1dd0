"""Signals of a broker's process: stop gracefully, stop at once on a later second signal, reload the configuration."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Final

_STOP: Final = (signal.SIGINT, signal.SIGTERM)

REPEATED_S: Final = 1.0
"""A stop signal this soon after the first is a repetition of it: `timeout` and some supervisors signal the process and
then its group, within a millisecond. A person who presses Ctrl-C again to stop at once presses it later, or again."""

log: Final = logging.getLogger(__name__)


@contextmanager
def handle_signals(stop: asyncio.Event, reload: Callable[[], None]) -> Iterator[None]:
    """Set `stop` on the first SIGINT or SIGTERM, exit with code 1 on a second one that is not a repetition, and reload
    on SIGHUP."""
    loop = asyncio.get_running_loop()
    repeated_until = inf

    def on_stop_signal(number: int) -> None:
        nonlocal repeated_until
        if not stop.is_set():
            log.info("%s: stopping", signal.Signals(number).name)
            repeated_until = loop.time() + REPEATED_S
            stop.set()
        elif loop.time() >= repeated_until:
            log.error("second stop signal: stopping at once")
            os._exit(1)

    for number in _STOP:
        loop.add_signal_handler(number, on_stop_signal, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (*_STOP, signal.SIGHUP):
            loop.remove_signal_handler(number)
