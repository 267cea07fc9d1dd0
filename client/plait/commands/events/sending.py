"""Publishes a stream of events, at a rate or as fast as the broker accepts them, and reports progress.

Confirmed publishes overlap, within a bound: one at a time would send one event in each round trip.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

import click

from ..connection.connecting import connected
from ..connection.membership import member
from ..terminal.failures import Failure

if TYPE_CHECKING:
    from plait_core import Attributes, EventId

    from ... import Client, Receipt, Seal
    from ...options.target import Target

UNCONFIRMED_MAX: Final = 1024
"""Publishes that wait for a confirmation at the same time: a quarter of a broker's limit for one client."""

QUIET_S: Final = 2.0
"""Publishing for longer than this prints progress."""

PROGRESS_EVERY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class PublishRequest:
    """The options of one `plait pub`."""

    payload: bytes
    ttl: float | None
    priority: int
    confirm: Literal["none", "broker", "subscribers"]
    rate: float | None
    total: int | None
    """Number of events, or None if it is not known."""
    seal: Path | None = None
    grant: str = "true"
    hidden: frozenset[str] | None = None
    """Hidden attributes of sealed events. None means all of them."""
    session: bool = True
    """Whether sealed events of equal values share a key."""


@dataclass(slots=True)
class Sent:
    """Result of one `plait pub`."""

    confirm: str
    published: int = 0
    confirmed: int = 0
    matched: int | None = None
    """Subscriptions that confirmed events matched, or None without confirmations."""
    first: EventId | None = None
    last: EventId | None = None
    seconds: float = 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "id": str(self.first) if self.published == 1 and self.first is not None else None,
            "published": self.published,
            "confirm": self.confirm,
            "confirmed": self.confirmed,
            "matched": self.matched,
            "first": str(self.first) if self.first else None,
            "last": str(self.last) if self.last else None,
            "seconds": round(self.seconds, 6),
        }

    def as_text(self) -> str:
        """Return the result with the id of the event, or the first and last ids, for `plait why`."""
        if self.published == 1 and self.first is not None:
            text = f"published {self.first}"
        else:
            between = f": {self.first} to {self.last}" if self.first is not None else ""
            text = f"published {self.published} events{between}"
        if self.matched is not None:
            by = "the broker" if self.confirm == "broker" else "subscribers"
            count = "" if self.published == self.confirmed == 1 else f"{self.confirmed} "
            text += f", {count}confirmed by {by}"
        if (
            self.matched is not None and self.confirm == "subscribers"
        ):  # the broker's count leaves out subscribers elsewhere
            text += f", {self.matched} deliver{'y' if self.matched == 1 else 'ies'}"
        return text


async def send(target: Target, events: AsyncIterator[Attributes], request: PublishRequest) -> Sent:
    """Publish all events and return the result. The first refusal ends it with an error."""
    sent = Sent(request.confirm, matched=None if request.confirm == "none" else 0)
    async with _seal(request) as seal, connected(target, "pub") as client:
        began = monotonic()
        progress = asyncio.create_task(_print_progress(sent, request.total, began))
        try:
            await _Sender(client, request, sent, seal).send_all(events)
            await client.flush(timeout=None)
            _check_refused(client.stats.refused)
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
async def _seal(request: PublishRequest) -> AsyncIterator[Seal | None]:
    """Open the keys to seal with, if the request names a folder."""
    if request.seal is None:
        yield None
        return
    from ... import Seal

    async with member(request.seal) as joined:
        yield Seal(await joined.publisher(request.grant), request.hidden, request.session)


def _check_refused(refused: int) -> None:
    """Raise Failure if the broker refused events. Its refusals have arrived, since they precede the flush's answer."""
    if refused:
        raise Failure(f"the broker refused {refused} events", hint="--confirm broker shows the reason of each")


class _Sender:
    """Publishes one stream of events."""

    def __init__(self, client: Client, request: PublishRequest, sent: Sent, seal: Seal | None) -> None:
        self._client = client
        self._request = request
        self._sent = sent
        self._seal = seal
        self._unconfirmed: set[asyncio.Task[Receipt]] = set()

    async def send_all(self, events: AsyncIterator[Attributes]) -> None:
        """Publish all events and wait for all confirmations."""
        began, rate = monotonic(), self._request.rate
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
        if self._request.confirm == "none":
            self._note(await self._publish(attributes))
            return
        while len(self._unconfirmed) >= UNCONFIRMED_MAX:
            await self._settle()
        self._unconfirmed.add(asyncio.create_task(self._publish(attributes)))
        self._sent.published += 1
        await asyncio.sleep(0)  # the task takes its sequence number before the next one does

    async def _publish(self, attributes: Attributes) -> Receipt:
        request = self._request
        return await self._client.publish(
            attributes,
            request.payload,
            ttl=request.ttl,
            priority=request.priority,
            confirm=request.confirm,
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


async def _print_progress(sent: Sent, total: int | None, began: float) -> None:
    """Print progress on stderr every second, after QUIET_S. At a terminal, one line is updated."""
    live, before = sys.stderr.isatty(), ""
    await asyncio.sleep(QUIET_S)
    while True:
        if sent.published == total:
            text = f"published {total}, waiting for {'subscribers' if sent.confirm == 'subscribers' else 'the broker'}"
        else:
            of = "" if total is None else f" of {total}"
            text = f"published {sent.published}{of}, {sent.published / (monotonic() - began):,.0f}/s"
        if text != before:
            click.echo(f"\r{text}\x1b[K" if live else text, err=True, nl=not live)
        before = text
        await asyncio.sleep(PROGRESS_EVERY_S)
