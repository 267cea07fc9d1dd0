"""Load in containers during faults: publishers, durable subscribers, one of them slow, and many reconnecting clients.

Each appends confirmed or received events to a file in /out, as lines `publisher number microseconds`. They stop when
/out/stop exists.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import plait
from plait_keyserver import Identity, KeyClient, Membership

OUT = Path("/out")
TOKEN = Path("/run/plait/token")
KEYS = ("keyserver", 4679)
IN_FLIGHT = 16
EVERY_S = 0.02
CROWD = 100


class Record:
    """A file of lines. Each is written by one system call."""

    def __init__(self, name: str) -> None:
        self._file = (OUT / name).open("a", buffering=1)

    def __call__(self, *words: object) -> None:
        self._file.write(f"{' '.join(map(str, words))} {time.time_ns() // 1000}\n")


def stopped() -> bool:
    return (OUT / "stop").exists()


def connected(name: str) -> plait.Opening[plait.Client]:
    return plait.connect(os.environ["PLAIT_URL"].split(","), auth=TOKEN.read_text().strip(), timeout=120, name=name)


async def member(holder: str, running: AsyncExitStack) -> Membership:
    """Join the key server's realm. The certificate is stored, because a token is valid once."""
    client, kept = KeyClient([KEYS], (OUT / "authority.pem").read_text()), OUT / f"{holder}.pem"
    if kept.exists():
        client.identity = Identity.load(kept)
    else:
        (await client.enrol((OUT / f"{holder}.token").read_text().strip())).save(kept)
    return await running.enter_async_context(await Membership.join(client, folder=OUT))


async def publish(name: str, holder: str = "") -> None:
    """Publish at a fixed rate until stopped. Record which events were confirmed."""
    confirmed, unsure = Record(f"{name}.confirmed"), Record(f"{name}.unsure")
    free = asyncio.Semaphore(IN_FLIGHT)
    async with AsyncExitStack() as running:
        ring = await (await member(holder, running)).publisher("true") if holder else None
        client = await running.enter_async_context(connected(name))

        async def one(number: int) -> None:
            quote = {
                "symbol": ("IBM", "SAP")[number % 2],
                "price": number % 1024,
                "flow": "sealed" if holder else "open",
            }
            seal = plait.Seal(ring, None) if ring is not None else None
            try:
                await client.publish(quote, f"{name} {number}".encode(), confirm="broker", seal=seal)
                confirmed(name, number)
            except plait.Error as error:
                unsure(name, number, type(error).__name__)
            finally:
                free.release()

        number = 0
        async with asyncio.TaskGroup() as publishing:
            while not stopped():
                await free.acquire()
                publishing.create_task(one(number))
                number += 1
                await asyncio.sleep(EVERY_S)
    Record(f"{name}.done")(name, number)


async def read(name: str, wanted: str, holder: str = "", pause_s: float = 0.0) -> None:
    """Record the events of a durable subscription."""
    arrived, told = Record(f"{name}.arrived"), Record(f"{name}.notices")
    async with AsyncExitStack() as running:
        ring = await (await member(holder, running)).subscriber("true") if holder else None
        client = await running.enter_async_context(connected(name))
        subscription = await running.enter_async_context(client.subscribe(wanted, durable=name, unseal=ring))

        async def listen() -> None:
            async for notice in subscription.notices():
                told(type(notice).__name__, getattr(notice, "reason", "-"), getattr(notice, "count", "-"))

        async with asyncio.TaskGroup() as group:
            listening = group.create_task(listen())
            told("subscribed")
            async for event in subscription:
                arrived(event.payload.decode())
                if pause_s and not stopped():
                    await asyncio.sleep(pause_s)
            listening.cancel()


async def slow(name: str, wanted: str) -> None:
    """Run a subscriber that processes a tenth of its events."""
    await read(name, wanted, pause_s=10 * EVERY_S)


async def crowd(name: str) -> None:
    """Run many clients that reconnect at once when their broker restarts."""
    record = Record(f"{name}.crowd")

    async with AsyncExitStack() as running:

        async def one(number: int) -> plait.Client:
            client = await running.enter_async_context(connected(f"{name}-{number}"))
            await client.subscribe(f"to == {number}")
            return client

        clients = await asyncio.gather(*map(one, range(CROWD)))
        while not stopped():
            there = sum(client.connected for client in clients)
            record(there, sum(client.stats.connections for client in clients))
            await asyncio.sleep(0.5)


ROLES: dict[str, Callable[..., Awaitable[None]]] = {"publish": publish, "read": read, "slow": slow, "crowd": crowd}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))  # type: ignore[arg-type]
