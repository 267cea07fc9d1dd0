"""What a broker does on signals: stop properly, stop at once when asked twice, read its configuration again."""

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
def handled(stop: asyncio.Event, reload: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM sets `stop`, a second one ends the process with exit code 1; SIGHUP reloads."""
    loop = asyncio.get_running_loop()

    def asked_to_stop(number: int) -> None:
        if stop.is_set():
            log.error("asked to stop a second time: stopping at once")
            os._exit(1)
        log.info("%s: stopping", signal.Signals(number).name)
        stop.set()

    for number in _STOP:
        loop.add_signal_handler(number, asked_to_stop, number)
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        for number in (*_STOP, signal.SIGHUP):
            loop.remove_signal_handler(number)
