"""`plait up`: starts brokers on this machine, and prints the next commands to try."""

from __future__ import annotations

from contextlib import AsyncExitStack
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
USUAL = "127.0.0.1:4680"
"""The address that commands use if nothing names another."""


@click.command(epilog="\b\nExample: plait up -n 5 --topology ring")
@click.option(
    "-n", "brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, help="Number of brokers."
)
@click.option(
    "--topology", metavar=SHAPES, default="ring", show_default=True,
    help="Shape of the overlay, or a file with one link a line, as two broker names.",
)  # fmt: skip
@click.option(
    "--listen", metavar="HOST:PORT", help="Address for clients.  [default: 127.0.0.1:4680, or the next free port]"
)
@click.option("--http", metavar="HOST:PORT", help="Address for HTTP.  [default: one port above --listen]")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the log of durable subscriptions. Without it, brokers keep none.",
)
@click.option(
    "--telemetry",
    metavar="DIR|off",
    help="Directory for telemetry and its tables.  [default: a temporary one, removed at the end]",
)
@click.option("--open", "open_it", is_flag=True, help="Open the live page in a browser.")
@json_option
def up(
    brokers: int,
    topology: str,
    listen: str | None,
    http: str | None,
    data: Path | None,
    telemetry: str | None,
    open_it: bool,
    as_json: bool,
) -> None:
    """Start a local broker, or an overlay of several.

    The first broker listens at --listen, each other two ports above the one before. Ports that are taken are passed
    over. The brokers record telemetry, of which the page /analytics shows tables. Ends with Ctrl-C, or when the last
    broker has ended; `plait chaos start NAME` restarts one of several. With --json, prints one object a broker once all
    are ready.
    """
    overlay = graph(topology, brokers, "local", BROKERS_MAX)
    if len(overlay.names) == 1:
        overlay = Graph(["local"], [])
    from ..terminal.running import run_async

    run_async(_up(overlay, (listen, http), data, telemetry, open_it, as_json))


async def _up(
    overlay: Graph,
    addresses: tuple[str | None, str | None],
    data: Path | None,
    telemetry: str | None,
    open_it: bool,
    as_json: bool,
) -> None:
    import asyncio

    from .local_overlay import BrokerOptions, LocalOverlay
    from .local_telemetry import LocalTelemetry, recording
    from .ports import choosing_ports, first_addresses
    from .supervisor import Supervisor

    quiet = ("--log-level", "warning") if len(overlay.names) > 1 else ()
    async with AsyncExitStack() as stack:
        recorded = LocalTelemetry()
        if telemetry != "off":
            home = Path(telemetry) if telemetry is not None else None
            recorded = await stack.enter_async_context(recording(home, len(overlay.names), _warn))
        options = BrokerOptions(arguments=(*quiet, *recorded.arguments), data=data, settings=recorded.settings)
        async with choosing_ports():
            listen, http = first_addresses(*addresses)
            if addresses[0] is None and listen != USUAL:
                _warn(f"{USUAL} is taken: the first broker listens at {listen}")
            running = await stack.enter_async_context(LocalOverlay(overlay, options, listen=listen, http=http))
        brokers = list(running.brokers.values())
        if as_json:
            for broker in brokers:
                print_json({"name": broker.name, "listen": broker.listen, "http": broker.http})
        else:
            _print_next_steps(brokers)
        if open_it:
            await asyncio.to_thread(click.launch, f"http://{brokers[0].http}/")
        if len(brokers) > 1:
            await Supervisor(brokers, _warn).wait()
        code = await brokers[0].wait()
    if code != DONE:
        raise Failure(f"a broker ended with exit code {code}")


def _warn(line: str) -> None:
    click.echo(line, err=True)


def _print_next_steps(brokers: list[LocalBroker]) -> None:
    first, last = brokers[0], brokers[-1]
    url = "" if first.listen == USUAL else f" --url {first.listen}"
    other = f" --url {last.listen}" if last is not first else url
    lines = [f"Plait is up at plait://{first.listen}, its page at http://{first.http}/"]
    if last is not first:
        lines += ["", *(f"  {broker.name:<10} plait://{broker.listen:<18} http://{broker.http}/" for broker in brokers)]
        lines += ["", "Show the overlay:", f"  plait topo{url}"]
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
