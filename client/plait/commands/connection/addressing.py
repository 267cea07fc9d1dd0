"""Selects a command's broker with `plait.options.target`, by `--url` and `--context`, and finds its HTTP side.

The HTTP side is `--http`, else the context's, else the same host one port higher (4680 -> 4681).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..terminal.failures import WrongUse

if TYPE_CHECKING:
    from ...options.target import Target

C = TypeVar("C", bound=Callable[..., Any])

_CONTEXT_KEY: Final = "plait.context"
"""Where click keeps `--context` for `find_target`."""


def url_option(command: C) -> C:
    """Adds `--url` and `--context`. `find_target` takes the URL, and reads the context itself."""
    url = "The broker: plait://[TOKEN@]HOST[:PORT], or HOST:PORT. Default: 127.0.0.1:4680."
    context = "A saved context: `plait context list`. Else PLAIT_URL, PLAIT_CONTEXT, the context in use."
    command = click.option(
        "--context", metavar="NAME", help=context, expose_value=False, callback=_keep_context, is_eager=True
    )(command)
    return click.option("--url", metavar="URL", help=url)(command)


def find_target(url: str | None) -> Target:
    """Return the broker to use; AddressInvalid if its URL is none."""
    from ...options.target import select_target

    running = click.get_current_context(silent=True)
    context: str | None = None if running is None else running.meta.get(_CONTEXT_KEY)
    return select_target(url, context, given_by="--url")


def http_address(target: Target, given: str | None = None) -> str:
    """Return the address of the broker's HTTP side: `http://HOST:PORT`, or https if the broker uses TLS."""
    configured = given or target.http
    if configured is None:
        address = target.address
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"{_scheme(target)}://{host}:{address.port + 1}"
    if "://" not in configured:
        configured = f"{_scheme(target)}://{configured}"
    if not _has_host(configured):
        raise WrongUse(f"{configured!r} is no HTTP address", hint="like 127.0.0.1:4681")
    return configured.rstrip("/")


def _keep_context(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    ctx.meta[_CONTEXT_KEY] = value


def _has_host(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def _scheme(target: Target) -> str:
    return "https" if target.tls else "http"
