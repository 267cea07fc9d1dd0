"""A broker that starts alone knows the durable subscriptions of other brokers from its log.

It confirms no event that they have not received.
"""

from __future__ import annotations

import asyncio
import json
import random
import urllib.request
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from processes import BrokerProcess, broker_process, port_to_keep

import plait

AT_ONCE = plait.Reconnect(first_s=0.02, max_s=0.2)
PATIENCE_S = 30.0
SOON = {"PLAIT_BROKER__OVERLAY__JOIN_S": "0.2"}
"""Settings with which a broker without neighbours serves soon."""


def starter(running: AsyncExitStack, home: Path) -> Callable[[str], Awaitable[BrokerProcess]]:
    """Return a function that starts broker a or b, linked to each other, always with the same address and log."""
    chance = random.SystemRandom()
    ports = {name: port_to_keep(chance) for name in "ab"}

    async def start(name: str) -> BrokerProcess:
        (other,) = set("ab") - {name}
        process = await running.enter_async_context(
            broker_process(
                "--name", name, "--listen", f"127.0.0.1:{ports[name]}", "--http", "127.0.0.1:0",
                "--data", home / name, "--link", f"127.0.0.1:{ports[other]}", environment=SOON,
            )
        )  # fmt: skip
        await process.ready()
        return process

    return start


def connected(broker: BrokerProcess) -> plait.Client:
    return plait.connect(f"plait://{broker.listen}", reconnect=AT_ONCE, timeout=PATIENCE_S)


async def awaits_confirmation(broker: BrokerProcess, count: int) -> None:
    """Wait until a number of events of a broker's publishers are unconfirmed."""

    def awaiting() -> int:
        with urllib.request.urlopen(f"http://{broker.http}/api/v1/broker") as answer:
            return int(json.load(answer)["awaiting_confirmation"])

    async with asyncio.timeout(PATIENCE_S):
        while await asyncio.to_thread(awaiting) != count:  # noqa: ASYNC110 - HTTP cannot be awaited
            await asyncio.sleep(0.02)


async def test_a_broker_that_starts_alone_confirms_nothing_that_others_miss(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        start = starter(running, tmp_path)
        a, b = await asyncio.gather(start("a"), start("b"))
        async with connected(b) as reader, reader.subscribe("price < 50", durable="mine"):
            pass
        await asyncio.gather(a.kill(), b.kill())
        a = await start("a")
        async with connected(a) as publisher:
            unwanted = await publisher.publish({"price": 70}, confirm="broker")
            assert not unwanted.matched
            wanted = asyncio.create_task(publisher.publish({"price": 20}, confirm="broker"))
            await awaits_confirmation(a, 1)
            assert not wanted.done(), "its subscriber is away, and known nevertheless"
            b = await start("b")
            receipt = await asyncio.wait_for(wanted, PATIENCE_S)
            assert receipt.seq
        async with connected(b) as reader, reader.subscribe("price < 50", durable="mine") as mine:
            event = await mine.next(PATIENCE_S)
            assert event["price"] == 20


async def test_events_that_a_durable_subscription_no_longer_matches_are_discarded(tmp_path: Path) -> None:
    async with AsyncExitStack() as running:
        start = starter(running, tmp_path)
        a, b = await asyncio.gather(start("a"), start("b"))
        async with connected(b) as reader:
            mine = await reader.subscribe("price < 50", durable="mine")
            await mine.update("price < 10")
        await asyncio.gather(a.kill(), b.kill())
        a = await start("a")
        async with connected(a) as publisher:
            await asyncio.wait_for(publisher.publish({"price": 20}, confirm="broker"), PATIENCE_S)
