"""Where a broker's HTTP side is: as it was told, else one port above its URL's, else where the broker itself says."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from ..terminal.failures import Failure
from .addressing import http_address

if TYPE_CHECKING:
    from .addressing import Target

C = TypeVar("C", bound=Callable[..., Any])

GUESS_S: Final = 1.0
"""For someone to take a connection where the HTTP side mostly is."""


def http_option(command: C) -> C:
    """Adds `--http`."""
    text = "A broker's HTTP side. Else one port above its URL's, or where the broker says."
    return click.option("--http", metavar="HOST:PORT", help=text)(command)


def http_side(target: Target, given: str | None) -> str:
    """`http://HOST:PORT` or https, for `http_api`; Failure when the broker says that there is none."""
    usual = http_address(target, given)
    if given or target.http or _answers(usual):
        return usual
    from ...errors import Error
    from ..terminal.running import run

    try:
        told = run(_asked(target))
    except (Failure, Error):  # nobody to ask: what is wrong shows where it mostly is
        return usual
    if not told:
        raise Failure(f"the broker at {target.url} has no HTTP side", hint="plait broker --http HOST:PORT gives it one")
    scheme, _, place = told.partition("://")
    return told if not place.startswith(":") else f"{scheme}://{_host(urlsplit(usual).hostname or '')}{place}"


def _answers(address: str) -> bool:
    """Whether someone takes connections there."""
    place = urlsplit(address)
    try:
        with socket.create_connection((place.hostname or "", place.port or 80), GUESS_S):
            return True
    except OSError:
        return False


async def _asked(target: Target) -> str:
    from .connecting import connected

    async with connected(target, "http") as client:
        return client.broker_http


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
