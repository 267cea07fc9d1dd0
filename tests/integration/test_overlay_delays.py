"""Three broker processes in a row, the middle one paused for a while: each event reports its true delay."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from processes import BrokerProcess, broker_process, port_to_keep

import plait

STOP_S = 1.5
BEFORE = AFTER = 5
"""Number of events."""
PATIENCE_S = 30.0


@asynccontextmanager
async def row() -> AsyncIterator[list[BrokerProcess]]:
    """Run brokers a - b - c. The middle one dials."""
    chance = random.SystemRandom()
    async with AsyncExitStack() as running:

        async def start(name: str, *links: int) -> BrokerProcess:
            to = [part for port in links for part in ("--link", f"127.0.0.1:{port}")]
            port = port_to_keep(chance)
            process = broker_process(
                "--name", name, "--listen", f"127.0.0.1:{port}", "--http", "127.0.0.1:0", *to
            )  # fmt: skip
            broker = await running.enter_async_context(process)
            await broker.ready()
            return broker

        a, c = await asyncio.gather(start("a"), start("c"))
        yield [a, await start("b", a.port, c.port), c]


async def say(publisher: plait.Client, number: int) -> None:
    await publisher.publish({"number": number, "at": time.monotonic()})


async def journey(subscription: Any, number: int) -> tuple[float, plait.Event]:
    """Return an event and its true delay. All clocks are the same here."""
    while True:
        event = await subscription.next(PATIENCE_S)
        if event["number"] == number:
            return time.monotonic() - event["at"], event


async def test_events_held_by_a_stopped_broker_have_its_delay_and_later_ones_do_not() -> None:
    async with row() as (a, b, c), AsyncExitStack() as clients:
        enter = clients.enter_async_context
        publisher = await enter(plait.connect(f"plait://127.0.0.1:{a.port}", timeout=PATIENCE_S))
        subscriber = await enter(plait.connect(f"plait://127.0.0.1:{c.port}", timeout=PATIENCE_S))
        subscription = await subscriber.subscribe("number >= 0", within=STOP_S / 2, late="flag")
        await publisher.advertise("number >= 0")
        async with asyncio.timeout(PATIENCE_S):
            while True:  # until the three are one overlay
                await say(publisher, 0)
                try:
                    await subscription.next(0.5)
                    break
                except TimeoutError:
                    continue
        for number in range(1, 1 + BEFORE):
            await say(publisher, number)
            true_s, event = await journey(subscription, number)
            assert event.delay < max(STOP_S / 5, true_s)
        b.signal(signal.SIGSTOP)
        await say(publisher, 100)
        await asyncio.sleep(STOP_S)
        b.signal(signal.SIGCONT)
        true_s, held = await journey(subscription, 100)
        assert true_s >= STOP_S
        assert held.delay >= 0.8 * STOP_S
        assert held.delay <= true_s * 1.2, "nor more than it was"
        assert held.late
        for number in range(101, 101 + AFTER):
            await asyncio.sleep(0.1)
            await say(publisher, number)
            true_s, event = await journey(subscription, number)
            assert event.delay < max(STOP_S / 5, true_s), "what has passed is past"
            assert event.late == (event.delay > STOP_S / 2)
