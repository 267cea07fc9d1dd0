"""The course of the demo in four phases: normal operation, a slow link, a crash, and the time after.

In the normal phases every delivery is checked exactly. While a broker is down, each confirmed event reaches every
listener whose own broker lives, and the durable listener at the killed broker. Other listeners there receive a gap
notice for the events that they missed.
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
from .analysis import analyse
from .audit import find_faults
from .cities import CITIES, DELAYS_MS, city_overlay
from .feeds import Feeds
from .listeners import KILLED, LISTENERS, WATCHER, Listener
from .record import Key, Phase, Record, Subscriber

if TYPE_CHECKING:
    from ..brokers.local_overlay import LocalOverlay
    from .printing import DemoPrinter

FEEDS: Final = {"NYSE": "new-york", "NASDAQ": "paris"}
"""The broker at which each exchange publishes."""

SLOWED: Final = ("new-york", "chicago")
SLOW_S: Final = 0.080
"""Delay of that link once it is slow. The path around it takes 14 ms."""

REROUTE_S: Final = 10.0
"""Time for events to leave the slowed link. They do within two seconds."""

SETTLE_S: Final = 6.0
"""Time for all published events to arrive: far more than they need. A later event is reported as a fault."""
DOWN_S: Final = 0.4
RECONNECT: Final = Reconnect(first_s=0.05, max_s=0.2)


async def run_demo(seconds: float, seed: int, printer: DemoPrinter) -> bool:
    """Run the demo. Return whether every delivery was right."""
    record = Record()
    with tempfile.TemporaryDirectory(prefix="plait-demo-") as home:
        telemetry = Path(home) / "telemetry"
        printer.step(f"six brokers start, and find each other: {', '.join(CITIES)}")
        async with AsyncExitStack() as stack:
            overlay = await stack.enter_async_context(city_overlay(Path(home), telemetry))
            await overlay.wait_linked()
            printer.links(DELAYS_MS)
            for listener in LISTENERS:
                url = overlay.brokers[listener.at].url
                record.subscribers.append(await stack.enter_async_context(_subscriber(url, listener)))
                printer.listener(listener)
            feeds = await stack.enter_async_context(_feeds(overlay, record, seed, printer))
            await _run_phases(feeds, overlay, seconds, printer)
            faults = find_faults(record)
            printer.result(record, faults)
        if any(telemetry.glob("*/*.seg")):
            printer.analysis(await analyse(telemetry))
    return not faults


async def _run_phases(feeds: Feeds, overlay: LocalOverlay, seconds: float, printer: DemoPrinter) -> None:
    record = feeds.record
    printer.step("two feeds publish stock quotes, one in new-york, one in paris")
    await feeds.publish("calm", seconds * 0.3)
    await _settle(feeds, "calm")
    await _slow_a_link(feeds, overlay, seconds, printer)
    await _settle(feeds, "slow")
    for subscriber in record.subscribers:
        subscriber.dropped_before = subscriber.subscription.stats.dropped
    await _kill_a_broker(feeds, overlay, seconds, printer)
    await _all_reconnected(feeds)
    printer.step("all listeners receive again")
    await feeds.publish("after", seconds * 0.2)
    await _settle(feeds, "after")
    printer.tally(record)


async def _slow_a_link(feeds: Feeds, overlay: LocalOverlay, seconds: float, printer: DemoPrinter) -> None:
    """Slow a link and publish until events have left it, and for a while after."""
    record = feeds.record
    watcher = next(one for one in record.subscribers if one.listener.name == WATCHER)
    overlay.shape(SLOWED, delay_s=SLOW_S)
    printer.step(f"the link from {SLOWED[0]} to {SLOWED[1]} now takes {SLOW_S * 1000:.0f} ms")
    began = monotonic()

    def rerouted() -> bool:
        return any(SLOWED[1] not in path for path in record.delays_by_path(watcher, "NYSE", "slow"))

    await feeds.publish("slow", REROUTE_S, until=rerouted)
    record.rerouted = rerouted()
    if record.rerouted:
        printer.step(f"events from {SLOWED[0]} to {watcher.listener.at} take another path, after "
                     f"{monotonic() - began:.1f} s", moved_s=round(monotonic() - began, 2))  # fmt: skip
    await feeds.publish("slow", seconds * 0.2)
    await feeds.confirmed(SETTLE_S)
    printer.paths("before", record.delays_by_path(watcher, "NYSE", "calm"))
    printer.paths("since", record.delays_by_path(watcher, "NYSE", "slow"))


async def _kill_a_broker(feeds: Feeds, overlay: LocalOverlay, seconds: float, printer: DemoPrinter) -> None:
    """Kill a broker that events pass through, and publish until it is back."""
    back = False
    crash = asyncio.create_task(feeds.publish("crash", 3 * SETTLE_S, until=lambda: back))
    try:
        await asyncio.sleep(seconds * 0.05)
        await overlay.brokers[KILLED].kill()
        printer.step(f"kill -9: {KILLED} is down, and the events in it are lost; the feeds go on")
        await asyncio.sleep(DOWN_S)
        await overlay.brokers[KILLED].start()
        await overlay.wait_linked()
        printer.step(f"{KILLED} is back, with the same data; clients reconnect and subscribe again by themselves")
        back = True
        await crash
    finally:
        crash.cancel()
        await asyncio.gather(crash, return_exceptions=True)


async def _settle(feeds: Feeds, phase: Phase) -> None:
    """Wait until all published events are confirmed, and every listener has the events due to it."""
    await feeds.confirmed(SETTLE_S)
    record = feeds.record
    await _until(lambda: all(record.settled(subscriber, phase) for subscriber in record.subscribers))


async def _all_reconnected(feeds: Feeds) -> None:
    """Publish events that match every filter until every listener has received one of them."""
    probes: set[Key] = set()

    def reconnected() -> bool:
        probes.add(feeds.publish_for_all("crash"))
        return all(subscriber.received.keys() & probes for subscriber in feeds.record.subscribers)

    await _until(reconnected)
    await feeds.confirmed(SETTLE_S)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true, at most SETTLE_S."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SETTLE_S
    while not condition() and loop.time() < until:  # noqa: ASYNC110 - the record has no notification
        await asyncio.sleep(0.03)


@asynccontextmanager
async def _subscriber(url: str, listener: Listener) -> AsyncIterator[Subscriber]:
    """Subscribe for one listener over its own connection."""
    async with (
        connect(url, name=listener.name, reconnect=RECONNECT) as client,
        client.subscribe(
            listener.filter, within=listener.within, durable=listener.durable, buffer=listener.buffer
        ) as subscription,
    ):
        subscriber = Subscriber(listener, subscription)
        tasks = [asyncio.create_task(_read_events(subscriber)), asyncio.create_task(_read_notices(subscriber))]
        try:
            yield subscriber
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _read_events(subscriber: Subscriber) -> None:
    async for event in subscriber.subscription:
        subscriber.receive(event)
        if subscriber.listener.pause_s:
            await asyncio.sleep(subscriber.listener.pause_s)


async def _read_notices(subscriber: Subscriber) -> None:
    async for notice in subscriber.subscription.notices():
        subscriber.receive_notice(notice)


@asynccontextmanager
async def _feeds(overlay: LocalOverlay, record: Record, seed: int, printer: DemoPrinter) -> AsyncIterator[Feeds]:
    """Connect and advertise for each exchange."""
    async with AsyncExitStack() as stack:
        clients = {}
        for exchange, city in FEEDS.items():
            name, url = f"{exchange.lower()}-feed", overlay.brokers[city].url
            client = await stack.enter_async_context(connect(url, name=name, reconnect=RECONNECT))
            await client.advertise(f"exchange == '{exchange}'")
            clients[exchange] = client
        feeds = Feeds(clients, record, seed, printer)
        try:
            yield feeds
        finally:
            await feeds.close()
