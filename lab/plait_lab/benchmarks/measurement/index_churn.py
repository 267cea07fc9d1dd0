"""Memory of an index under churn: replace every filter repeatedly and read the process's memory after each turnover.

`measure_churn` runs it in a separate process, since memory freed by earlier benchmarks would hide what this one takes.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
from dataclasses import dataclass

import numpy as np

from plait_core.matching import Index, new_index

from ..measures import resident_mb
from .workloads import WORKLOADS, Workload

_MATCH_EVERY = 10
"""Replacements between two matches."""


@dataclass(frozen=True, slots=True)
class IndexMemory:
    """MB of a process: before any filter, with all of them, and after each turnover."""

    empty: float
    filled: float
    turnovers: list[float]

    @property
    def index(self) -> float:
        """Return the MB of the filters and their index."""
        return self.filled - self.empty

    @property
    def growth(self) -> float:
        """Return the MB added after the first turnover, which allocates the room for replacements."""
        return self.turnovers[-1] - self.turnovers[0]


def measure_churn(workload: str, filters: int, turnovers: int, seed: int, *, native: bool = False) -> IndexMemory:
    """Measure memory through turnovers in a new process."""
    command = [sys.executable, "-m", __name__, workload, str(filters), str(turnovers), str(seed)]
    command += ["--native"] if native else []
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return IndexMemory(**json.loads(printed))


def turn_over(index: Index, old: Workload, new: Workload, turn: int) -> None:
    """Replace every filter of `old` by one of `new`, matching an event at times."""
    events = old.events(len(old) // _MATCH_EVERY + 1, stream=turn)
    for count, (removed, (id, filter)) in enumerate(zip(old.ids.tolist(), new.subscriptions(), strict=True)):
        index.remove(removed)
        index.add(id, filter)
        if count % _MATCH_EVERY == 0:
            index.match(next(events))


def _run(workload: Workload, index: Index, turnovers: int) -> IndexMemory:
    empty = _settled_mb()
    for id, filter in workload.subscriptions():
        index.add(id, filter)
    for attributes in workload.events(len(workload) // _MATCH_EVERY):
        index.match(attributes)
    filled, after = _settled_mb(), []
    for turn in range(1, turnovers + 1):
        successor = workload.successor(turn)
        turn_over(index, workload, successor, turn)
        workload = successor
        after.append(_settled_mb())
    return IndexMemory(empty, filled, after)


def _settled_mb() -> float:
    gc.collect()
    return resident_mb()


def main() -> None:
    """Run the child process: print an `IndexMemory` as JSON."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.benchmarks.measurement.index_churn", description=__doc__)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("filters", type=int)
    parser.add_argument("turnovers", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--native", action="store_true", help="the native kernel in place of the Python index")
    options = parser.parse_args()
    workload = WORKLOADS[options.workload](options.filters, np.random.default_rng(options.seed))
    memory = _run(workload, new_index(native=options.native), options.turnovers)
    print(json.dumps({"empty": memory.empty, "filled": memory.filled, "turnovers": memory.turnovers}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
