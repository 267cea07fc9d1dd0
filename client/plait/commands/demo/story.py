"""What happens in the demo, in four acts: a calm day, a slow link, a crash, and the time after.

In the calm acts every delivery is checked exactly. While a broker is killed, what was confirmed reaches everyone whose
own broker lives, and the durable listener at the killed one; others there are told that they missed something.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from ... import connect
from ...options.settings import Reconnect
from .analysis import analysed
from .cities import CITIES, DELAYS_MS, Cities
from .feeds import Feeds
from .listeners import KILLED, LISTENERS, WATCHER, Listener
from .record import Act, Ear, Key, Record
from .verdict import faults

if TYPE_CHECKING:
    from .telling import Telling

FEEDS: Final = {"NYSE": "new-york", "NASDAQ": "paris"}
"""Where each exchange publishes."""

SLOWED: Final = ("new-york", "chicago")
SLOW_S: Final = 0.080
"""What that link takes once it is slow: the way round it takes 14 ms."""

MOVE_S: Final = 10.0
"""For events to leave the slowed link. They do within two seconds."""

SETTLE_S: Final = 6.0
"""For everything published to arrive. Far more than it takes; what takes longer is reported as a fault."""
DOWN_S: Final = 0.4
RECONNECT: Final = Reconnect(first_s=0.05, max_s=0.2)


async def tell(seconds: float, seed: int, telling: Telling) -> bool:
    """Tells the story; whether all was well."""
    record = Record()
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as home:
        telling.step(f"six brokers start, and find each other: {', '.join(CITIES)}")
        async with AsyncExitStack() as stack:
            cities = await stack.enter_async_context(Cities(Path(home)))
            telling.links(DELAYS_MS)
            for listener in LISTENERS:
                url = cities.url(listener.at)
                record.ears.append(await stack.enter_async_context(_listening(url, listener)))
                telling.listener(record.ears[-1])
            feeds = await stack.enter_async_context(_feeding(cities, record, seed, telling))
            await _play(feeds, cities, seconds, telling)
            found = faults(record)
            telling.result(record, found)
        if any(cities.telemetry.glob("*/*.seg")):
            telling.analysis(await analysed(cities.telemetry))
    return not found


async def _play(feeds: Feeds, cities: Cities, seconds: float, telling: Telling) -> None:
    record = feeds.record
    telling.step("two feeds publish stock quotes, one in new-york, one in paris")
    await feeds.publish("calm", seconds * 0.3)
    await _settle(feeds, "calm")
    await _slow_a_link(feeds, cities, seconds, telling)
    await _settle(feeds, "slow")
    for ear in record.ears:
        ear.dropped_before = ear.subscription.stats.dropped
    await _kill_a_broker(feeds, cities, seconds, telling)
    await _all_are_back(feeds)
    telling.step("all listeners hear again")
    await feeds.publish("after", seconds * 0.2)
    await _settle(feeds, "after")
    telling.tally(record)


async def _slow_a_link(feeds: Feeds, cities: Cities, seconds: float, telling: Telling) -> None:
    """Publish on while a link is slow, until events have left it and for a while after."""
    record = feeds.record
    watcher = next(ear for ear in record.ears if ear.listener.name == WATCHER)
    cities.slow(*SLOWED, SLOW_S)
    telling.step(f"the link from {SLOWED[0]} to {SLOWED[1]} now takes {SLOW_S * 1000:.0f} ms")
    began = monotonic()

    def moved() -> bool:
        ways = record.travels(watcher, "NYSE", "slow")
        return any(SLOWED[1] not in way for way in ways)

    await feeds.publish("slow", MOVE_S, until=moved)
    record.moved = moved()
    if record.moved:
        telling.step(f"events from {SLOWED[0]} to {watcher.listener.at} take another way, after "
                     f"{monotonic() - began:.1f} s", moved_s=round(monotonic() - began, 2))  # fmt: skip
    await feeds.publish("slow", seconds * 0.2)
    await feeds.confirmed(SETTLE_S)
    telling.ways("before", record.travels(watcher, "NYSE", "calm"))
    telling.ways("since", record.travels(watcher, "NYSE", "slow"))


async def _kill_a_broker(feeds: Feeds, cities: Cities, seconds: float, telling: Telling) -> None:
    """Publish on while a broker that events pass through is killed, until it is back."""
    back = False
    crash = asyncio.create_task(feeds.publish("crash", 3 * SETTLE_S, until=lambda: back))
    try:
        await asyncio.sleep(seconds * 0.05)
        await cities.kill(KILLED)
        telling.step(f"kill -9: {KILLED} is gone, with all that was on its way through it; the feeds go on")
        await asyncio.sleep(DOWN_S)
        await cities.start_again(KILLED)
        telling.step(f"{KILLED} is back, with the same data; everyone reconnects and re-subscribes by itself")
        back = True
        await crash
    finally:
        crash.cancel()
        await asyncio.gather(crash, return_exceptions=True)


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
async def _feeding(cities: Cities, record: Record, seed: int, telling: Telling) -> AsyncIterator[Feeds]:
    async with AsyncExitStack() as stack:
        clients = {}
        for exchange, city in FEEDS.items():
            name = f"{exchange.lower()}-feed"
            client = await stack.enter_async_context(connect(cities.url(city), name=name, reconnect=RECONNECT))
            await client.advertise(f"exchange == '{exchange}'")
            clients[exchange] = client
        feeds = Feeds(clients, record, seed, telling)
        try:
            yield feeds
        finally:
            await feeds.close()
