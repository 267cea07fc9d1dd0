"""Publishes a stream of events: at a rate or as fast as the broker takes them, with progress and a receipt at the end.

Confirmed publishes overlap, within a bound: waiting for one after the other would send one per round trip.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

import click

from ..connection.connecting import connected
from ..connection.membership import member
from ..terminal.failures import Failure

if TYPE_CHECKING:
    from plait_core import Attributes, EventId

    from ... import Client, Receipt, Seal
    from ..connection.addressing import Target
    from .pub import PublishOptions

UNCONFIRMED_MAX: Final = 1024
"""Publishes that wait for their confirmation at one time: a quarter of what a broker lets one client have."""

QUIET_S: Final = 2.0
"""How long publishing may take without a word."""

PROGRESS_EVERY_S: Final = 1.0


@dataclass(slots=True)
class Sent:
    """What became of it."""

    confirm: str
    published: int = 0
    confirmed: int = 0
    matched: int | None = None
    """Deliveries that confirmed events led to; None when no confirmation was asked for."""
    first: EventId | None = None
    last: EventId | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "published": self.published,
            "confirm": self.confirm,
            "confirmed": self.confirmed,
            "matched": self.matched,
            "first": str(self.first) if self.first else None,
            "last": str(self.last) if self.last else None,
            "seconds": round(self.seconds, 6),
        }

    def as_text(self) -> str:
        text = f"published {self.published} event{'' if self.published == 1 else 's'}"
        if self.matched is not None:
            by = "the broker" if self.confirm == "broker" else "subscribers"
            text += f", {self.confirmed} confirmed by {by}"
        if self.matched is not None and self.confirm == "subscribers":  # a broker knows only of its own subscribers
            text += f", {self.matched} deliver{'y' if self.matched == 1 else 'ies'}"
        return text


async def send(target: Target, events: AsyncIterator[Attributes], wanted: PublishOptions) -> Sent:
    """Publishes them all; what became of them. The first one that is refused ends it."""
    sent = Sent(wanted.confirm, matched=None if wanted.confirm == "none" else 0)
    async with _seal(wanted) as seal, connected(target, "pub") as client:
        began = monotonic()
        progress = asyncio.create_task(_tell_progress(sent, wanted.total, began))
        try:
            await _Sender(client, wanted, sent, seal).send_all(events)
            await client.flush(timeout=None)
            _check_taken(client.stats.refused)
        except BaseException:
            if sent.published:
                click.echo(f"ended after {sent.published} events", err=True)
            raise
        finally:
            sent.seconds = monotonic() - began
            progress.cancel()
            await asyncio.gather(progress, return_exceptions=True)
    return sent


@asynccontextmanager
async def _seal(wanted: PublishOptions) -> AsyncIterator[Seal | None]:
    """How to seal, if that is asked for."""
    if wanted.seal is None:
        yield None
        return
    from ... import Seal

    async with member(wanted.seal) as joined:
        yield Seal(await joined.publisher(wanted.grant), wanted.hidden)


def _check_taken(refused: int) -> None:
    """Nobody waited for single answers, but they have come: what was said before the flush was answered before it."""
    if refused:
        raise Failure(f"the broker refused {refused} of them", hint="--confirm broker says why, one by one")


class _Sender:
    """One stream of publishes."""

    def __init__(self, client: Client, wanted: PublishOptions, sent: Sent, seal: Seal | None) -> None:
        self._client = client
        self._wanted = wanted
        self._sent = sent
        self._seal = seal
        self._unconfirmed: set[asyncio.Task[Receipt]] = set()

    async def send_all(self, events: AsyncIterator[Attributes]) -> None:
        """All of them, and all confirmations."""
        began, rate = monotonic(), self._wanted.rate
        try:
            async for attributes in events:
                if rate is not None and (early_s := began + self._sent.published / rate - monotonic()) > 0:
                    await asyncio.sleep(early_s)
                await self._send(attributes)
            while self._unconfirmed:
                await self._settle()
        finally:
            for task in self._unconfirmed:
                task.cancel()
            await asyncio.gather(*self._unconfirmed, return_exceptions=True)

    async def _send(self, attributes: Attributes) -> None:
        if self._wanted.confirm == "none":
            self._note(await self._publish(attributes))
            return
        while len(self._unconfirmed) >= UNCONFIRMED_MAX:
            await self._settle()
        self._unconfirmed.add(asyncio.create_task(self._publish(attributes)))
        self._sent.published += 1
        await asyncio.sleep(0)  # it takes its sequence number now, before the next one does

    async def _publish(self, attributes: Attributes) -> Receipt:
        wanted = self._wanted
        return await self._client.publish(
            attributes,
            wanted.payload,
            ttl=wanted.ttl,
            priority=wanted.priority,
            confirm=wanted.confirm,
            seal=self._seal,
        )

    async def _settle(self) -> None:
        done, self._unconfirmed = await asyncio.wait(self._unconfirmed, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in done if (error := task.exception()) is not None]
        for task in done:
            if task.exception() is None:
                self._note(task.result())
        if errors:
            raise errors[0]

    def _note(self, receipt: Receipt) -> None:
        sent = self._sent
        if receipt.matched is None:
            sent.published += 1
        else:
            sent.confirmed += 1
            sent.matched = (sent.matched or 0) + receipt.matched
        sent.first = receipt.id if sent.first is None else min(sent.first, receipt.id)
        sent.last = receipt.id if sent.last is None else max(sent.last, receipt.id)


async def _tell_progress(sent: Sent, total: int | None, began: float) -> None:
    """Once a second on stderr, from the third second on; a terminal gets one line that changes."""
    live = sys.stderr.isatty()
    await asyncio.sleep(QUIET_S)
    while True:
        if sent.published == total:
            text = f"published {total}, waiting for the broker"
        else:
            of = "" if total is None else f" of {total}"
            text = f"published {sent.published}{of}, {sent.published / (monotonic() - began):,.0f}/s"
        click.echo(f"\r{text}\x1b[K" if live else text, err=True, nl=not live)
        await asyncio.sleep(PROGRESS_EVERY_S)
