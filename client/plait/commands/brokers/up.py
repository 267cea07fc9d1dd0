"""`plait up`: brokers on this machine, with what to type next."""

from __future__ import annotations

import asyncio
import socket
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
"""Processes of 60 MB each; more belong on more machines."""


@click.command(epilog="\b\nExample: plait up -n 5 --topology ring")
@click.option("-n", "brokers", type=click.IntRange(1, BROKERS_MAX), default=1, show_default=True, help="How many.")
@click.option(
    "--topology", metavar=SHAPES, default="ring", show_default=True,
    help="Who is linked to whom. A file has a link a line, as two names; it says how many brokers there are.",
)  # fmt: skip
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:4680", show_default=True, help="For clients.")
@click.option("--http", metavar="HOST:PORT", default="127.0.0.1:4681", show_default=True, help="For people.")
@click.option(
    "--data",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where logs are kept; without it, durable subscriptions do not outlive a broker.",
)
@click.option("--open", "open_it", is_flag=True, help="Open its page in a browser.")
@json_option
def up(brokers: int, topology: str, listen: str, http: str, data: Path | None, open_it: bool, as_json: bool) -> None:
    """Start a local broker, or an overlay of several, and say how to use it.

    The first one listens where you say, each other two ports above the one before if that is free. Ends with Ctrl-C,
    or when the last broker has ended; `plait chaos start NAME` brings one of several back. With --json, one object a
    broker once all serve.
    """
    overlay = graph(topology, brokers, "local", BROKERS_MAX)
    from ..terminal.running import run

    run(_up(overlay, listen, http, data, open_it, as_json))


async def _up(overlay: Graph, listen: str, http: str, data: Path | None, open_it: bool, as_json: bool) -> None:
    from .local_overlay import LocalOverlay

    async with AsyncExitStack() as stopped:
        brokers = _brokers(overlay, listen, http, data)
        for broker in brokers:
            stopped.push_async_callback(broker.stop)
        await asyncio.gather(*(broker.start() for broker in brokers))
        if as_json:
            for broker in brokers:
                print_json({"name": broker.name, "listen": broker.listen, "http": broker.http})
        else:
            _say_what_next(brokers)
        if open_it:
            await asyncio.to_thread(click.launch, f"http://{brokers[0].http}/")
        if len(brokers) > 1:
            await LocalOverlay(brokers, lambda line: click.echo(line, err=True)).wait()
        code = await brokers[0].wait()
    if code != DONE:
        raise Failure(f"a broker ended with exit code {code}")


def _brokers(overlay: Graph, listen: str, http: str, data: Path | None) -> list[LocalBroker]:
    from .local_broker import LocalBroker

    count = len(overlay.names)
    if count == 1:
        return [LocalBroker("--name", "local", listen=listen, http=http, data=data)]
    places = [_free_place(listen, number) if number or listen.endswith(":0") else listen for number in range(count)]
    links: dict[int, list[str]] = {number: [] for number in range(count)}
    for near, far in overlay.links:
        links[near] += ["--link", places[far]]
        links[far] += ["--link", places[near]]
    return [
        LocalBroker(
            "--name", name, "--log-level", "warning", *links[number],
            listen=place, http=_beside(place) if number else http, data=data / name if data else None,
        )
        for number, (name, place) in enumerate(zip(overlay.names, places, strict=True))
    ]  # fmt: skip


def _free_place(first: str, number: int) -> str:
    """An address that nobody listens on now, for the others must know it before it is taken: two ports above the one
    before, with one between for HTTP, so that every broker is where one looks for it."""
    port = int(first.rpartition(":")[2]) + 2 * number
    if port > 2 * number and _is_free(port) and _is_free(port + 1):
        return f"127.0.0.1:{port}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def _beside(place: str) -> str:
    """Where its HTTP side is: one port above, unless somebody else is there."""
    port = int(place.rpartition(":")[2]) + 1
    return f"127.0.0.1:{port if _is_free(port) else 0}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _say_what_next(brokers: list[LocalBroker]) -> None:
    first, last = brokers[0], brokers[-1]
    url = "" if first.listen == "127.0.0.1:4680" else f" --url plait://{first.listen}"
    other = f" --url plait://{last.listen}" if last is not first else url
    lines = [f"Plait is up at plait://{first.listen}, its page at http://{first.http}/"]
    if last is not first:
        lines += ["", *(f"  {broker.name:<10} plait://{broker.listen}" for broker in brokers)]
        lines += ["", "Look at it:", f"  plait topo --http {first.http}"]
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
