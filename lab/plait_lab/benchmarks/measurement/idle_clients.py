"""Memory of an idle client in its broker: python -m plait_lab.benchmarks.measurement.idle_clients

Prints the resident memory of a broker process for each of many idle clients, as the benchmark `brokers` measures it.
Then a broker in this process serves as many clients, and each allocation that remains is counted under the line that
made it. The second part sees what Python allocates: sockets of uvloop included, the heap of the native kernel not.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import tracemalloc
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from plait_broker.server.config.configuration import Configuration
from plait_broker.server.endpoints import Endpoint
from plait_broker.server.server import BrokerServer

from ...competitors.child_command import ChildCommand
from ...competitors.contender import HOST, loop_factory
from ...competitors.processes import TrialProcesses
from ...competitors.shared_counters import SharedCounters
from ...competitors.systems.catalogue import OURS
from ...competitors.trials import JOIN_S, idle, served

CLIENTS: Final = 5_000
BYTES_MAX: Final = 6_000
"""The target for an idle client with its socket's objects."""
REST_S: Final = 2.0
FIRST: Final = 20
"""Clients that join before the trace, since the first ones allocate what all use."""
SHOWN: Final = 20
"""Lines of the source that are printed."""


@dataclass(frozen=True, slots=True)
class TracedClients:
    """The allocations that remain for each client, by line of the source."""

    bytes_each: float
    places: dict[str, float]


def trace_clients(clients: int, rest_s: float = REST_S) -> TracedClients:
    """Serve idle clients of another process from this one, and trace the allocations that remain after a rest."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_trace(clients, rest_s))


async def _trace(clients: int, rest_s: float) -> TracedClients:
    configuration = Configuration(listen=Endpoint(HOST, 0), http=None)
    with tempfile.TemporaryDirectory(prefix="plait-idle-") as folder:
        place = Path(folder)
        async with BrokerServer(configuration) as server:
            with TrialProcesses(place) as children:
                await _join(children, place, server.port, FIRST, rest_s)
                gc.collect()
                tracemalloc.start()
                try:
                    await _join(children, place, server.port, clients, rest_s)
                    gc.collect()
                    found = tracemalloc.take_snapshot()
                finally:
                    tracemalloc.stop()
    places: Counter[str] = Counter()
    for statistic in found.statistics("lineno"):
        frame = statistic.traceback[0]
        places[f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}"] += statistic.size
    each = {line: size / clients for line, size in places.most_common()}
    return TracedClients(sum(each.values()), each)


async def _join(children: TrialProcesses, place: Path, port: int, clients: int, rest_s: float) -> None:
    path = place / f"counters-{port}-{clients}"
    counters = SharedCounters.create(path, 1)
    try:
        command = ChildCommand(OURS.key, "crowd", port, str(path), subscriptions=0, connections=clients)
        children.start("crowd", command.command())
        async with asyncio.timeout(JOIN_S):
            while not all(counters.ready):
                children.check()
                await asyncio.sleep(0.02)
        await asyncio.sleep(rest_s)
    finally:
        counters.close()


def main(arguments: list[str] | None = None) -> int:
    """Measure and print. Return 1 if an idle client takes more than the target."""
    parser = argparse.ArgumentParser(
        prog="python -m plait_lab.benchmarks.measurement.idle_clients", description=__doc__
    )
    parser.add_argument("--clients", type=int, default=CLIENTS, metavar="N", help=f"idle clients ({CLIENTS})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    print(f"{options.clients:,} idle clients join a broker process", file=sys.stderr)
    with served(OURS) as server:
        resident = idle(server, options.clients, REST_S) * 1000
    print(f"{options.clients:,} idle clients join a broker that is traced", file=sys.stderr)
    traced = trace_clients(options.clients)
    if options.json:
        print(json.dumps({"resident_bytes_each": resident, **asdict(traced)}))
    else:
        print(f"resident memory of the broker for each client: {resident:,.0f} bytes (target {BYTES_MAX:,})")
        print(f"traced allocations for each client: {traced.bytes_each:,.0f} bytes, of these")
        for line, size in list(traced.places.items())[:SHOWN]:
            print(f"{size:8,.0f}  {line}")
    return 0 if resident <= BYTES_MAX else 1


if __name__ == "__main__":
    raise SystemExit(main())
