"""`plait top`: shows the overlay in the terminal, from the same data as the live page."""

from __future__ import annotations

import sys

import click

from ..connection.addressing import find_target, http_address, url_option
from ..terminal.failures import Failure
from ..terminal.output import json_option, print_json

INSTALL = "pip install 'plait[top]'"


@click.command(epilog="\b\nExample: plait top --http 127.0.0.1:4681")
@click.option("--http", metavar="HOST:PORT", help="A broker's HTTP side; by default one port above its URL's.")
@url_option
@json_option
def top(http: str | None, url: str | None, as_json: bool) -> None:
    """Watch brokers, links and subscriptions of an overlay, live.

    Reads from any one broker, because each knows all others. With --json, prints one snapshot as an object.
    """
    from .overview import Overview

    target = find_target(url)
    overview = Overview(http_address(target, http), target)
    if as_json:
        print_json(overview.read())
        return
    if not sys.stdout.isatty():
        raise Failure("plait top draws on a terminal, and stdout is none", hint="--json prints one snapshot")
    try:
        from .top_screen import TopScreen
    except ImportError as error:
        raise Failure("plait top needs textual, which is not installed", hint=INSTALL) from error
    overview.read()  # fails here, before the screen is drawn, if no broker answers
    TopScreen(overview.read).run()
