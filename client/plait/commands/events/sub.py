"""`plait sub`: a subscription at the prompt. Events go to stdout, everything about them to stderr."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from ..connection.addressing import Target, find_target, url_option
from ..connection.membership import FOLDER, member
from ..terminal.durations import DURATION
from ..terminal.failures import FAILED
from ..terminal.output import json_option
from .filter import FILTER
from .start import START, Start

if TYPE_CHECKING:
    from plait_core import Filter

    from ... import Event, Subscription

FLUSH_EVERY: Final = 512
"""Lines that may wait to be written, and to be acknowledged, while more events are coming in."""


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """What was asked for."""

    filter: Filter
    within: float | None
    late: Literal["flag", "drop"]
    count: int | None
    wait: float | None
    durable: str | None
    start: Start
    acknowledge: bool
    as_json: bool
    unseal: Path | None


@click.command(epilog="\b\nExample: plait sub \"symbol == 'IBM' and price < 120\" --within 50ms --json")
@click.argument("expression", metavar="FILTER", type=FILTER)
@click.option("--within", type=DURATION, metavar="TIME", help="The delay you tolerate, like 50ms.")
@click.option("--late", type=click.Choice(["drop", "flag"]), default="drop", show_default=True,
              help="What is later than that: not delivered, or delivered and told.")  # fmt: skip
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N events.")
@click.option("--wait", type=DURATION, metavar="S", help="End after S seconds, with exit code 1 if --count (else 1) "
              "did not come.")  # fmt: skip
@click.option("--durable", metavar="NAME", help="The broker keeps your place under this name while you are away.")
@click.option("--start", type=START, metavar="WHERE", default="new", show_default=True,
              help="Where a new durable subscription begins: new, all, a time (2026-01-31T09:30) or a log "
              "position.")  # fmt: skip
@click.option("--ack", type=click.Choice(["auto", "manual"]), default="auto", show_default=True,
              help="auto: what was printed is acknowledged. manual: nothing is, so a durable subscription's place "
              "does not move.")  # fmt: skip
@click.option("--unseal", type=FOLDER, metavar="FOLDER", help="Open sealed events with the keys of the member whose "
              "folder it is (`plait keys join`): those that FILTER asks for.")  # fmt: skip
@url_option
@json_option
@click.pass_context
def sub(
    ctx: click.Context,
    expression: Filter,
    within: float | None,
    late: Literal["drop", "flag"],
    count: int | None,
    wait: float | None,
    durable: str | None,
    start: Start,
    ack: str,
    unseal: Path | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Subscribe: print the events that match a filter.

    Says `subscribed` on stderr when the subscription is installed: what is published from then on arrives. Then one
    event a line; with --json an object with id, publisher, seq, attributes, payload, delay_ms, hops and path, where a
    payload that is no text is {"base64": ...}. Gaps, late events and re-routes are told on stderr.
    """
    if start != "new" and durable is None:
        raise click.UsageError("--start needs --durable NAME: only durable subscriptions have a past.")
    from ..terminal.running import run

    wanted = SubscribeOptions(expression, within, late, count, wait, durable, start, ack == "auto", as_json, unseal)
    if not run(_sub(find_target(url), wanted)):
        ctx.exit(FAILED)


async def _sub(target: Target, wanted: SubscribeOptions) -> bool:
    """Whether as many came as were wanted."""
    import asyncio

    from ..connection.connecting import connected
    from .notice_lines import tell_notices

    async with (
        _ring(wanted) as ring,
        connected(target, "sub") as client,
        client.subscribe(
            wanted.filter,
            within=wanted.within,
            late=wanted.late,
            durable=wanted.durable,
            start=wanted.start,
            ack="manual",
            unseal=ring,
        ) as subscription,
    ):
        click.echo("subscribed", err=True)
        telling = asyncio.create_task(tell_notices(subscription))
        printer = _Printer(subscription, wanted)
        try:
            async with asyncio.timeout(wanted.wait) as time:
                await printer.print_all()
        except TimeoutError:
            if not time.expired():
                raise
        finally:
            printer.flush()
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        return printer.printed >= (wanted.count or 1 if wanted.wait else wanted.count or 0)


@asynccontextmanager
async def _ring(wanted: SubscribeOptions) -> AsyncIterator[Any]:
    """What opens sealed events, if they are to be opened."""
    if wanted.unseal is None:
        yield None
        return
    async with member(wanted.unseal) as joined:
        yield await joined.subscriber(wanted.filter)


class _Printer:
    """Prints events, and acknowledges them once they are written."""

    def __init__(self, subscription: Subscription[Event], wanted: SubscribeOptions) -> None:
        from .event_lines import event_json, event_text

        self.printed = 0
        self._subscription = subscription
        self._line = event_json if wanted.as_json else event_text
        self._count = wanted.count
        self._acknowledge = wanted.acknowledge
        self._waiting: list[Event] = []

    async def print_all(self) -> None:
        """All that come, or as many as are wanted."""
        async for event in self._subscription:
            sys.stdout.write(self._line(event) + "\n")
            self.printed += 1
            self._waiting.append(event)
            if len(self._waiting) >= FLUSH_EVERY or not self._subscription.stats.pending:
                self.flush()
            if self.printed == self._count:
                return

    def flush(self) -> None:
        """What was printed is out now, and so dealt with."""
        sys.stdout.flush()
        if self._acknowledge:
            for event in self._waiting:
                event.ack()
        self._waiting.clear()
