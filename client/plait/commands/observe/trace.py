"""`plait trace`: publishes one traced event, and prints its steps as brokers report them."""

from __future__ import annotations

import os

import click

from plait_core.values import Json

from ..connection.addressing import find_target, url_option
from ..events.attributes import parse_pairs
from ..terminal.durations import DURATION, SECONDS
from ..terminal.failures import FAILED
from ..terminal.output import json_option, print_json, printable


@click.command(epilog="\b\nExample: plait trace symbol=IBM price=99.5 --ttl 2s")
@click.argument("pairs", nargs=-1, metavar="NAME=VALUE...", required=True)
@click.option("--payload", metavar="TEXT", default="", help="Payload, opaque to brokers.")
@click.option("--ttl", type=DURATION, metavar="TIME", help="Lifetime of the event, like 2s.")
@click.option("--priority", type=click.IntRange(0, 9), default=0, show_default=True, help="9 is delivered first.")
@click.option("--wait", "wait_s", type=SECONDS, metavar="TIME", default=5.0, show_default="5s",
              help="Timeout for the reports of all destinations.")  # fmt: skip
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
    """Publish a traced event and show every step on its path.

    The event is real and is delivered. Each broker reports when it received the event, how long matching took, the
    destinations, and the next hops with their link delay. It also reports whether the event was delivered, waits or was
    dropped, and why. A step is printed below the one that caused it. "again" marks a repeated step, such as a
    retransmission. Exit code 1 if a report is missing at the timeout.
    """
    from plait_core import Event

    from ..terminal.running import run_async
    from .trace_connection import Traced, follow
    from .trace_steps import Steps

    attributes, target = parse_pairs(pairs), find_target(url)
    lifetime_us = 0 if ttl is None else max(1, round(ttl * 1_000_000))
    event = Event.checked(attributes, os.fsencode(payload), lifetime_us=lifetime_us, priority=priority)
    steps = Steps()

    def show(facts: Json, line: str) -> None:
        if as_json:
            print_json(facts)
        else:
            click.echo(printable(line))

    def show_steps(traced: Traced) -> None:
        for shown in steps.add(traced):
            show(*shown)

    run_async(follow(target, event, wait_s, steps, show_steps))
    for shown in (*steps.remaining(), steps.end()):
        show(*shown)
    if not steps.complete:
        ctx.exit(FAILED)
