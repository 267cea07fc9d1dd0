"""`plait peer`: run a peer in a process of its own; with `--subscribe`, print the events that match.

It prints `ready name=N listen=H:P group=G` on stdout when it serves, then a JSON object for each event; it logs to
stderr. Exit codes: 0 stopped by a signal, 1 it cannot run, 2 invalid arguments.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path
from time import monotonic
from typing import Final

import click

from plait_core.errors import PlaitError, SpaceInvalid
from plait_core.filters import Filter, parse
from plait_core.space import Schema
from plait_core.wire import Confirm, Publish

from .event_records import arrival_of
from .protocol.outputs import Deliver, Output
from .sdk.session import BOUND_S
from .sdk_entry import open_peer
from .server import PeerServer

_LEVELS: Final = ("debug", "info", "warning", "error")


def _filter(context: click.Context, parameter: click.Parameter, text: str | None) -> Filter | None:
    try:
        return None if text is None else parse(text)
    except PlaitError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def _schema(context: click.Context, parameter: click.Parameter, path: Path | None) -> Schema | None:
    try:
        return None if path is None else Schema.from_json(path.read_text())
    except (OSError, SpaceInvalid) as error:
        raise click.BadParameter(str(error), context, parameter) from None


@click.command("peer", short_help="Run a peer without brokers.")
@click.option("--join", "joined", multiple=True, metavar="H:P", help="Address of a running peer; can be repeated.")
@click.option("--discover", is_flag=True, help="Find peers on this network segment by multicast.")
@click.option("--listen", default="127.0.0.1:4690", show_default=True, metavar="H:P", help="Address to listen on.")
@click.option("--advertise", default="", metavar="H:P", help="Address that other peers connect to, if not --listen.")
@click.option("--name", default="peer", show_default=True, metavar="N", help="Name of the peer.")
@click.option("--group", default="plait", show_default=True, metavar="G", help="Name of the group.")
@click.option(
    "--secret-file",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE",
    help="File with the secret of the group.",
)
@click.option(
    "--space",
    type=click.Path(path_type=Path),
    callback=_schema,
    metavar="FILE",
    help="Event space of the group as JSON. Without it each subscriber receives and filters all events.",
)
@click.option("--children", type=click.IntRange(1, 256), help="Peers to which it forwards one event, at most.")
@click.option("--events-per-s", type=click.FloatRange(0, min_open=True), help="Events that it can receive per second.")
@click.option("--telemetry", metavar="DIR", help="Directory for telemetry, which `plait analyze` reads.")
@click.option("--subscribe", callback=_filter, metavar="FILTER", help="Print matching events.")
@click.option("--log-level", type=click.Choice(_LEVELS), default="info", show_default=True)
def peer(
    joined: tuple[str, ...],
    discover: bool,
    listen: str,
    advertise: str,
    name: str,
    group: str,
    secret_file: Path | None,
    space: Schema | None,
    children: int | None,
    events_per_s: float | None,
    telemetry: str | None,
    subscribe: Filter | None,
    log_level: str,
) -> None:
    """Run one peer until SIGTERM or Ctrl+C.

    Peers find each other at the addresses of --join or by --discover, and organise themselves without a broker.
    """
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr)
    secret = secret_file.read_text().strip() if secret_file else ""

    async def run() -> None:
        server = await open_peer(
            join=list(joined),
            discover=discover,
            listen=listen,
            advertise=advertise,
            interface=listen.rpartition(":")[0].strip("[]"),
            group=group,
            secret=secret,
            space=space,
            children=children,
            events_per_s=events_per_s,
            name=name,
            telemetry=telemetry,
        )
        if subscribe is not None:
            _print_events(server, subscribe, name)
        print(f"ready name={name} listen={server.address} group={group}", flush=True)
        try:
            await _stopped()
        finally:
            await server.close()

    try:
        _new_runner().run(run())
    except PlaitError as error:
        raise click.ClickException(f"{error.message}: {error.hint}" if error.hint else error.message) from None


def _new_runner() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _stopped() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


def _print_events(server: PeerServer, filter: Filter, name: str) -> None:
    """Subscribe, and print each matching event."""
    node, number, telemetry = server.node, server.node.new_number(), server.node.telemetry
    if telemetry is not None:
        telemetry.name("subscription", number, filter=filter.text, client=name, within_us=0)

    def deliver(output: Output) -> None:
        assert isinstance(output, Deliver), "subscribers publish nothing"
        event = Publish(Confirm.NONE, output.block)
        matches = filter.matches(event.attributes())
        if telemetry is not None:
            arrival = arrival_of(output, node.now, node.origin(output.publisher))
            telemetry.events_received((event,), arrival, number, 0, "" if matches else "unmatched")
        if matches:
            print(json.dumps(event.attributes(), default=str), flush=True)
        subscriber.acknowledge(output.publisher, output.number)

    subscriber = server.node.add(server.group.subspaces(filter), BOUND_S, deliver, monotonic())
