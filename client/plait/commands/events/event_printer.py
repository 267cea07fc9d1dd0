"""Prints the events of a subscription on stdout, and its notices on stderr, for `plait sub` and `plait peer`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from .event_lines import event_json, event_text
from .notice_lines import print_notices

if TYPE_CHECKING:
    from ... import Event, Subscription

FLUSH_EVERY: Final = 512
"""Lines that may wait to be flushed, and their events to be acknowledged, while more events arrive."""


class EventPrinter:
    """Prints events and acknowledges them once they are flushed."""

    def __init__(self, subscription: Subscription[Event], *, as_json: bool, acknowledge: bool = True) -> None:
        self.printed = 0
        self._subscription = subscription
        self._line = event_json if as_json else event_text
        self._acknowledge = acknowledge
        self._waiting: list[Event] = []

    async def print_all(self, count: int | None = None) -> None:
        """Print events, until `count` have been printed."""
        async for event in self._subscription:
            sys.stdout.write(self._line(event) + "\n")
            self.printed += 1
            self._waiting.append(event)
            if len(self._waiting) >= FLUSH_EVERY or not self._subscription.stats.pending:
                self.flush()
            if self.printed == count:
                return

    def flush(self) -> None:
        """Flush stdout, then acknowledge the printed events."""
        sys.stdout.flush()
        if self._acknowledge:
            for event in self._waiting:
                event.ack()
        self._waiting.clear()


@asynccontextmanager
async def printer_of(
    subscription: Subscription[Event], *, as_json: bool, acknowledge: bool = True
) -> AsyncIterator[EventPrinter]:
    """Print notices of a subscription until the end, and flush the printed events then."""
    notices = asyncio.create_task(print_notices(subscription))
    printer = EventPrinter(subscription, as_json=as_json, acknowledge=acknowledge)
    try:
        yield printer
    finally:
        printer.flush()
        notices.cancel()
        await asyncio.gather(notices, return_exceptions=True)
