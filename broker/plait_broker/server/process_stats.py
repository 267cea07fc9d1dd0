"""Resources that this process uses, read at most every 0.4 s."""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable
from time import monotonic
from typing import Final

from plait_core.values import Json

READ_EVERY_S: Final = 0.4
_PAGE_BYTES: Final = resource.getpagesize()


class ProcessStats:
    """The resources of the process; several brokers in one process report the same."""

    def __init__(self, lag_s: Callable[[], float]) -> None:
        """`lag_s` returns the last lag of the loop."""
        self._lag_s = lag_s
        self._read_at = -READ_EVERY_S
        self._facts: Json = {}

    def facts(self) -> Json:
        """Return processor time in seconds, memory in bytes, open files, and runs of the garbage collector's oldest
        generation."""
        now = monotonic()
        if now - self._read_at >= READ_EVERY_S:
            self._read_at = now
            used = resource.getrusage(resource.RUSAGE_SELF)
            self._facts = {
                "cpu_s": round(used.ru_utime + used.ru_stime, 3),
                "rss": _resident_bytes(used.ru_maxrss * 1024),
                "fds": _descriptors(),
                "collections": gc.get_stats()[-1]["collections"],
            }
        return self._facts | {"lag_s": round(self._lag_s(), 4)}


def _resident_bytes(most: int) -> int:
    """Return the resident memory; `most`, the maximum so far, if the kernel does not report it."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return most


def _descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
