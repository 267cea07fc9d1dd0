"""An overlay of real broker processes, some of its links through relays, with a publisher at one end who keeps a pace
and a subscriber at the other who notes when each event comes and by which way.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import plait
from plait.commands.brokers.local_broker import LocalBroker
from plait.relay.relay import Relay

from ...failures import NothingMeasured

PATIENCE_S: Final = 30.0
"""For brokers to find each other, and for what was sent to arrive."""

RATE: Final = 500
"""Events a second: what is measured are gaps of tens of milliseconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An event has arrived."""

    at: float
    number: int
    path: tuple[str, ...]


class Brokers:
    """Broker processes, by name. Each link is dialled by one of its ends."""

    def __init__(self, links: Sequence[tuple[str, str]], home: Path, relayed: Sequence[tuple[str, str]] = ()) -> None:
        """`links` as (who dials, who is dialled), the dialled one first in the alphabet; `relayed` are some of them."""
        assert all(far < near for near, far in links), "who is dialled is started first"
        self.relays: dict[tuple[str, str], Relay] = {}
        self.processes: dict[str, LocalBroker] = {}
        self._links = links
        self._relayed = relayed
        self._home = home
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            for name in sorted({name for link in self._links for name in link}):
                await self._start(name)
            await self.wait("all brokers see all links", self._whole)
        except BaseException:
            await self._running.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._running.aclose()

    async def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Until something is so; it is asked for in a thread, and may take its time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not await asyncio.to_thread(ready):  # noqa: ASYNC110 - HTTP tells nobody
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise NothingMeasured(f"{what}: not within {PATIENCE_S:g} s") from None

    async def _start(self, name: str) -> None:
        options: list[str] = []
        for near, far in self._links:
            if near == name:
                options += ["--link", await self._door(near, far)]
        log = self._running.enter_context((self._home / f"{name}.log").open("wb"))
        broker = LocalBroker("--name", name, "--log-level", "warning", *options, log=log, own_settings=True)
        self._running.push_async_callback(broker.kill)
        await broker.start()
        self.processes[name] = broker

    async def _door(self, near: str, far: str) -> str:
        listen = self.processes[far].listen
        if (near, far) not in self._relayed:
            return listen
        relay = self.relays[near, far] = await self._running.enter_async_context(Relay(listen))
        return relay.listen

    def _whole(self) -> bool:
        return all(self._sees_all(broker) for broker in self.processes.values())

    def _sees_all(self, broker: LocalBroker) -> bool:
        with urllib.request.urlopen(f"http://{broker.http}/api/v1/topology", timeout=PATIENCE_S) as answer:
            topology: dict[str, Any] = json.load(answer)
        return len(topology["links"]) == 2 * len(self._links)


class Traffic:
    """Events from one broker to another, at a pace."""

    def __init__(self) -> None:
        self.sent = 0
        self.seen: list[Seen] = []
        self.stopped = False
        self._arrived = asyncio.Event()

    async def publish(self, client: plait.Client) -> None:
        """Until it is stopped."""
        began = time.monotonic()
        while not self.stopped:
            await client.publish({"number": self.sent, "price": 1.5, "symbol": "IBM"}, bytes(64))
            self.sent += 1
            await asyncio.sleep(max(0.0, began + self.sent / RATE - time.monotonic()))

    async def hear(self, events: plait.Subscription[plait.Event]) -> None:
        """For ever."""
        async for event in events:
            self.seen.append(Seen(time.monotonic(), int(str(event["number"])), tuple(event.path)))
            self._arrived.set()

    async def until(self, so: Callable[[], bool], patience_s: float = PATIENCE_S) -> bool:
        """Whether something is so after some arrival, within this time."""
        try:
            async with asyncio.timeout(patience_s):
                while not so():
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return so()
        return True

    async def settle(self, path: Sequence[str]) -> None:
        """Until events go by this way."""
        if not await self.until(lambda: bool(self.seen) and self.seen[-1].path == tuple(path)):
            last = "-".join(self.seen[-1].path) if self.seen else "no path"
            raise NothingMeasured(f"events do not go by {'-'.join(path)} but by {last}")

    async def stop(self) -> None:
        """No more events; and wait until all have come."""
        self.stopped = True
        await self.until(lambda: len(self.seen) >= self.sent)

    @property
    def missing_or_wrong(self) -> int:
        """Events that did not come once and in order."""
        wrong = sum(seen.number != number for number, seen in enumerate(self.seen))
        return wrong + abs(self.sent - len(self.seen))


@asynccontextmanager
async def traffic(brokers: Brokers, source: str, sink: str) -> AsyncIterator[Traffic]:
    """Events from a client of one broker to a client of another."""
    flow = Traffic()
    from_url, to_url = brokers.processes[source].url, brokers.processes[sink].url
    async with plait.connect(to_url) as hears, hears.subscribe("price < 2") as events, plait.connect(from_url) as says:
        tasks = [asyncio.create_task(flow.hear(events)), asyncio.create_task(flow.publish(says))]
        try:
            yield flow
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
