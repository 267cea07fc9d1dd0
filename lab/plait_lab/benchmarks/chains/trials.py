"""Trials of a chain: maximum throughput from end to end, and delay at a rate.

The cost of a hop is the difference between a chain and one server, with the same clients in the same run.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...competitors.child_command import ChildCommand
from ...competitors.paced_publishing import Phase, Plan
from ...competitors.processes import TrialProcesses, cost, free_port, listens
from ...competitors.shared_counters import READY, SharedCounters
from ...competitors.trials import JOIN_S, SETTLE_S, WARM_S, WINDOW, TrialOutcome, TrialRun
from .chain import Chain

LINK_S: Final = 1.5
"""Seconds for servers to find each other and for interest to propagate: not all systems report it."""


@dataclass(frozen=True, slots=True)
class RunningChain:
    """A running chain."""

    chain: Chain
    ports: tuple[int, ...]
    processes: tuple[int, ...]
    place: Path
    children: TrialProcesses


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of one trial."""

    outcome: TrialOutcome
    servers_us: tuple[float, ...]
    """CPU time of each server for an event, including the warm-up."""


@contextmanager
def running_chain(chain: Chain, long: int) -> Iterator[RunningChain]:
    """Run a chain of servers; stop them and delete their files afterwards."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        with TrialProcesses(place) as children:
            ports = tuple(free_port() for _ in range(long))
            processes: dict[int, int] = {}
            commands = chain.commands(ports, place) if long > 1 else [chain.contender.command(ports[0], place)]
            for port, command in reversed(list(zip(ports, commands, strict=True))):
                processes[port] = children.start(f"server-{port}", command)
                children.wait(f"{chain.title} listens", lambda port=port: listens(port))  # type: ignore[misc]
            if long > 1:
                time.sleep(LINK_S)
            yield RunningChain(chain, ports, tuple(processes[port] for port in ports), place, children)
            children.check()


def flood_chain(servers: RunningChain, seed: int, seconds: float) -> Passed:
    """Measure the maximum throughput without loss."""
    plan = Plan(seed, WINDOW, (Phase("flood", min(WARM_S, seconds)), Phase("flood", seconds)))
    return _pass(servers, plan, 0)


def paced_chain(servers: RunningChain, seed: int, rate: int, seconds: float) -> Passed:
    """Publish at a rate, on a schedule that does not wait for subscribers."""
    plan = Plan(seed, WINDOW, (Phase("paced", min(WARM_S, seconds), rate), Phase("paced", seconds, rate)))
    return _pass(servers, plan, round(seconds * rate))


def _pass(servers: RunningChain, plan: Plan, samples: int) -> Passed:
    path = servers.place / f"counters-{time.monotonic_ns()}"
    counters = SharedCounters.create(path, 1, samples)
    key, (first, *_), last = servers.chain.contender.key, servers.ports, servers.ports[-1]
    try:
        with TrialProcesses(servers.place, servers.children) as children:
            subscribers = children.start(
                "subscriber", ChildCommand(key, "subscriber", last, str(path), 0, bool(samples)).command()
            )
            children.wait("a subscriber", lambda: all(counters.ready), JOIN_S)
            time.sleep(SETTLE_S)
            before = [cost(process).cpu_s for process in servers.processes]
            sending = children.start("publisher", ChildCommand(key, "publisher", first, str(path), plan=plan).command())
            children.wait("a publisher", lambda: counters.cells[READY] == 1)
            outcome = TrialRun(children, counters, plan, (servers.processes[0], sending, subscribers)).measure()
            spent = [cost(process).cpu_s - then for process, then in zip(servers.processes, before, strict=True)]
            passed = sum(counters.sent)
            return Passed(outcome, tuple(1e6 * one / passed for one in spent))
    finally:
        counters.close()
        path.unlink()
