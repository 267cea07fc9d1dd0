"""`plait up`: starts brokers on this machine, and prints the next commands to try."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..terminal.failures import DONE, Failure
from ..terminal.output import json_option, print_json
from .topologies import SHAPES, Graph, graph

if TYPE_CHECKING:
    from .local_broker import LocalBroker

BROKERS_MAX = 32
"""Limit of brokers on one machine. Each process takes 60 MB."""


@click.command(epilog="\b\nExample: plait up -n 5 --topology ring")
@click.option(
    "-n", "brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, help="Number of brokers."
)
@click.option(
    "--topology", metavar=SHAPES, default="ring", show_default=True,
    help="Shape of the overlay, or a file with one link a line, as two broker names.",
)  # fmt: skip
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:4680", show_default=True, help="Address for clients.")
@click.option("--http", metavar="HOST:PORT", default="127.0.0.1:4681", show_default=True, help="Address for HTTP.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for durable data. Without it, durable subscriptions end with their broker.",
)
@click.option("--open", "open_it", is_flag=True, help="Open the live page in a browser.")
@json_option
def up(brokers: int, topology: str, listen: str, http: str, data: Path | None, open_it: bool, as_json: bool) -> None:
    """Start a local broker, or an overlay of several.

    The first broker listens at --listen, each other two ports above the one before if they are free. Ends with Ctrl-C,
    or when the last broker has ended; `plait chaos start NAME` restarts one of several. With --json, prints one object
    a broker once all are ready.
    """
    overlay = graph(topology, brokers, "local", BROKERS_MAX)
    if len(overlay.names) == 1:
        overlay = Graph(["local"], [])
    from ..terminal.running import run_async

    run_async(_up(overlay, listen, http, data, open_it, as_json))


async def _up(overlay: Graph, listen: str, http: str, data: Path | None, open_it: bool, as_json: bool) -> None:
    import asyncio

    from .local_overlay import BrokerOptions, LocalOverlay
    from .supervisor import Supervisor

    quiet = ("--log-level", "warning") if len(overlay.names) > 1 else ()
    options = BrokerOptions(arguments=quiet, data=data)
    async with LocalOverlay(overlay, options, listen=listen, http=http) as running:
        brokers = list(running.brokers.values())
        if as_json:
            for broker in brokers:
                print_json({"name": broker.name, "listen": broker.listen, "http": broker.http})
        else:
            _print_next_steps(brokers)
        if open_it:
            await asyncio.to_thread(click.launch, f"http://{brokers[0].http}/")
        if len(brokers) > 1:
            await Supervisor(brokers, lambda line: click.echo(line, err=True)).wait()
        code = await brokers[0].wait()
    if code != DONE:
        raise Failure(f"a broker ended with exit code {code}")


def _print_next_steps(brokers: list[LocalBroker]) -> None:
    first, last = brokers[0], brokers[-1]
    url = "" if first.listen == "127.0.0.1:4680" else f" --url plait://{first.listen}"
    other = f" --url plait://{last.listen}" if last is not first else url
    lines = [f"Plait is up at plait://{first.listen}, its page at http://{first.http}/"]
    if last is not first:
        lines += ["", *(f"  {broker.name:<10} plait://{broker.listen}" for broker in brokers)]
        lines += ["", "Show the overlay:", f"  plait topo --http {first.http}"]
    lines += [
        "",
        "In another terminal:",
        f"  plait sub \"symbol == 'IBM' and price < 120\"{other}",
        "and in a third:",
        f"  plait pub symbol=IBM price=99.5{url}",
        "",
        "Ctrl-C ends it.",
    ]
    click.echo("\n".join(lines))
