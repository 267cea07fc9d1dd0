"""`plait peer`: a peer in a process of its own. With `--subscribe` it prints events as `plait sub` does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..events.filter import SUBSCRIBABLE
from ..terminal.failures import Failure
from ..terminal.output import json_option
from .group_options import group_options, read_secret, read_space

if TYPE_CHECKING:
    from plait_core import Filter

LISTEN: Final = "127.0.0.1:4670"
"""Below the ports of a local key server and of local brokers."""


@click.command(short_help="Run a peer without brokers.", epilog="\b\nExample: plait peer --subscribe 'price < 120'")
@group_options(LISTEN)
@click.option("--advertise", default="", metavar="H:P", help="Address that other peers connect to, if not --listen.")
@click.option("--name", default="peer", show_default=True, metavar="N", help="Name of the peer.")
@click.option("--children", type=click.IntRange(1, 256), help="Peers to which it forwards one event, at most.")
@click.option("--events-per-s", type=click.FloatRange(0, min_open=True), help="Events that it can receive per second.")
@click.option("--telemetry", metavar="DIR", help="Directory for telemetry, which `plait analyze` reads.")
@click.option("--subscribe", type=SUBSCRIBABLE, metavar="FILTER", help="Print matching events, as `plait sub` does.")
@json_option
def peer(
    joined: tuple[str, ...],
    discover: bool,
    listen: str,
    group: str,
    secret_file: Path | None,
    space: Path | None,
    advertise: str,
    name: str,
    children: int | None,
    events_per_s: float | None,
    telemetry: str | None,
    subscribe: Filter | None,
    as_json: bool,
) -> None:
    """Run one peer until Ctrl-C.

    Peers find each other at the addresses of --join or by --discover, and organise themselves without a broker. Prints
    `ready name=N listen=H:P group=G` on stderr when it serves, and notices. Stdout has events alone.
    """
    from ..terminal.running import run_async

    options = {
        "join": joined,
        "discover": discover,
        "listen": listen,
        "advertise": advertise,
        "group": group,
        "secret": read_secret(secret_file),
        "space": read_space(space),
        "children": children,
        "events_per_s": events_per_s,
        "name": name,
        "telemetry": telemetry,
    }
    run_async(_peer(options, subscribe, as_json))


async def _peer(options: dict[str, Any], filter: Filter | None, as_json: bool) -> None:
    from ... import Error
    from ... import peer as opened
    from ..events.event_printer import printer_of

    try:
        async with opened(**options) as client:
            ready = f"ready name={options['name']} listen={client.address} group={options['group']}"
            if filter is None:
                click.echo(ready, err=True)
                await asyncio.Event().wait()
                return
            async with client.subscribe(filter, ack="manual") as subscription:
                click.echo(ready, err=True)
                async with printer_of(subscription, as_json=as_json) as printer:
                    await printer.print_all()
    except Error as error:
        raise Failure(error.message, hint=error.hint) from error
