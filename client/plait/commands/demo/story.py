"""What happens in the demo, in three acts: a calm day, a crash, and the time after.

In the first and the last act every delivery is checked exactly. Between them the broker is killed while it works: what
was confirmed, the durable listener must have in the end; the others are told that they missed something.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ... import connect
from ...settings import Reconnect
from ..local_broker import LocalBroker
from .feeds import Feeds
from .listeners import LISTENERS, Listener
from .record import Act, Ear, Key, Record
from .verdict import faults

if TYPE_CHECKING:
    from .telling import Telling

SETTLE_S: Final = 4.0
"""For everything published to arrive. Far more than it takes; what takes longer is reported as a fault."""
DOWN_S: Final = 0.4
RECONNECT: Final = Reconnect(first_s=0.05, max_s=0.2)


async def tell(seconds: float, seed: int, telling: Telling) -> bool:
    """Tells the story; whether all was well."""
    record = Record()
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as home, (Path(home) / "broker.log").open("wb") as log:
        broker = LocalBroker("--name", "demo", http="off", data=Path(home) / "data", log=log, own_settings=True)
        try:
            await broker.start()
            telling.step(f"a broker serves at {broker.url}", url=broker.url)
            async with AsyncExitStack() as stack:
                for listener in LISTENERS:
                    record.ears.append(await stack.enter_async_context(_listening(broker.url, listener)))
                    telling.listener(record.ears[-1])
                feeds = await stack.enter_async_context(_feeding(broker.url, record, seed, telling))
                await _play(feeds, broker, seconds, telling)
                found = faults(record)
                telling.result(record, found)
        finally:
            await broker.stop()
    return not found


async def _play(feeds: Feeds, broker: LocalBroker, seconds: float, telling: Telling) -> None:
    record = feeds.record
    telling.step("two feeds publish stock quotes")
    await feeds.publish("calm", seconds * 0.35)
    await _settle(feeds, "calm")
    for ear in record.ears:
        ear.dropped_while_calm = ear.subscription.stats.dropped
    crash = asyncio.create_task(feeds.publish("crash", seconds * 0.15))
    try:
        await asyncio.sleep(seconds * 0.05)
        await broker.kill()
        telling.step("kill -9: the broker is gone; feeds and listeners keep trying")
        await asyncio.sleep(DOWN_S)
        await broker.start()
        telling.step("the broker is back, with the same data; everyone reconnects and re-subscribes by itself")
        await crash
    finally:
        crash.cancel()
        await asyncio.gather(crash, return_exceptions=True)
    await _all_are_back(feeds)
    telling.step("all listeners hear again")
    await feeds.publish("after", seconds * 0.2)
    await _settle(feeds, "after")
    telling.tally(record)


async def _settle(feeds: Feeds, act: Act) -> None:
    """Wait until what was published is confirmed, and every listener has what is due."""
    await feeds.confirmed(SETTLE_S)
    record = feeds.record
    await _until(lambda: all(record.settled(ear, act) for ear in record.ears))


async def _all_are_back(feeds: Feeds) -> None:
    """Publish what everyone wants until everyone has heard some of it."""
    probes: set[Key] = set()

    def back() -> bool:
        probes.add(feeds.publish_for_all("crash"))
        return all(ear.heard.keys() & probes for ear in feeds.record.ears)

    await _until(back)
    await feeds.confirmed(SETTLE_S)


async def _until(true: Callable[[], bool]) -> None:
    """As soon as it is, or after SETTLE_S."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE_S
    while not true() and loop.time() < until:  # noqa: ASYNC110 (the books ring no bell)
        await asyncio.sleep(0.03)


@asynccontextmanager
async def _listening(url: str, listener: Listener) -> AsyncIterator[Ear]:
    """A listener with a connection of its own."""
    async with (
        connect(url, name=listener.name, reconnect=RECONNECT) as client,
        client.subscribe(
            listener.filter, within=listener.within, durable=listener.durable, buffer=listener.buffer
        ) as subscription,
    ):
        ear = Ear(listener, subscription)
        tasks = [asyncio.create_task(_hear(ear)), asyncio.create_task(_heed(ear))]
        try:
            yield ear
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _hear(ear: Ear) -> None:
    async for event in ear.subscription:
        ear.hear(event)
        if ear.listener.pause_s:
            await asyncio.sleep(ear.listener.pause_s)


async def _heed(ear: Ear) -> None:
    async for notice in ear.subscription.events():
        ear.notice(notice)


@asynccontextmanager
async def _feeding(url: str, record: Record, seed: int, telling: Telling) -> AsyncIterator[Feeds]:
    async with (
        connect(url, name="nyse-feed", reconnect=RECONNECT) as nyse,
        connect(url, name="nasdaq-feed", reconnect=RECONNECT) as nasdaq,
    ):
        feeds = Feeds({"NYSE": nyse, "NASDAQ": nasdaq}, record, seed, telling)
        try:
            yield feeds
        finally:
            await feeds.close()
