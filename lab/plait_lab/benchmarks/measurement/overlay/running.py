"""An overlay of real broker processes, some of its links through relays, and traffic across it.

A publisher at one end publishes at a fixed rate. A subscriber at the other records when each event arrives and by which
path.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import plait
from plait.commands.brokers.local_overlay import BrokerOptions, Link, LocalOverlay
from plait.commands.brokers.topologies import Graph
from plait.commands.terminal.failures import Failure

from ....failures import NothingMeasured

TIMEOUT_S: Final = 30.0
"""Time for sent events to arrive."""

RATE: Final = 500
"""Events a second: gaps of tens of milliseconds are measured."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An event's arrival."""

    at: float
    number: int
    path: tuple[str, ...]


@asynccontextmanager
async def linked_overlay(graph: Graph, home: Path, relayed: Sequence[Link] = ()) -> AsyncIterator[LocalOverlay]:
    """Run the brokers of a graph. The later end of a link dials the earlier, through a relay if it is in `relayed`."""
    options = BrokerOptions(arguments=("--log-level", "warning"), logs=home, own_settings=True)
    async with LocalOverlay(graph, options, relayed=dict.fromkeys(relayed, 0.0), both_dial=False) as overlay:
        try:
            await overlay.wait_linked()
        except Failure as failure:
            raise NothingMeasured(failure.message) from None
        yield overlay


class Traffic:
    """Paced events from one broker to another."""

    def __init__(self) -> None:
        self.sent = 0
        self.seen: list[Seen] = []
        self.stopped = False
        self._arrived = asyncio.Event()

    async def publish(self, client: plait.Client) -> None:
        """Publish at the pace until stopped."""
        began = time.monotonic()
        while not self.stopped:
            await client.publish({"number": self.sent, "price": 1.5, "symbol": "IBM"}, bytes(64))
            self.sent += 1
            await asyncio.sleep(max(0.0, began + self.sent / RATE - time.monotonic()))

    async def receive(self, events: plait.Subscription[plait.Event]) -> None:
        """Record arriving events."""
        async for event in events:
            self.seen.append(Seen(time.monotonic(), int(str(event["number"])), tuple(event.path)))
            self._arrived.set()

    async def until(self, condition: Callable[[], bool], timeout_s: float = TIMEOUT_S) -> bool:
        """Return whether a condition holds after some arrival within a time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            return condition()
        return True

    async def settle(self, path: Sequence[str]) -> None:
        """Wait until events take this path."""
        if not await self.until(lambda: bool(self.seen) and self.seen[-1].path == tuple(path)):
            last = "-".join(self.seen[-1].path) if self.seen else "no path"
            raise NothingMeasured(f"events do not go by {'-'.join(path)} but by {last}")

    async def stop(self) -> None:
        """Stop publishing and wait until all events have arrived."""
        self.stopped = True
        await self.until(lambda: len(self.seen) >= self.sent)

    @property
    def missing_or_wrong(self) -> int:
        """The number of events that did not arrive once and in order."""
        wrong = sum(seen.number != number for number, seen in enumerate(self.seen))
        return wrong + abs(self.sent - len(self.seen))


@asynccontextmanager
async def traffic(overlay: LocalOverlay, source: str, sink: str) -> AsyncIterator[Traffic]:
    """Events from a client of one broker to a client of another."""
    flow = Traffic()
    from_url, to_url = overlay.brokers[source].url, overlay.brokers[sink].url
    async with (
        plait.connect(to_url) as receiver,
        receiver.subscribe("price < 2") as events,
        plait.connect(from_url) as sender,
    ):
        tasks = [asyncio.create_task(flow.receive(events)), asyncio.create_task(flow.publish(sender))]
        try:
            yield flow
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
