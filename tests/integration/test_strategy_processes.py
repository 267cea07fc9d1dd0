"""Every strategy on real broker processes: four in a ring, and each event arrives exactly once."""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from processes import BrokerProcess, broker_process, port_to_keep

import plait
from plait_broker.overlay.dissemination.registry import STRATEGIES

RING = {"a": "bd", "b": "ac", "c": "bd", "d": "ac"}
EVENTS = 200
PATIENCE_S = 30.0


@asynccontextmanager
async def ring(strategy: str, home: Path) -> AsyncIterator[dict[str, BrokerProcess]]:
    chance = random.SystemRandom()  # tests run side by side, and ports are taken
    ports = {name: port_to_keep(chance) for name in RING}
    laboratory = "false" if STRATEGIES[strategy].loop_free else "true"
    async with AsyncExitStack() as running:
        brokers = {}
        for name, others in RING.items():
            links = ", ".join(f'"127.0.0.1:{ports[other]}"' for other in others)
            file = home / f"{name}.toml"
            file.write_text(
                f'name = "{name}"\nlisten = "127.0.0.1:{ports[name]}"\nhttp = "127.0.0.1:0"\n'
                f'[overlay]\nlinks = [{links}]\ndissemination = "{strategy}"\nlaboratory = {laboratory}\n'
            )
            brokers[name] = await running.enter_async_context(broker_process("--config", file))
        await asyncio.gather(*(broker.ready() for broker in brokers.values()))
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(complete, brokers):  # noqa: ASYNC110 - HTTP cannot be awaited
                await asyncio.sleep(0.05)
        yield brokers


def complete(brokers: dict[str, BrokerProcess]) -> bool:
    """Return whether every broker knows all links."""
    for broker in brokers.values():
        with urllib.request.urlopen(f"http://{broker.http}/api/v1/topology") as answer:
            topology = json.load(answer)
        if len(topology["links"]) != 2 * len(RING):
            return False
    return True


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
async def test_each_event_arrives_exactly_once(strategy: str, tmp_path: Path) -> None:
    async with ring(strategy, tmp_path) as brokers, AsyncExitStack() as clients:

        async def client(name: str) -> plait.Client:
            return await clients.enter_async_context(plait.connect(f"plait://{brokers[name].listen}"))

        publishers = [await client("a"), await client("b")]
        for publisher in publishers:
            await publisher.advertise("x >= 0")
        subscriptions = [await (await client(name)).subscribe("x >= 0") for name in "cd"]
        for number in range(EVENTS):
            for publisher in publishers:
                await publisher.publish({"x": number})
        for subscription in subscriptions:
            async with asyncio.timeout(PATIENCE_S):
                received = [(await subscription.next())["x"] for _ in range(2 * EVENTS)]
            assert sorted(received) == sorted(2 * list(range(EVENTS))), "each once from each publisher"
            assert subscription.stats.pending == 0
