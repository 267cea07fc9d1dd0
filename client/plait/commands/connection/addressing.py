"""Selects a command's broker: `--url`, else PLAIT_URL, else the context in use, else the default.

A URL without a token uses the token in the file that PLAIT_TOKEN_FILE names, as in a container; a context has its own.
The HTTP side is `--http`, else the context's, else the same host one port higher (4680 -> 4681).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ..settings.contexts import load_contexts
from ..terminal.failures import Failure, WrongUse
from .trust import SYSTEM, Trust

if TYPE_CHECKING:
    from ...options.addresses import Address

C = TypeVar("C", bound=Callable[..., Any])

URL_VARIABLE: Final = "PLAIT_URL"
TOKEN_VARIABLE: Final = "PLAIT_TOKEN_FILE"  # noqa: S105 - a name, no token
TOKEN_CHARACTERS_MAX: Final = 4096


@dataclass(frozen=True, slots=True)
class Target:
    """A broker's address and credentials, and where they were configured."""

    url: str
    """URL without its token, so that it can be printed."""
    source: str
    """The option, variable or context that named it, or `default`."""
    token: str | None = field(default=None, repr=False)
    http: str | None = None
    trust: Trust = SYSTEM

    @property
    def tls(self) -> bool:
        return self.url.startswith("plaits://")


def url_option(command: C) -> C:
    """Adds `--url`."""
    text = "The broker: plait://[TOKEN@]HOST[:PORT]. Else PLAIT_URL, the context in use, plait://127.0.0.1:4680."
    return click.option("--url", metavar="URL", help=text)(command)


def find_target(url: str | None) -> Target:
    """Return the broker to use; AddressInvalid if its URL is none."""
    from ...options.addresses import DEFAULT_URL, parse_address

    if url:
        return _target(parse_address(url), "--url")
    if value := os.environ.get(URL_VARIABLE):
        return _target(parse_address(value), URL_VARIABLE)
    contexts = load_contexts()
    if context := contexts.in_use:
        target = _target(parse_address(context.url), f"context {contexts.current}")
        trust = Trust(context.ca, context.certificate, context.key)
        return replace(target, http=context.http, token=context.token or target.token, trust=trust)
    return _target(parse_address(DEFAULT_URL), "default")


def http_address(target: Target, given: str | None = None) -> str:
    """Return the address of the broker's HTTP side: `http://HOST:PORT`, or https if the broker uses TLS."""
    from ...options.addresses import parse_address

    configured = given or target.http
    if configured is None:
        address = parse_address(target.url)
        host = f"[{address.host}]" if ":" in address.host else address.host
        return f"{_scheme(target)}://{host}:{address.port + 1}"
    if "://" not in configured:
        configured = f"{_scheme(target)}://{configured}"
    if not _has_host(configured):
        raise WrongUse(f"{configured!r} is no HTTP address", hint="like 127.0.0.1:4681")
    return configured.rstrip("/")


def _has_host(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def _scheme(target: Target) -> str:
    return "https" if target.tls else "http"


def _target(address: Address, source: str) -> Target:
    return Target(str(address), source, address.token or token_from_file())


def token_from_file() -> str | None:
    """Return the token in the file that PLAIT_TOKEN_FILE names, or None if there is none."""
    path = os.environ.get(TOKEN_VARIABLE)
    if not path:
        return None
    try:
        with Path(path).open(encoding="utf-8") as file:
            return file.read(TOKEN_CHARACTERS_MAX).strip() or None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise Failure(
            f"{TOKEN_VARIABLE}: {path} cannot be read: {reason}", hint="it must contain the broker's token"
        ) from None
