"""`plait adv`: holds an advertisement, and prints whether any subscription matches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..connection.addressing import find_target, url_option
from ..terminal.output import json_option, print_json
from .filter import SUBSCRIBABLE

if TYPE_CHECKING:
    from plait_core import Filter

    from ...options.target import Target


@click.command(epilog="\b\nExample: plait adv \"symbol == 'IBM'\" --rate 100")
@click.argument("expression", metavar="FILTER", type=SUBSCRIBABLE)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Expected rate in events a second.")
@url_option
@json_option
def adv(expression: Filter, rate: float | None, url: str | None, as_json: bool) -> None:
    """Advertise a filter, and show whether any subscription matches it.

    Prints `advertised` on stderr once all brokers know the advertisement. Then prints whether any subscription matches,
    now and at every change. Withdraws it at Ctrl-C.
    """
    from ..terminal.running import run_async

    run_async(_adv(find_target(url), expression, rate, as_json))


async def _adv(target: Target, expression: Filter, rate: float | None, as_json: bool) -> None:
    from ..connection.connecting import connected

    async with connected(target, "adv") as client, client.advertise(expression, rate=rate) as advertisement:
        click.echo("advertised", err=True)
        async for matching in advertisement.matching_changes():
            if as_json:
                print_json({"matching": matching})
            else:
                click.echo("subscribers match" if matching else "no subscriber matches")
