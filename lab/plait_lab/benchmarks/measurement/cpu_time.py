"""Processor time of this process and its running descendants: the cost of a figure, independent of other load."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def spent_s() -> float:
    """Return user and system time, including that of children that ended and were waited for."""
    parents, ticks = {}, {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(process.name)] = int(fields[1])
        ticks[int(process.name)] = sum(map(int, fields[11:15]))
    return sum(ticks[process] for process in ticks if _ours(process, parents)) / TICKS_PER_S


def _ours(process: int, parents: dict[int, int]) -> bool:
    while process and process != os.getpid():
        process = parents.get(process, 0)
    return process != 0


class OtherLoad:
    """Measures how much of this machine's processor time other processes use."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._others = self._others_s()

    def share(self) -> float:
        """Return the part of all processors' time since the start that other processes used, from 0 to 1."""
        elapsed_s = (time.monotonic() - self._started) * (os.cpu_count() or 1)
        return max(0.0, self._others_s() - self._others) / elapsed_s

    @staticmethod
    def _others_s() -> float:
        user, nice, system, _, _, _, _, stolen, *_ = _machine_ticks()  # interrupts may be ours: our sockets cause most
        busy_s = (user + nice + system + stolen) / TICKS_PER_S
        return busy_s - sum(os.times()[:4])  # ours, and of all children that have ended


def _machine_ticks() -> list[int]:
    with open("/proc/stat") as file:
        return [int(ticks) for ticks in file.readline().split()[1:]]
