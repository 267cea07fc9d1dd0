"""`plait bridge`: a process that is a client of a broker and a peer of a group, and forwards events between them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..connection.addressing import find_target, url_option
from ..events.filter import FILTER
from ..terminal.failures import Failure
from .group_options import group_options, read_secret, read_space

if TYPE_CHECKING:
    from plait_core import Filter

    from ...bridge.bridge import BridgeSettings
    from ...options.target import Target


@click.command(epilog="\b\nExample: plait bridge --url plait://10.0.0.1 --join 10.0.0.5:4670 --to-peers 'price > 100'")
@group_options("127.0.0.1:0")
@click.option("--to-peers", type=FILTER, default="true", show_default=True, metavar="FILTER",
              help="Filter of the events forwarded from brokers to peers.")  # fmt: skip
@click.option("--to-brokers", type=FILTER, default="true", show_default=True, metavar="FILTER",
              help="Filter of the events forwarded from peers to brokers.")  # fmt: skip
@click.option("--by-interest", is_flag=True, help="Forward only events that match a subscription on the other side.")
@click.option("--brokers-name", default="brokers", show_default=True, metavar="W",
              help="Name of the overlay of brokers, different for each overlay.")  # fmt: skip
@url_option
def bridge(
    joined: tuple[str, ...],
    discover: bool,
    listen: str,
    group: str,
    secret_file: Path | None,
    space: Path | None,
    to_peers: Filter,
    to_brokers: Filter,
    by_interest: bool,
    brokers_name: str,
    url: str | None,
) -> None:
    """Forward events between brokers and a group of peers.

    The bridge is a client of a broker and a peer of the group, until Ctrl-C. Several bridges between the same two elect
    one that forwards; when it dies, another takes over. Prints one line `ready listen=H:P` on stdout when it forwards.
    Sealed events are not forwarded: their signature names the publisher, and a bridge publishes under its own name.
    """
    if not joined and not discover:
        raise click.UsageError("Give --join H:P, or --discover.")
    from ...bridge.bridge import BridgeSettings
    from ...bridge.interest import cells_of
    from ..terminal.running import run_async

    options = {
        "join": joined,
        "discover": discover,
        "listen": listen,
        "group": group,
        "secret": read_secret(secret_file),
        "space": (schema := read_space(space)),
    }
    crossing = BridgeSettings(
        str(to_peers),
        str(to_brokers),
        by_interest=by_interest,
        cells=cells_of(schema) if by_interest else ("true",),
        brokers=brokers_name,
        peers=f"peers:{group}",
    )
    run_async(_bridge(find_target(url), options, crossing))


async def _bridge(target: Target, options: dict[str, object], crossing: BridgeSettings) -> None:
    from ... import Error, peer
    from ...bridge.bridge import Bridge
    from ..connection.connecting import connected

    try:
        async with (
            connected(target, "bridge") as brokers,
            peer(**options) as peers,  # type: ignore[arg-type]
            Bridge(brokers, peers, crossing) as bridging,
        ):
            print(f"ready listen={peers.address}", flush=True)
            try:
                await bridging.run()
            finally:
                counts = ", ".join(f"{count} {kind}" for kind, count in sorted(bridging.counts.items()))
                print(f"forwarded: {counts or 'nothing'}", file=sys.stderr)
    except Error as error:
        raise Failure(error.message, hint=error.hint) from error
