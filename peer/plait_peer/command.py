"""`plait peer`: a peer as a process: where others join, and with `--subscribe` one that prints what it hears.

Prints one line `ready name=N listen=H:P group=G` on stdout when it serves, then a JSON object for each event; logs to
stderr. Exit codes: 0 stopped as asked, 1 it cannot run, 2 it was told something that makes no sense.
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

from .event_records import course_of
from .protocol.outputs import Deliver, Output
from .sdk_entry import open_peer
from .sdk_session import BOUND_S
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
@click.option("--join", "joined", multiple=True, metavar="H:P", help="A peer that is there; as often as there are.")
@click.option("--discover", is_flag=True, help="Find peers on this network segment by multicast.")
@click.option("--listen", default="127.0.0.1:4690", show_default=True, metavar="H:P", help="Where others join it.")
@click.option("--advertise", default="", metavar="H:P", help="Where others reach it, if that is not --listen.")
@click.option("--name", default="peer", show_default=True, metavar="N", help="What it is called.")
@click.option("--group", default="plait", show_default=True, metavar="G", help="The group it belongs to.")
@click.option("--secret-file", type=click.Path(path_type=Path, exists=True), metavar="FILE", help="The group's secret.")
@click.option(
    "--space",
    type=click.Path(path_type=Path),
    callback=_schema,
    metavar="FILE",
    help="The group's event space as JSON; without it everyone receives everything, and filters.",
)
@click.option("--children", type=click.IntRange(1, 256), help="To how many it sends any one event on.")
@click.option("--events-per-s", type=click.FloatRange(0, min_open=True), help="How many it is willing to receive.")
@click.option("--telemetry", metavar="DIR", help="Where to record what happens, for `plait analyze`.")
@click.option("--subscribe", callback=_filter, metavar="FILTER", help="Print the events that match.")
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

    Peers find each other at the addresses of --join or by --discover, and organise themselves: there is no broker.
    """
    logging.basicConfig(level=log_level.upper(), stream=sys.stderr)
    secret = secret_file.read_text().strip() if secret_file else ""

    async def run() -> None:
        live = await open_peer(
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
            _print_events(live, subscribe, name)
        print(f"ready name={name} listen={live.address} group={group}", flush=True)
        try:
            await _asked_to_stop()
        finally:
            await live.close()

    try:
        _loop_of_choice().run(run())
    except PlaitError as error:
        raise click.ClickException(f"{error.message}: {error.hint}" if error.hint else error.message) from None


def _loop_of_choice() -> asyncio.Runner:
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


async def _asked_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()


def _print_events(live: PeerServer, wanted: Filter, name: str) -> None:
    """A subscription of the process itself."""
    node, number, telemetry = live.node, live.node.new_number(), live.node.telemetry
    if telemetry is not None:
        telemetry.name("subscription", number, filter=wanted.text, client=name, within_us=0)

    def arrives(output: Output) -> None:
        assert isinstance(output, Deliver), "subscribers publish nothing"
        event = Publish(Confirm.NONE, output.block)
        matches = wanted.matches(event.attributes())
        if telemetry is not None:
            came = course_of(output, node.now, node.origin(output.publisher))
            telemetry.heard((event,), came, number, 0, "" if matches else "unmatched")
        if matches:
            print(json.dumps(event.attributes(), default=str), flush=True)
        subscriber.dealt_with(output.publisher, output.number)

    subscriber = live.node.add(live.group.wanted(wanted), BOUND_S, arrives, monotonic())
