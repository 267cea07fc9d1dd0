"""Finds a broker's HTTP side: the configured address, else one port above its URL's, else the one that it announces."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from ..terminal.failures import Failure
from .addressing import http_address

if TYPE_CHECKING:
    from ...options.target import Target

C = TypeVar("C", bound=Callable[..., Any])

PROBE_S: Final = 1.0
"""Timeout of a connection to the usual address."""


def http_option(command: C) -> C:
    """Adds `--http`."""
    text = "A broker's HTTP side. By default one port above its URL's, or as the broker announces."
    return click.option("--http", metavar="HOST:PORT", help=text)(command)


def find_http(target: Target, given: str | None) -> str:
    """Return `http://HOST:PORT` or https, for `http_api`; Failure if the broker has no HTTP side."""
    usual = http_address(target, given)
    if given or target.http or _accepts_connections(usual):
        return usual
    from ...errors import Error
    from ..terminal.running import run_async

    try:
        announced = run_async(_announced(target))
    except (Failure, Error):  # no broker; the request to the usual address will report the error
        return usual
    if not announced:
        raise Failure(f"the broker at {target.url} has no HTTP side", hint="plait broker --http HOST:PORT gives it one")
    scheme, _, place = announced.partition("://")
    return announced if not place.startswith(":") else f"{scheme}://{_host(urlsplit(usual).hostname or '')}{place}"


def _accepts_connections(address: str) -> bool:
    """Return whether the address accepts connections."""
    place = urlsplit(address)
    try:
        with socket.create_connection((place.hostname or "", place.port or 80), PROBE_S):
            return True
    except OSError:
        return False


async def _announced(target: Target) -> str:
    from .connecting import connected

    async with connected(target, "http") as client:
        return client.broker_http


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
