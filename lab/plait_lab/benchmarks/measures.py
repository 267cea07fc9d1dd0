"""Measuring: durations of single calls and their percentiles, rates, and the memory of this process.

Contenders are timed in turn, block by block, in one run, so that other load affects all of them alike.
"""

from __future__ import annotations

import gc
import os
import resource
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from time import perf_counter, perf_counter_ns
from typing import Any, Final, TypeVar

import numpy as np

T = TypeVar("T")

BLOCK: Final = 50
"""Calls of one contender before the next: enough to warm the caches that the other evicted."""


@dataclass(frozen=True, slots=True)
class Quartiles:
    """Durations of single calls, in microseconds."""

    count: int
    mean: float
    p50: float
    p99: float
    p999: float
    longest: float


def quartiles(nanoseconds: list[int]) -> Quartiles:
    """Return the quartiles of measured times; each percentile is a measured time."""
    times = np.array(nanoseconds, np.int64) / 1000
    p50, p99, p999, longest = np.percentile(times, [50, 99, 99.9, 100], method="higher").tolist()
    return Quartiles(len(nanoseconds), float(times.mean()), p50, p99, p999, longest)


def median(values: Iterable[float]) -> float | None:
    """Return the median, or None if there are no values because each trial failed."""
    found = list(values)
    return statistics.median(found) if found else None


class Stopwatch:
    """Collects the durations of calls between other calls: `watch(index.add, id, filter)`."""

    def __init__(self) -> None:
        self._times: list[int] = []

    def __call__(self, call: Callable[..., T], *arguments: Any) -> T:
        started = perf_counter_ns()
        result = call(*arguments)
        self._times.append(perf_counter_ns() - started)
        return result

    def spread(self) -> Quartiles:
        """Return the quartiles so far."""
        return quartiles(self._times)


def time_in_turn(calls: Mapping[str, Callable[[T], object]], inputs: Iterable[T], warm: int) -> dict[str, Quartiles]:
    """Time every call on every input, `BLOCK` inputs at a time. The first `warm` inputs are not counted."""
    stream = iter(inputs)
    for given in islice(stream, warm):
        for call in calls.values():
            call(given)
    gc.collect()
    times: dict[str, list[int]] = {name: [] for name in calls}
    while block := list(islice(stream, BLOCK)):
        for name, call in calls.items():
            _time_block(call, block, times[name])
    return {name: quartiles(found) for name, found in times.items()}


def _time_block(call: Callable[[T], object], block: list[T], times: list[int]) -> None:
    for given in block:
        started = perf_counter_ns()
        call(given)
        times.append(perf_counter_ns() - started)


def microseconds(calls: Mapping[str, Callable[[], object]], operations: int, repeats: int) -> dict[str, float]:
    """Return microseconds of an operation for calls too short to time singly.

    Each call does `operations`; the median repeat counts.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            started = perf_counter()
            call()
            if repeat:  # the first is a warm-up
                times[name].append(perf_counter() - started)
    return {name: statistics.median(found) * 1e6 / operations for name, found in times.items()}


def resident_mb() -> float:
    """Return the resident memory of this process in MB, or its maximum where the system does not report it."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
