"""Processor time of this process and of all that it has started and that still run: what a figure costs, whoever else
keeps the machine busy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def spent_s() -> float:
    """User's and system's, with that of ended children which their parents have waited for."""
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
