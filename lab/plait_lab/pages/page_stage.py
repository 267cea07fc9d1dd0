"""The stage for the live page: an overlay with links of different delays, publishers of quotes, and subscribers.

The broker whose page is shown is a process, so that its cost can be measured; the other brokers share this process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

import plait
from plait.commands.brokers.local_broker import LocalBroker
from plait.commands.brokers.local_overlay import BrokerOptions, LocalOverlay
from plait.commands.brokers.topologies import Graph, edges
from plait.relay.relay import Relay
from plait.relay.shaping import Shape
from plait_broker.server.config.configuration import parse_configuration
from plait_broker.server.server import BrokerServer

NAMES: Final = ("north", "east", "south", "west", "harbour", "mill", "quay", "hill")
SYMBOLS: Final = ("AAPL", "IBM", "MSFT", "SAP", "TSLA")

SUBSCRIBERS: Final[Sequence[tuple[str, str, dict[str, Any]]]] = (
    ("ibm-desk", "symbol == 'IBM'", {"within": 0.250}),
    ("alerts", "price > 140", {"within": 0.020, "late": "flag"}),
    ("value-fund", "symbol in ['MSFT', 'SAP'] and price < 110", {"within": 0.500}),
    ("value-fund-deep", "symbol == 'SAP' and price < 100", {}),
    ("tape-recorder", "venue == 'NYSE'", {}),
    ("ibm-high", "symbol == 'IBM' and price > 130", {"within": 0.100}),
    ("tsla-desk", "symbol == 'TSLA'", {}),
)
"""Subscribers: name, filter and terms."""

DELAYS_S: Final = (0.0, 0.0004, 0.002, 0.006, 0.018, 0.045)
"""Delays of links, one after the other."""

FEEDS: Final = 3


class PageStage:
    """Runs the overlay, its publishers and its subscribers."""

    def __init__(self, brokers: int, *, events_per_s: float = 60.0, topology: str = "", http: int = 0) -> None:
        """`http` is the port of the page; 0 for any free one."""
        assert brokers > 1, "a page of one broker needs no stage"
        self._count = brokers
        self._rate = events_per_s / FEEDS
        self._topology = topology or ("braid" if brokers <= len(NAMES) else "random")
        self._running = AsyncExitStack()
        self._actors: list[asyncio.Task[None]] = []
        self._relays: list[Relay] = []
        self.watched = LocalBroker()
        self._http = http
        self._ports: list[int] = []

    @property
    def page(self) -> str:
        """Return the address of the page."""
        return f"http://{self.watched.http}/"

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._running.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in self._actors:
            actor.cancel()
        await asyncio.gather(*self._actors, return_exceptions=True)
        await self._running.aclose()

    def cut(self, link: int) -> None:
        """Cut a link."""
        self._relays[link].cut()

    def mend(self, link: int) -> None:
        """Restore a link."""
        self._relays[link].mend()

    async def _start(self) -> None:
        last = self._count - 1
        links = [(near, far) for near, far in edges(self._topology, self._count)]
        for number in range(last):
            lines = [f'name = "{self._name(number)}"', 'listen = "127.0.0.1:0"', 'http = "off"']
            dialled = [await self._relayed(near) for near, far in links if far == number]
            if dialled:
                lines += ["[overlay]", f"links = {dialled}".replace("'", '"')]
            server = BrokerServer(parse_configuration("\n".join(lines).encode()))
            await self._running.enter_async_context(server)
            self._ports.append(server.port)
        options = [part for near, far in links if far == last for part in ("--link", await self._relayed(near))]
        settings = BrokerOptions(arguments=("--log-level", "error", *options))
        process = LocalOverlay(Graph([self._name(last)], []), settings, http=f"127.0.0.1:{self._http}")
        await self._running.enter_async_context(process)
        self.watched = process.brokers[self._name(last)]
        self._ports.append(int(self.watched.listen.rpartition(":")[2]))
        loop = asyncio.get_running_loop()
        for at, (name, filter, terms) in enumerate(SUBSCRIBERS):
            self._actors.append(loop.create_task(self._listen(self._ports[at % self._count], name, filter, terms)))
        for feed in range(FEEDS):
            self._actors.append(loop.create_task(self._feed(self._ports[(feed * 2) % self._count], feed)))

    def _name(self, number: int) -> str:
        at = (number + 1) % self._count  # the watched broker gets the first name
        return NAMES[at] if self._count <= len(NAMES) else f"b{at + 1:02d}"

    async def _relayed(self, to: int) -> str:
        delay = Shape(delay_s=DELAYS_S[len(self._relays) % len(DELAYS_S)])
        relay = Relay(f"127.0.0.1:{self._ports[to]}", forth=delay, back=delay)
        await self._running.enter_async_context(relay)
        self._relays.append(relay)
        return relay.listen

    async def _listen(self, port: int, name: str, filter: str, terms: dict[str, Any]) -> None:
        url = f"plait://127.0.0.1:{port}"
        async with plait.connect(url, name=name) as client, client.subscribe(filter, **terms) as quotes:
            async for _ in quotes:
                pass

    async def _feed(self, port: int, number: int) -> None:
        drawn = random.Random(number)
        events = quotes_of(drawn)
        async with (
            plait.connect(f"plait://127.0.0.1:{port}", name=f"feed-{number + 1}") as client,
            client.advertise("has(symbol) and price > 0"),
        ):
            while True:
                await client.publish(next(events))
                await asyncio.sleep(drawn.expovariate(self._rate))


def quotes_of(drawn: random.Random) -> Iterator[dict[str, Any]]:
    """Yield quotes endlessly."""
    while True:
        price = round(drawn.gauss(120, 15), 2)
        venue = drawn.choice(["NYSE", "XETRA"])
        yield {"symbol": drawn.choice(SYMBOLS), "price": price, "venue": venue, "halted": False}
