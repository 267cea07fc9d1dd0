"""`plait trace`: publishes one event whose every step is told, and prints them as they come."""

from __future__ import annotations

import os
from typing import Any

import click

from ..connection.addressing import find_target, url_option
from ..events.attributes import parse_pairs
from ..terminal.durations import DURATION
from ..terminal.failures import FAILED
from ..terminal.output import json_option, print_json, printable


@click.command(epilog="\b\nExample: plait trace symbol=IBM price=99.5 --ttl 2s")
@click.argument("pairs", nargs=-1, metavar="NAME=VALUE...", required=True)
@click.option("--payload", metavar="TEXT", default="", help="What rides along, opaque to brokers.")
@click.option("--ttl", type=DURATION, metavar="TIME", help="How long it is worth delivering, like 2s.")
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help="9 goes first.")
@click.option("--wait", "wait_s", type=DURATION, metavar="TIME", default=5.0, show_default="5s",
              help="For all brokers that it is for to tell what became of it.")  # fmt: skip
@url_option
@json_option
@click.pass_context
def trace(
    ctx: click.Context,
    pairs: tuple[str, ...],
    payload: str,
    ttl: float | None,
    priority: int,
    wait_s: float,
    url: str | None,
    as_json: bool,
) -> None:
    """Publish a marked event and show every step that it takes.

    It is a real event, and is delivered. Each broker tells when it came, how long matching took, for whom it is, to
    which neighbour it was handed over which link, and whether it was delivered, waits or was dropped, and why. A step
    comes below the one that led to it; what happens once more, as when a copy is sent again, says "again". Exit code 1
    when someone has not told in time.
    """
    from plait_core import Event

    from ..terminal.running import run
    from .trace_line import Traced, follow
    from .trace_steps import Steps

    attributes, target = parse_pairs(pairs), find_target(url)
    lifetime_us = 0 if ttl is None else max(1, round(ttl * 1_000_000))
    event = Event.checked(attributes, os.fsencode(payload), lifetime_us=lifetime_us, priority=priority)
    steps = Steps()

    def show(facts: dict[str, Any], line: str) -> None:
        if as_json:
            print_json(facts)
        else:
            click.echo(printable(line))

    def tell(traced: Traced) -> None:
        for told in steps.take(traced):
            show(*told)

    run(follow(target, event, wait_s, steps, tell))
    for told in (*steps.rest(), steps.end()):
        show(*told)
    if not steps.complete:
        ctx.exit(FAILED)
