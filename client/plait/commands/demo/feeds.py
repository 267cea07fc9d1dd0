"""Publishers of the demo: one feed for each exchange. The broker confirms every quote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Final

from ...errors import Error
from .quotes import quotes
from .record import Key, Phase, Published, Record, key_of

if TYPE_CHECKING:
    from plait_core import Attributes

    from ... import Client
    from .printing import DemoPrinter

QUOTES_PER_S: Final = 60.0
"""Quotes that each feed publishes in a second."""
SHOWN_EVERY_S: Final = 1.0
"""Interval between two quotes whose deliveries are printed."""
TALLY_EVERY_S: Final = 2.0
MATCHING_ALL: Final[Attributes] = {
    "symbol": "IBM", "sector": "tech", "exchange": "NYSE", "price": 100.0, "volume": 1000, "halted": True,
}  # fmt: skip


class Feeds:
    """The feeds, and the record that they fill."""

    def __init__(self, clients: dict[str, Client], record: Record, seed: int, printer: DemoPrinter) -> None:
        """`clients` has a connection for each exchange."""
        self.record = record
        self._clients = clients
        self._quotes = {exchange: quotes(seed + number, exchange) for number, exchange in enumerate(clients)}
        self._printer = printer
        self._publishing: set[asyncio.Task[None]] = set()
        self._probes = 0

    async def publish(self, phase: Phase, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Publish for some seconds, or until a condition is true."""
        began = monotonic()
        next_shown, next_tally = began + 0.2, began + TALLY_EVERY_S
        sent = 0
        while (now := monotonic()) < began + seconds and not until():
            for number, exchange in enumerate(self._clients):
                shown = phase == "calm" and now >= next_shown and sent % len(self._clients) == number
                if shown:
                    next_shown = now + SHOWN_EVERY_S
                self._start(exchange, next(self._quotes[exchange]), phase, shown)
            if now >= next_tally:
                next_tally = now + TALLY_EVERY_S
                self._printer.tally(self.record)
            sent += 1
            await asyncio.sleep(max(0.0, began + sent / QUOTES_PER_S - monotonic()))

    def publish_for_all(self, phase: Phase) -> Key:
        """Publish an event that matches every listener's filter. Return its key."""
        self._probes -= 1
        attributes = {**MATCHING_ALL, "quote": self._probes}
        self._start("NYSE", attributes, phase, shown=False)
        return key_of(attributes)

    async def confirmed(self, timeout_s: float) -> None:
        """Wait until all published events are confirmed."""
        if self._publishing:
            await asyncio.wait(self._publishing, timeout=timeout_s)

    async def close(self) -> None:
        """Cancel the publishes that are not confirmed yet."""
        for task in self._publishing:
            task.cancel()
        await asyncio.gather(*self._publishing, return_exceptions=True)

    def _start(self, exchange: str, attributes: Attributes, phase: Phase, shown: bool) -> None:
        event = self.record.published[key_of(attributes)] = Published(attributes, phase, monotonic())
        task = asyncio.create_task(self._publish(exchange, event, shown))
        self._publishing.add(task)
        task.add_done_callback(self._publishing.discard)

    async def _publish(self, exchange: str, event: Published, shown: bool) -> None:
        try:
            receipt = await self._clients[exchange].publish(event.attributes, confirm="broker")
        except Error:
            return  # it stays unconfirmed in the record: it may or may not have been delivered
        event.confirmed = True
        if shown:
            await asyncio.sleep(0.05)  # enough to reach every listener that is not slow
            self._printer.deliveries(exchange, str(receipt.id), event.attributes, self.record)
