"""Subscriptions that are opened and closed without end do not leak: the broker's memory stays constant."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import count
from pathlib import Path
from statistics import mean
from time import monotonic

import pytest
from processes import NIGHTLY, broker_process, drawn_chance

import plait

LASTS_S = 600.0 if NIGHTLY else 15.0
CLIENTS = 8
OPEN_AT_ONCE = 25
"""Subscriptions of each client. Each step replaces one of them."""
SAMPLE_EVERY_S = LASTS_S / 60
GROWTH_MAX = 1.03
NAMES = count(1)


def a_filter(chance: random.Random) -> str:
    """Return a filter of any kind that the index stores differently. Some filters are equal."""
    n = chance.randrange(1_000_000)
    return chance.choice(
        (
            f"k == {n}",
            f"k == {n % 10}",
            f"{n} < price <= {n + 1000}",
            f"price > {n} and symbol in ['a{n}', 'b{n}', 'IBM']",
            f"symbol startswith 's{n}' or k < {n} or not halted",
            f"symbol like '%{n}%'",
            f"symbol == 'text {n}' and between_{n % 50} is not null",
        )
    )


async def churns(client: plait.Client, chance: random.Random, until: float, done: Counter[str]) -> None:
    """Open, change and close subscriptions, durable ones and advertisements too, and publish in between."""
    held: list[plait.Subscription[plait.Event]] = []
    while monotonic() < until:
        step = chance.random()
        if len(held) >= OPEN_AT_ONCE:
            await held.pop(chance.randrange(len(held))).close(forget=True)
            done["closed"] += 1
        if step < 0.1 and held:
            await chance.choice(held).update(a_filter(chance))
            done["changed"] += 1
        elif step < 0.15:
            async with client.advertise(a_filter(chance)):
                done["advertised"] += 1
        elif step < 0.2:
            held.append(await client.subscribe(a_filter(chance), durable=f"churn {next(NAMES)}"))
            done["durable"] += 1
        else:
            held.append(await client.subscribe(a_filter(chance)))
            done["opened"] += 1
        await client.publish({"k": chance.randrange(10), "price": chance.randrange(1_000_000), "symbol": "IBM"})
    for subscription in held:
        await subscription.close(forget=True)


@pytest.mark.timeout(LASTS_S + 120)
async def test_subscriptions_that_come_and_go_leave_the_memory_flat(tmp_path: Path) -> None:
    chance = drawn_chance()
    quiet = ("--listen", "127.0.0.1:0", "--http", "off", "--log-level", "warning")
    async with broker_process(*quiet, "--data", tmp_path / "log") as broker:
        await broker.ready()
        resident: list[int] = []
        done: Counter[str] = Counter()

        async def watches(until: float) -> None:
            while monotonic() < until:
                await asyncio.sleep(SAMPLE_EVERY_S)
                resident.append(broker.resident_bytes)

        async def one() -> None:
            async with plait.connect(f"plait://127.0.0.1:{broker.port}") as client:
                await churns(client, random.Random(chance.random()), until, done)

        until = monotonic() + LASTS_S
        await asyncio.gather(watches(until), *(one() for _ in range(CLIENTS)))
        third = len(resident) // 3
        thirds = [mean(resident[at : at + third]) for at in (0, third, 2 * third)]
        print(f"{done}, resident {[round(size / 1024) for size in thirds]} KiB by thirds")
        assert done.total() > 100 * LASTS_S, "it is a churn"
        assert thirds[2] <= thirds[1] * GROWTH_MAX, "the first third may still be warming up"
