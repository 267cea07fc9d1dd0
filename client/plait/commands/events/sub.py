"""`plait sub`: prints the events of a subscription on stdout, and notices on stderr."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..connection.addressing import find_target, url_option
from ..connection.membership import FOLDER, member
from ..terminal.durations import DURATION, SECONDS
from ..terminal.failures import FAILED
from ..terminal.output import json_option
from .filter import SUBSCRIBABLE
from .start import START, Start

if TYPE_CHECKING:
    from plait_core import Filter

    from ...options.target import Target


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """The options of one `plait sub`."""

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
    reveal: tuple[str, ...]
    deposit: Literal["exact", "coarse", "nothing"]


@click.command(epilog="\b\nExample: plait sub \"symbol == 'IBM' and price < 120\" --within 50ms --json")
@click.argument("expression", metavar="FILTER", type=SUBSCRIBABLE)
@click.option("--within", type=DURATION, metavar="TIME", help="Delay bound, like 50ms.")
@click.option("--late", type=click.Choice(["drop", "flag"]), default="drop", show_default=True,
              help="What becomes of later events: not delivered, or delivered with a notice.")  # fmt: skip
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after N events.")
@click.option("--wait", type=SECONDS, metavar="S", help="End after S seconds, with exit code 1 if fewer than --count "
              "(else 1) events arrived.")  # fmt: skip
@click.option(
    "--durable", metavar="NAME", help="Name of a durable subscription: the broker stores its events while you are away."
)
@click.option("--start", type=START, metavar="WHERE", default="new", show_default=True,
              help="Where a new durable subscription begins: new, all, a time (2026-01-31T09:30) or a log "
              "position.")  # fmt: skip
@click.option("--ack", type=click.Choice(["auto", "manual"]), default="auto", show_default=True,
              help="auto: printed events are acknowledged. manual: none are, so a durable subscription's cursor "
              "does not move.")  # fmt: skip
@click.option("--unseal", type=FOLDER, metavar="FOLDER", help="Open sealed events that match FILTER with the keys in a "
              "member's folder (`plait keys join`).")  # fmt: skip
@click.option("--reveal", multiple=True, metavar="NAME", help="With --unseal: let brokers see the conditions on an "
              "attribute, to send fewer events. May be repeated.")  # fmt: skip
@click.option("--deposit", type=click.Choice(["exact", "coarse", "nothing"]), default="exact", show_default=True,
              help="With --unseal: the tokens by which brokers test sealed events. coarse: they match more, if the "
              "policy allows it. nothing: brokers send all events of the realm.")  # fmt: skip
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
    reveal: tuple[str, ...],
    deposit: Literal["exact", "coarse", "nothing"],
    url: str | None,
    as_json: bool,
) -> None:
    """Subscribe: print the events that match a filter.

    Prints `subscribed` on stderr when the subscription is installed: events published from then on arrive. Then one
    event a line; with --json an object with id, publisher, seq, attributes, payload, delay_ms, hops and path, where a
    payload that is no text is {"base64": ...}. Prints gaps, late events and new paths on stderr.
    """
    if start != "new" and durable is None:
        raise click.UsageError("--start needs --durable NAME: only durable subscriptions have stored events.")
    if unseal is None and (reveal or deposit != "exact"):
        raise click.UsageError("--reveal and --deposit need --unseal FOLDER.")
    from ..terminal.running import run_async

    request = SubscribeRequest(
        expression, within, late, count, wait, durable, start, ack == "auto", as_json, unseal, reveal, deposit
    )
    if not run_async(_sub(find_target(url), request)):
        ctx.exit(FAILED)


async def _sub(target: Target, request: SubscribeRequest) -> bool:
    """Print events. Return whether the requested number arrived."""
    import asyncio

    from ..connection.connecting import connected
    from .event_printer import printer_of

    async with (
        _reader(request) as reader,
        connected(target, "sub") as client,
        client.subscribe(
            request.filter,
            within=request.within,
            late=request.late,
            durable=request.durable,
            start=request.start,
            ack="manual",
            unseal=reader,
            reveal=request.reveal,
            deposit=request.deposit,
        ) as subscription,
    ):
        click.echo("subscribed", err=True)
        async with printer_of(subscription, as_json=request.as_json, acknowledge=request.acknowledge) as printer:
            try:
                async with asyncio.timeout(request.wait) as time:
                    await printer.print_all(request.count)
            except TimeoutError:
                if not time.expired():
                    raise
        return printer.printed >= (request.count or 1 if request.wait else request.count or 0)


@asynccontextmanager
async def _reader(request: SubscribeRequest) -> AsyncIterator[Any]:
    """Open the keys that unseal events, if the request names a folder."""
    if request.unseal is None:
        yield None
        return
    async with member(request.unseal) as joined:
        yield await joined.subscriber(request.filter)
