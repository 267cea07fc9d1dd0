"""Five broker processes in a graph with two cycles: events find a path after any broker is killed.

a - b - c        every link is configured at both ends, so that a restarted broker waits for its neighbours before it
|   | /          serves clients
e - d
"""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from processes import NIGHTLY, BrokerProcess, broker_process, port_to_keep

import plait
from plait_analytics import TABLES, Lake, take_inventory
from plait_analytics.engines.duckdb_engine import compute_by_duckdb
from plait_analytics.tables.presentation import presented_tables

LINKS = {"a": "be", "b": "acd", "c": "bd", "d": "bce", "e": "ad"}
AT_ONCE = plait.Reconnect(first_s=0.02, max_s=0.2)
PATIENCE_S = 30.0
SPARK_S = 240.0
"""Timeout for a JVM on a busy machine."""
IN_FLIGHT = 20
BETWEEN_KILLS = 40
"""Events confirmed before the next broker is killed."""


class Five:
    """The brokers, by name."""

    def __init__(self, running: AsyncExitStack, home: Path) -> None:
        chance = random.SystemRandom()  # tests run side by side, and ports are taken
        self.ports = {name: port_to_keep(chance) for name in LINKS}
        self.brokers: dict[str, BrokerProcess] = {}
        self._running = running
        self._home = home

    async def start(self, name: str) -> None:
        """Start a broker, always with the same address and data."""
        links = [part for other in LINKS[name] for part in ("--link", f"127.0.0.1:{self.ports[other]}")]
        self.brokers[name] = await self._running.enter_async_context(
            broker_process(
                "--name", name, "--listen", f"127.0.0.1:{self.ports[name]}", "--http", "127.0.0.1:0",
                "--data", self._home / name, "--telemetry", self._home / "telemetry", *links,
            )
        )  # fmt: skip
        await self.brokers[name].ready()

    async def stop(self) -> None:
        """End all brokers by SIGTERM, so that their records are written."""
        for broker in self.brokers.values():
            broker.signal(signal.SIGTERM)
        for broker in self.brokers.values():
            code, _, said = await broker.ended()
            assert not code, said

    async def whole(self, name: str = "a") -> None:
        """Wait until a broker reaches all others and knows every link."""
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(self._is_whole, name):  # noqa: ASYNC110 - HTTP cannot be awaited
                await asyncio.sleep(0.05)

    def _is_whole(self, name: str) -> bool:
        with urllib.request.urlopen(f"http://{self.brokers[name].http}/api/v1/topology") as answer:
            topology = json.load(answer)
        reached = sum(broker["reachable"] for broker in topology["brokers"])
        return reached == len(LINKS) and len(topology["links"]) == sum(map(len, LINKS.values()))

    @asynccontextmanager
    async def client(self, name: str) -> AsyncIterator[plait.Client]:
        async with plait.connect(f"plait://127.0.0.1:{self.ports[name]}", reconnect=AT_ONCE, timeout=PATIENCE_S) as it:
            yield it


@asynccontextmanager
async def five(home: Path) -> AsyncIterator[Five]:
    async with AsyncExitStack() as running:
        brokers = Five(running, home)
        await asyncio.gather(*map(brokers.start, LINKS))
        await brokers.whole()
        yield brokers


async def test_events_reach_exactly_the_matching_subscriptions(tmp_path: Path) -> None:
    async with five(tmp_path) as brokers, AsyncExitStack() as clients:
        wanted = {"c": "price < 50", "d": "price >= 50", "e": "symbol == 'IBM'", "a": "price < 10"}
        subscriptions = {}
        for name, filter in wanted.items():
            client = await clients.enter_async_context(brokers.client(name))
            subscriptions[name] = await client.subscribe(filter)
        publisher = await clients.enter_async_context(brokers.client("a"))
        events = [{"symbol": symbol, "price": price} for symbol in ("IBM", "HP") for price in range(0, 100, 5)]
        for event in events:
            receipt = await publisher.publish(event, confirm="broker")
            assert receipt.seq
        for name, subscription in subscriptions.items():
            right = [event for event in events if plait.parse(wanted[name]).matches(event)]
            got = [await subscription.next(5) for _ in right]
            assert [dict(event) for event in got] == right
            assert not subscription.stats.pending
            for event in got:
                path = event.path
                assert path[0] == "a"
                assert path[-1] == name
                assert len(set(path)) == len(path) == event.hops + 1
                assert all(far in LINKS[near] for near, far in pairwise(path))
                assert event.delay > 0
        await clients.aclose()
        await brokers.stop()
    recorded_exactly(tmp_path / "telemetry", {wanted[name]: name for name in wanted}, events)


def recorded_exactly(telemetry: Path, wanted: dict[str, str], events: list[dict[str, Any]]) -> None:
    """Check that the analysed records of the brokers are exactly the deliveries."""
    right = {filter: sum(plait.parse(filter).matches(event) for event in events) for filter in wanted}
    inventory = take_inventory([telemetry])
    said_exactly(presented_tables(compute_by_duckdb(inventory), inventory), right, wanted, len(events))
    if NIGHTLY and find_spec("pyspark") is not None:
        out = telemetry.with_name("by-spark")
        command = [sys.executable, "-m", "plait", "analyze", telemetry, "--engine", "spark", "--out", out]
        subprocess.run(command, check=True, capture_output=True, timeout=SPARK_S)
        said_exactly({name: Lake(out).read(name) for name in TABLES}, right, wanted, len(events))


def said_exactly(tables: Mapping[str, Any], right: dict[str, int], wanted: dict[str, str], events: int) -> None:
    names = {row["broker"]: row["broker_name"] for row in tables["brokers"].to_pylist()}
    found: Counter[tuple[str, str]] = Counter()
    for row in tables["subscriptions"].to_pylist():
        found[row["filter"], names[row["broker"]]] += row["delivered"]
        assert row["matched"] == row["delivered"] == row["on_time"]
    assert found == {(str(plait.parse(filter)), name): right[filter] for filter, name in wanted.items()}
    assert not tables["unaccounted"].num_rows
    journeys = tables["journeys"].to_pylist()
    assert sum(row["events"] for row in journeys) == sum(row["accounted"] for row in journeys) == events
    assert sum(row["delivered"] for row in journeys) == sum(right.values())
    crossed: Counter[tuple[str, str]] = Counter()
    for row in tables["flows"].to_pylist():
        crossed[names[row["source"]], names[row["destination"]]] += row["events"]
    assert crossed == {("a", name): right[filter] for filter, name in wanted.items()}


async def test_a_request_is_answered_from_the_other_end(tmp_path: Path) -> None:
    async with five(tmp_path) as brokers, brokers.client("a") as asking, brokers.client("c") as answering:
        requests = await answering.subscribe("question is not null")

        async def answer(request: plait.Event) -> None:
            await request.reply({"answer": 2 * int(str(request["question"]))})

        requests.on(answer)
        reply = await asking.request({"question": 21}, timeout=5)
        assert reply["answer"] == 42


@pytest.mark.timeout(300)
async def test_acknowledged_events_survive_the_death_of_any_broker(tmp_path: Path) -> None:
    async with five(tmp_path) as brokers, AsyncExitStack() as clients:
        publisher = await clients.enter_async_context(brokers.client("a"))
        handed: dict[str, list[int]] = {"c": [], "d": [], "e": []}
        subscriptions = {
            name: await (await clients.enter_async_context(brokers.client(name))).subscribe(
                "number >= 0", durable=f"at {name}"
            )
            for name in handed
        }
        confirmed: list[int] = []
        progress = asyncio.Condition()
        stopping = False

        async def publish(room: asyncio.Semaphore, *, last: bool = False) -> None:
            try:
                receipt = await publisher.publish({"number": 1, "last": last}, confirm="broker")
            except plait.Error as error:
                assert not last, error
            else:
                confirmed.append(receipt.seq)
                async with progress:
                    progress.notify_all()
            finally:
                room.release()

        async def load() -> None:
            room = asyncio.Semaphore(IN_FLIGHT)
            async with asyncio.TaskGroup() as tasks:
                while not stopping:
                    await room.acquire()
                    tasks.create_task(publish(room))
            await room.acquire()
            await publish(room, last=True)

        async def read(name: str) -> None:
            async for event in subscriptions[name]:
                handed[name].append(event.seq)
                if event["last"]:
                    return

        async with asyncio.timeout(240), asyncio.TaskGroup() as tasks:
            tasks.create_task(load())
            for name in handed:
                tasks.create_task(read(name))
            began = asyncio.get_running_loop().time()
            for victim in "bdcea":
                at_least = len(confirmed) + BETWEEN_KILLS
                async with progress:
                    await progress.wait_for(lambda at_least=at_least: len(confirmed) >= at_least)  # type: ignore[misc]
                await brokers.brokers[victim].kill()
                await brokers.start(victim)
                await brokers.whole("d" if victim == "a" else "a")
                print(f"killed {victim} after {at_least} events", round(asyncio.get_running_loop().time() - began, 1))
            stopping = True
        for name, numbers in handed.items():
            assert len(numbers) == len(set(numbers)), f"{name}: handed out twice"
            assert numbers == sorted(numbers), f"{name}: out of order"
            lost = sorted(set(confirmed) - set(numbers))
            assert not lost, f"{name}: acknowledged and lost: {lost[:10]} of {len(confirmed)}"
        assert len(confirmed) > 5 * BETWEEN_KILLS


async def test_a_broker_whose_log_identity_is_claimed_reports_it(tmp_path: Path) -> None:
    """Two brokers with one name, as on a cloned machine: the later one counts as the next incarnation."""
    port = port_to_keep(random.SystemRandom())
    async with AsyncExitStack() as running:

        async def start(home: str, *more: str) -> BrokerProcess:
            broker = await running.enter_async_context(
                broker_process("--name", home, "--http", "127.0.0.1:0", "--data", tmp_path / home, *more)
            )
            await broker.ready()
            return broker

        first = await start("first", "--listen", f"127.0.0.1:{port}")
        assert (await status(first)) == "ready"
        shutil.copytree(tmp_path / "first", tmp_path / "second")
        second = await start("second", "--listen", "127.0.0.1:0", "--link", f"127.0.0.1:{port}")
        async with asyncio.timeout(PATIENCE_S):
            while "log" not in await status(first):  # noqa: ASYNC110 - HTTP cannot be awaited
                await asyncio.sleep(0.05)
        assert await status(second) == "ready"


async def status(broker: BrokerProcess) -> str:
    """Return a broker's status from /readyz, ready or not."""

    def read() -> str:
        try:
            with urllib.request.urlopen(f"http://{broker.http}/readyz") as answer:
                return str(json.load(answer)["status"])
        except urllib.error.HTTPError as error:
            with error:
                return str(json.load(error)["status"])

    return await asyncio.to_thread(read)
