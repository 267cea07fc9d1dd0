"""`make soak HOURS=h`: three brokers in a ring, for hours, while clients and subscriptions come and go.

    python -m plait_lab.benchmarks.measurement.soak --hours 8 --out build/soak

It records each broker's memory, open files, threads, tasks and disk in soak.csv and, with matplotlib, in soak.png. At
the end it reports the change of each from the second third to the last, when all caches are warm, and whether a durable
subscription that existed all the time received all confirmed events.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import resource
import shutil
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import mean
from typing import Final
from urllib.request import urlopen

import plait
from plait.commands.brokers.local_broker import LocalBroker
from plait.commands.brokers.local_overlay import BrokerOptions, LocalOverlay
from plait.commands.brokers.topologies import Graph, edges

from ...experiments.peers.drawing import draw_figure, write_lines

BROKERS: Final = 3
CLIENTS: Final = 12
"""Clients that come and go concurrently."""
SAMPLES: Final = 240
EVERY_S: Final = 0.02
GROWTH_MAX: Final = 1.10
"""Allowed growth of memory from the second third to the last: more means that something is never released."""
DRAIN_S: Final = 60.0
ANSWERS_S: Final = 30.0
"""Timeout for a broker's metrics, on a busy machine."""
RETENTION: Final = {
    "PLAIT_BROKER__RETENTION__BYTES_MAX": str(256 << 20),
    "PLAIT_BROKER__TELEMETRY__BYTES_MAX": str(256 << 20),
    "PLAIT_BROKER__LIMITS__RESUME_S": "5.0",
}
"""Bounds small enough to be reached within the hour."""


@dataclass
class MeasuredBroker:
    """A broker and its resource use."""

    name: str
    broker: LocalBroker
    pid: int
    directories: tuple[Path, ...]
    samples: list[dict[str, str | int | float]] = field(default_factory=list)

    def sample(self, hours: float) -> None:
        """Record the current resource use from the kernel, and the tasks from the broker's metrics."""
        process = Path("/proc") / str(self.pid)
        pages = int((process / "statm").read_text().split()[1])
        disk = sum(path.stat().st_size for home in self.directories for path in home.rglob("*") if path.is_file())
        self.samples.append(
            {
                "hours": hours,
                "broker": self.name,
                "resident_mib": pages * resource.getpagesize() / 2**20,
                "open_files": len(os.listdir(process / "fd")),
                "threads": len(os.listdir(process / "task")),
                "tasks": self._tasks(),
                "disk_mib": disk / 2**20,
            }
        )

    def _tasks(self) -> int:
        with urlopen(f"http://{self.broker.http}/metrics", timeout=ANSWERS_S) as answer:
            found = re.search(r"^plait_tasks (\S+)", answer.read().decode(), re.MULTILINE)
        assert found is not None, "every broker has this metric"
        return int(float(found[1]))


@dataclass
class DurableEvents:
    """The events confirmed for the permanent subscription, and those that it received."""

    confirmed: set[int] = field(default_factory=set)
    arrived: list[int] = field(default_factory=list)
    sessions: int = 0
    subscriptions: int = 0


async def soak(hours: float, out: Path, chance: random.Random) -> bool:
    """Run everything. Return whether nothing grew and nothing was lost."""
    events, until = DurableEvents(), time.monotonic() + hours * 3600
    async with AsyncExitStack() as running:
        watched = await _ring(running, out)
        urls = [each.broker.url for each in watched]
        permanent = await running.enter_async_context(plait.connect(urls[-1]))
        durable = await permanent.subscribe("number >= 0", durable="soak", start="all")
        reading = asyncio.create_task(_read(durable, events))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_publish(urls[0], until, events))
                group.create_task(_watch(watched, until, hours, events))
                for number in range(CLIENTS):
                    mine = random.Random(chance.random())
                    group.create_task(_connect_and_leave(urls[number % BROKERS], until, mine, events))
            await _drained(events)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    return _report(watched, events, out)


async def _ring(running: AsyncExitStack, out: Path) -> list[MeasuredBroker]:
    os.environ.update(RETENTION)
    telemetry, data = out / "telemetry", out / "data"
    options = BrokerOptions(arguments=("--log-level", "warning", "--telemetry", str(telemetry)), data=data)
    names = [f"soak-{number + 1}" for number in range(BROKERS)]
    overlay = await running.enter_async_context(LocalOverlay(Graph(names, edges("ring", BROKERS)), options))
    return [
        MeasuredBroker(name, broker, broker.pid, (telemetry / f"broker-{name}", data / name))
        for name, broker in overlay.brokers.items()
    ]


async def _publish(url: str, until: float, events: DurableEvents) -> None:
    async with plait.connect(url) as client:
        for number in count():
            if time.monotonic() >= until:
                return
            await client.publish({"number": number, "price": number % 1000}, bytes(100), confirm="broker")
            events.confirmed.add(number)
            await asyncio.sleep(EVERY_S)


async def _read(subscription: plait.Subscription[plait.Event], events: DurableEvents) -> None:
    async for event in subscription:
        events.arrived.append(int(event["number"]))  # type: ignore[arg-type]  # an int, as it was published


async def _connect_and_leave(url: str, until: float, chance: random.Random, events: DurableEvents) -> None:
    while time.monotonic() < until:
        async with plait.connect(url) as client:
            events.sessions += 1
            for _ in range(chance.randrange(1, 10)):
                low, name = chance.randrange(1000), f"visit {chance.getrandbits(32)}"
                filter = f"price >= {low} and price < {low + chance.randrange(1, 50)}"
                subscription = await client.subscribe(filter, durable=name if chance.random() < 0.1 else None)
                events.subscriptions += 1
                await asyncio.sleep(chance.uniform(0, 0.2))
                await client.publish({"price": chance.randrange(1000), "visit": chance.randrange(100)})
                await subscription.close(forget=True)


async def _watch(watched: list[MeasuredBroker], until: float, hours: float, events: DurableEvents) -> None:
    began, every_s = time.monotonic(), max(0.5, hours * 3600 / SAMPLES)
    reported_at = 0.0
    while time.monotonic() < until:
        now = time.monotonic()
        for each in watched:
            await asyncio.to_thread(each.sample, (now - began) / 3600)
        if now - reported_at >= max(2.0, every_s * 10):
            reported_at = now
            used = ", ".join(f"{each.samples[-1]['resident_mib']:.0f} MiB" for each in watched)
            done = (
                f"{events.sessions} sessions, {events.subscriptions} subscriptions, {len(events.confirmed)} confirmed"
            )
            print(f"soak: {(now - began) / 3600:.2f} h, {used}; {done}", flush=True)
        await asyncio.sleep(every_s)


async def _drained(events: DurableEvents) -> None:
    until = time.monotonic() + DRAIN_S
    while events.confirmed - set(events.arrived) and time.monotonic() < until:  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.5)


def _report(watched: list[MeasuredBroker], events: DurableEvents, out: Path) -> bool:
    write_lines([row for each in watched for row in each.samples], out / "soak.csv")
    columns = ("resident_mib", "open_files", "threads", "tasks", "disk_mib")
    panels = [
        (column, "hours", column, {each.name: [_point(row, column) for row in each.samples] for each in watched})
        for column in columns
    ]
    if not draw_figure(panels, "Brokers while clients and subscriptions come and go", out / "soak.png"):
        print("soak: no plot, for matplotlib is not here (pip install matplotlib)")
    sound = True
    for each in watched:
        if not each.samples:
            print(f"{each.name}: nothing was noted: it ran for too short a time")
            sound = False
            continue
        third = max(1, len(each.samples) // 3)
        for column in columns:
            values = [_point(row, column)[1] for row in each.samples]
            before, after = mean(values[third : 2 * third] or values), mean(values[-third:])
            print(f"{each.name}: {column:<13} {before:9.1f} in the second third, {after:9.1f} in the last")
            sound &= column != "resident_mib" or after <= GROWTH_MAX * before
    lost, repeated = events.confirmed - set(events.arrived), len(events.arrived) - len(set(events.arrived))
    print(f"{len(events.confirmed)} confirmed, {len(lost)} lost, {repeated} twice; "
          f"{events.sessions} sessions, {events.subscriptions} subscriptions; {out / 'soak.csv'}")  # fmt: skip
    return sound and not lost and not repeated


def _point(row: dict[str, str | int | float], column: str) -> tuple[float, float]:
    return float(row["hours"]), float(row[column])


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m plait_lab.benchmarks.measurement.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"soak: {given.hours:g} h, --seed {seed}")
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    sys.exit(not asyncio.run(soak(given.hours, given.out, random.Random(seed))))


if __name__ == "__main__":
    main()
