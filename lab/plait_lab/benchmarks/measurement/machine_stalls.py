"""Stalls of the machine: a process that wakes every millisecond reports its greatest delay.

Hosts halt virtual machines at times, all processors at once. A trial of milliseconds with such a stall measured the
host.
"""

from __future__ import annotations

import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Final

PERIOD_S: Final = 0.001


class MachineStalls:
    """Measures stalls until the end of the block."""

    longest_ms = 0.0
    """The greatest delay of the watcher; known after the block."""

    def __enter__(self) -> MachineStalls:
        command = [sys.executable, "-m", __name__]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert self._watcher.stdout is not None
        self._watcher.stdout.readline()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        output, _ = self._watcher.communicate()
        self.longest_ms = float(output or 0)


def watch() -> float:
    """Watch until standard input ends. Return the greatest delay of a wakeup in milliseconds."""
    longest_s, before, ended = 0.0, time.monotonic(), False
    print("watching", flush=True)
    while not ended:
        ended = bool(select.select([sys.stdin], [], [], PERIOD_S)[0])
        now = time.monotonic()
        longest_s = max(longest_s, now - before - PERIOD_S)
        before = now
    return 1000 * longest_s


if __name__ == "__main__":
    print(watch())
