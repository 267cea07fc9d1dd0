"""Five broker processes that send events in stream groups: a broker is killed, and nothing is lost, repeated or late.

a - b - c        brokers open a group for every event with more than one destination
|   | /
e - d
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.request import urlopen

from processes import BrokerProcess, broker_process, drawn_chance, port_to_keep

import plait

LINKS = {"a": "", "b": "a", "c": "b", "d": "bc", "e": "ad"}
PATIENCE_S = 30.0
EVENTS = 300
IN_FLIGHT = 20


@asynccontextmanager
async def grouped(folder: Path) -> AsyncIterator[dict[str, BrokerProcess]]:
    """Run the brokers, and wait until they know each other."""
    config = folder / "broker.toml"
    config.write_text("[overlay]\ndestinations_max = 1\n[access]\nopen = true\n")
    chance = drawn_chance()
    brokers: dict[str, BrokerProcess] = {}
    async with AsyncExitStack() as running:
        for name, others in LINKS.items():
            to = [part for other in others for part in ("--link", f"127.0.0.1:{brokers[other].port}")]
            listen = f"127.0.0.1:{port_to_keep(chance)}"
            process = broker_process(
                "--config", config, "--name", name, "--listen", listen, "--http", "127.0.0.1:0", *to
            )
            brokers[name] = await running.enter_async_context(process)
            await brokers[name].ready()
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(_is_whole, brokers["a"]):  # noqa: ASYNC110 - HTTP cannot be awaited
                await asyncio.sleep(0.05)
        yield brokers


def _is_whole(broker: BrokerProcess) -> bool:
    with urlopen(f"http://{broker.http}/api/v1/topology") as answer:
        topology = json.load(answer)
    ends = sum(map(len, LINKS.values()))
    return sum(one["reachable"] for one in topology["brokers"]) == len(LINKS) and len(topology["links"]) == 2 * ends


def _incidents(broker: BrokerProcess, kind: str) -> float:
    """Return a counter of the overlay."""
    with urlopen(f"http://{broker.http}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    name = f'plait_overlay_incidents_total{{incident="{kind}"}}'
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


async def test_a_group_survives_a_killed_relay(tmp_path: Path) -> None:
    async with grouped(tmp_path) as brokers, AsyncExitStack() as clients:

        async def connect(name: str) -> plait.Client:
            return await clients.enter_async_context(
                plait.connect(f"plait://127.0.0.1:{brokers[name].port}", timeout=PATIENCE_S)
            )

        publisher = await connect("a")
        await publisher.advertise("n >= 0")
        subscriptions = {name: await (await connect(name)).subscribe("n >= 0") for name in "cde"}
        window = asyncio.Semaphore(IN_FLIGHT)

        async def publish(number: int) -> None:
            try:
                await publisher.publish({"n": number}, confirm="subscribers")
            finally:
                window.release()

        got: dict[str, list[int]] = {name: [] for name in subscriptions}

        async def read(name: str) -> None:
            async for event in subscriptions[name]:
                got[name].append(event["n"])

        reading = [asyncio.create_task(read(name)) for name in subscriptions]
        async with asyncio.TaskGroup() as tasks:
            for number in range(EVENTS):
                await window.acquire()
                if number == EVENTS // 2:  # b relays to c, at least
                    await brokers["b"].kill()
                tasks.create_task(publish(number))
                await asyncio.sleep(0.005)
        for name, task in zip(subscriptions, reading, strict=True):
            task.cancel()
            assert got[name] == list(range(EVENTS)), name
        assert await asyncio.to_thread(_incidents, brokers["a"], "groups_opened") >= 1
        assert await asyncio.to_thread(_incidents, brokers["a"], "group_members_moved") >= 1
