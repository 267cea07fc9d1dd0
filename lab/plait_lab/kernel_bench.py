"""The native kernel measured: matching on W1, W2 and W3, changes, covering, memory, frames split and matched.

Kernel time is what the kernel takes by itself; end-to-end time is what a Python caller waits. Answers are checked
against brute force before anything is timed. `python -m plait_lab.kernel_bench` prints the figures.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Final

from plait_core.events import Event
from plait_core.filters import parse
from plait_core.matching import PythonIndex
from plait_core.wire import encode_publish

from . import turnovers
from .baselines import BruteForce, DenseScan, check
from .groups import Group, Session
from .measures import Spread, spread, time_in_turn
from .reports import Figure, Target, figure_table
from .workloads import WORKLOADS, Workload

_TARGETS: Final = {
    "W1": {10_000: 1.0, 100_000: 3.0, 1_000_000: 40.0},
    "W3": {10_000: 0.5, 100_000: 2.0, 1_000_000: 15.0},
    "W2": {10_000: 3.0, 100_000: 20.0, 1_000_000: 100.0},
}
"""p50 of kernel time in microseconds."""

_NS_A_MATCH: Final = 10
"""Allowed to W3 on top, for each id found: one event there has thousands."""

_TAIL_MAX: Final = 10
"""p99 of W3 in p50s of an event with as many ids: hot symbols are the trap."""

_READ_BYTES: Final = 64 * 1024
_FRAME_BYTES: Final = 128
_CHECKED: Final = 500
_CHUNK: Final = 2_000
_BESIDE_MAX: Final = 10_000
"""Filters up to which the Python index and the dense scan are timed beside."""


def run(session: Session) -> Iterator[Figure]:
    """All figures of the kernel."""
    sizes = [2_000] if session.quick else [10_000, 100_000, 1_000_000]
    for name in _TARGETS:
        for size in sizes:
            yield from _workload(session, name, size)
    yield from _memory(session)
    yield from _frames(session)


GROUP = Group("kernel", "The native kernel", run)


def _kernel() -> Any:
    """`plait_kernel._kernel`, which times itself."""
    return importlib.import_module("plait_kernel._kernel")


# --- matching ---------------------------------------------------------------------------------------------------------


def _workload(session: Session, name: str, size: int) -> Iterator[Figure]:
    label = f"{name} {size:,}"
    session.tell(f"{label}: adding")
    kernel = _kernel()
    workload = WORKLOADS[name](size, session.rng(f"kernel {label}"))
    index = kernel.Index()
    adding = spread(list(_add_all(kernel, index, workload)))
    index.settle()
    session.tell(f"{label}: matching")
    check(index, BruteForce(workload), None, workload.events(_CHECKED if size < 1_000_000 else 20, stream=1))
    yield from _match_figures(session, kernel, index, workload, label)
    yield from _change_figures(kernel, index, workload, label, adding)
    if size == 100_000:
        asked = list(islice(workload.successor(9).filters(), session.size(5_000, 500)))
        found = spread([took for took, _ in kernel.measure_covering(index, asked)])
        yield Figure(f"{label}: covering, kernel p50", found.p50, "us", Target("<=", 10), {"p99": found.p99})


def _add_all(kernel: Any, index: Any, workload: Workload) -> Iterator[int]:
    """Adds all filters; how long the kernel took for each."""
    subscriptions = workload.subscriptions()
    while chunk := list(islice(subscriptions, _CHUNK)):
        ids, filters = zip(*chunk, strict=True)
        yield from kernel.measure_add(index, list(ids), list(filters))


def _match_figures(session: Session, kernel: Any, index: Any, workload: Workload, label: str) -> Iterator[Figure]:
    warm, timed = session.size(10_000, 200), session.size(20_000, 1_000)
    events = workload.events(warm + timed, stream=2)
    kernel.measure_match(index, list(islice(events, warm)))
    measured: list[tuple[int, int]] = []
    while block := list(islice(events, _CHUNK)):
        measured += kernel.measure_match(index, block)
    inside = spread([took for took, _ in measured])
    name, ids = workload.name, sorted(found for _, found in measured)
    usual, many = ids[len(ids) // 2], ids[len(ids) * 99 // 100]
    allowed = _TARGETS[name].get(len(workload))
    extra = _NS_A_MATCH / 1000 if name == "W3" and len(workload) > 10_000 else 0.0
    target = None if allowed is None else Target("<=", allowed + usual * extra)
    beside = {"p99.9": inside.p999, "ids at p50": float(usual), "ids at p99": float(many)}
    yield Figure(f"{label}: match, kernel p50", inside.p50, "us", target, beside)
    tail = Target("<=", _TAIL_MAX * inside.p50 + many * _NS_A_MATCH / 1000) if name == "W3" and allowed else None
    yield Figure(f"{label}: match, kernel p99", inside.p99, "us", tail)
    yield from _end_to_end(session, index, workload, label)


def _end_to_end(session: Session, index: Any, workload: Workload, label: str) -> Iterator[Figure]:
    """From Python, in turn with what else a Python user has."""
    contenders: dict[str, Any] = {"kernel": index.match}
    if len(workload) <= _BESIDE_MAX:
        reference = PythonIndex()
        for id, filter in workload.subscriptions():
            reference.add(id, filter)
        contenders |= {"python index": reference.match, "dense scan": DenseScan(workload).match}
    warm, timed = session.size(1_000, 100), session.size(4_000, 300)
    found: dict[str, Spread] = time_in_turn(contenders, workload.events(warm + timed, stream=3), warm)
    beside = {name: each.p50 for name, each in found.items() if name != "kernel"}
    yield Figure(f"{label}: match, end to end p50", found["kernel"].p50, "us", None, beside)
    yield Figure(f"{label}: match, end to end p99", found["kernel"].p99, "us")


def _change_figures(kernel: Any, index: Any, workload: Workload, label: str, adding: Spread) -> Iterator[Figure]:
    gone = workload.ids[: len(workload) // 10].tolist()
    removing = spread(kernel.measure_remove(index, gone))
    for verb, found, most in (("add", adding, 5), ("remove", removing, 1)):
        beside = {"p99": found.p99, "p99.9": found.p999, "longest": found.longest}
        yield Figure(f"{label}: {verb}, kernel p50", found.p50, "us", Target("<=", most), beside)


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory(session: Session) -> Iterable[Figure]:
    size, turns = session.size(1_000_000, 5_000), 0
    session.tell(f"memory of {size:,} filters")
    taken = turnovers.measure("W1", size, turns, session.seed, native=True).index
    yield Figure(f"W1 {size:,}: memory", taken, "MB", Target("<=", 400))
    size, turns = session.size(50_000, 2_000), 10
    session.tell(f"memory through {turns} turnovers")
    memory = turnovers.measure("W3", size, turns, session.seed, native=True)
    # The allocator keeps some of what merging gives back: the first turnovers find out how much.
    first, middle, last = (memory.turnovers[turn] for turn in (0, turns // 2 - 1, -1))
    beside = {"filled": memory.index, "after the first": first - memory.empty, "after the last": last - memory.empty}
    yield Figure(f"W3 {size:,}: growth from turnover 5 to {turns}", last - middle, "MB", Target("<=", 5), beside)


# --- frames -----------------------------------------------------------------------------------------------------------


def _frames(session: Session) -> Iterator[Figure]:
    """128-byte publish frames, 64 KiB at a time, against 1,000 filters of which each frame matches a few."""
    session.tell("frames split and matched")
    kernel, package = _kernel(), importlib.import_module("plait_kernel")
    index, splitter, rng = kernel.Index(), package.splitter_for(), session.rng("kernel frames")
    for id in range(1_000):
        symbol = "IBM" if id % 10 == 0 else f"S{id}"
        low = int(rng.integers(0, 1_200))
        index.add(
            id, parse(f"symbol == '{symbol}' and {low} < price < {low + 300} and volume >= {rng.integers(0, 120)}")
        )
    index.settle()
    reads = _reads() * session.size(20, 1)
    inside = outside = frames = 0.0
    for read in reads:
        took, count = kernel.measure_match_many(index, read, splitter)
        inside, frames = inside + took / 1e9, frames + count
    started = perf_counter()
    matched = sum(len(row[4]) for read in reads for row in index.match_many(read, splitter)[0])
    outside = perf_counter() - started
    beside = {"end to end": frames / outside, "ids a frame": matched / frames}
    yield Figure("split and match 128-byte frames, kernel", frames / inside, "/s", Target(">=", 1_500_000), beside)


def _reads() -> list[bytes]:
    """Publish frames of a size, as they come from a socket: a frame that is cut is left out."""
    frames = [_frame(sequence) for sequence in range(1, 8193)]
    fit = _READ_BYTES // _FRAME_BYTES
    return [b"".join(frames[start : start + fit]) for start in range(0, len(frames), fit)]


def _frame(sequence: int) -> bytes:
    attributes = {"symbol": "IBM", "price": 100 + sequence / 7, "volume": 100 + sequence % 20}
    bare = encode_publish(Event.checked(attributes, publisher=7, sequence=sequence, published_us=1_700_000_000_000_000))
    payload = bytes(_FRAME_BYTES - len(bare))
    return encode_publish(
        Event.checked(attributes, payload, publisher=7, sequence=sequence, published_us=1_700_000_000_000_000)
    )


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.kernel_bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, which only show that the measures work")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    session = Session(options.seed, options.quick, lambda line: print(line, file=sys.stderr))
    print(figure_table(run(session)))


if __name__ == "__main__":
    main()
