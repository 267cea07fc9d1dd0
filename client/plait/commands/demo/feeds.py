"""Who publishes in the demo: one feed for each exchange, every quote confirmed by the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from ...errors import Error
from .quotes import quotes
from .record import Act, Key, Published, Record, key_of

if TYPE_CHECKING:
    from plait_core import Attributes

    from ... import Client
    from .telling import Telling

QUOTES_S: Final = 60.0
"""Of each feed, per second."""
SHOWN_EVERY_S: Final = 1.0
"""Between two quotes whose way is shown."""
TALLY_EVERY_S: Final = 2.0
WANTED_BY_ALL: Final[Attributes] = {
    "symbol": "IBM", "sector": "tech", "exchange": "NYSE", "price": 100.0, "volume": 1000, "halted": True,
}  # fmt: skip


class Feeds:
    """The feeds, and the books that they fill."""

    def __init__(self, clients: dict[str, Client], record: Record, seed: int, telling: Telling) -> None:
        """`clients`: by exchange."""
        self.record = record
        self._clients = clients
        self._quotes = {exchange: quotes(seed + number, exchange) for number, exchange in enumerate(clients)}
        self._telling = telling
        self._publishing: set[asyncio.Task[None]] = set()
        self._probes = 0

    async def publish(self, act: Act, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Publish for so long, or until something is so."""
        began = monotonic()
        next_shown, next_tally = began + 0.2, began + TALLY_EVERY_S
        sent = 0
        while (now := monotonic()) < began + seconds and not until():
            for number, exchange in enumerate(self._clients):
                shown = act == "calm" and now >= next_shown and sent % len(self._clients) == number
                if shown:
                    next_shown = now + SHOWN_EVERY_S
                self._start(exchange, next(self._quotes[exchange]), act, shown)
            if now >= next_tally:
                next_tally = now + TALLY_EVERY_S
                self._telling.tally(self.record)
            sent += 1
            await asyncio.sleep(max(0.0, began + sent / QUOTES_S - monotonic()))

    def publish_for_all(self, act: Act) -> Key:
        """Publish something that every listener wants; its key."""
        self._probes -= 1
        attributes = {**WANTED_BY_ALL, "quote": self._probes}
        self._start("NYSE", attributes, act, shown=False)
        return key_of(attributes)

    async def confirmed(self, timeout_s: float) -> None:
        """Wait until all is confirmed."""
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=timeout_s)

    async def close(self) -> None:
        """Wait for nothing any more."""
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)

    def _start(self, exchange: str, attributes: Attributes, act: Act, shown: bool) -> None:
        event = self.record.published[key_of(attributes)] = Published(attributes, act, monotonic())
        task = asyncio.create_task(self._publish(exchange, event, shown))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, exchange: str, event: Published, shown: bool) -> None:
        try:
            receipt = await self._clients[exchange].publish(event.attributes, confirm="broker")
        except Error:
            return  # nobody knows what became of it, and the books say so
        event.confirmed = True
        if shown:
            await asyncio.sleep(0.05)  # by then it has arrived where nobody is slow
            self._telling.journey(exchange, str(receipt.id), event.attributes, self.record)
