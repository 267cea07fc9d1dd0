"""Connects a command to its broker: fails at once if none answers, and reconnects without end afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import click

from ... import AuthFailed, Error, connect
from ...protocol import hints
from ..terminal.failures import Failure, as_failure
from ..terminal.output import printable

if TYPE_CHECKING:
    from ... import Client, Opening
    from ...options.target import Target

TIMEOUT_S: Final = 5.0

_AUTH_HINT: Final = "give the broker's token: --url plait://TOKEN@HOST, or `plait context add NAME URL --token -`"

_COMMAND_HINTS: Final = {
    hints.NO_LISTENER: "`plait up` starts a broker here; --url names another",
    hints.NOT_TRUSTED: (
        "`plait context add NAME URL --ca FILE` trusts an authority, SSL_CERT_FILE=FILE does for one command"
    ),
    hints.NEEDS_CERTIFICATE: (
        "the broker may require a certificate: `plait context add NAME URL --certificate FILE --key FILE`"
    ),
}
"""The SDK's hints name arguments of functions; these name options of commands."""


@asynccontextmanager
async def connected(target: Target, role: str) -> AsyncIterator[Client]:
    """Connect to a broker, and close the client at the end. Changes of the connection are printed on stderr."""
    await _check_reachable(target)
    name = f"plait-{role}-{secrets.token_hex(4)}"
    opening = connect(target.url, name=name, auth=target.token, tls=_context(target), timeout=TIMEOUT_S)
    async with _with_command_hints(opening, target) as client:
        handler = _StderrHandler()
        logger = logging.getLogger("plait")
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield client
        finally:
            logger.removeHandler(handler)
            logger.level, logger.propagate = before


def _context(target: Target) -> ssl.SSLContext | None:
    return target.trust.context() if target.tls else None


async def _check_reachable(target: Target) -> None:
    """Raise Failure at once for a wrong address, which the SDK would retry for a while."""
    _, writer = await dial(target)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def dial(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a TCP or TLS connection to a broker; Failure if none is there."""
    address = target.address
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.open_connection(address.host, address.port, ssl=_context(target))
    except OSError as error:  # TimeoutError is one, and so is what TLS raises
        reason = (None if isinstance(error, ssl.SSLError) else error.strerror) or str(error)
        message = f"no broker at {target.url}{target.origin}: {reason or f'no answer within {TIMEOUT_S:g} s'}"
        raise Failure(message, hint=_command_hint(hints.hint(address, reason))) from None


@asynccontextmanager
async def _with_command_hints(opening: Opening[Client], target: Target) -> AsyncIterator[Client]:
    """Open a client. Errors carry hints about the command line, and where a refused token came from."""
    try:
        client = await opening
    except Error as error:
        failure = as_failure(error)
        if isinstance(error, AuthFailed):
            origin = target.token_origin(target.address) if target.token else ""  # without one, the SDK has said so
            failure = Failure(error.message + origin, hint=_AUTH_HINT)
        else:
            failure.hint = _command_hint(error.hint)
        raise failure from error
    async with client:
        yield client


def _command_hint(hint: str) -> str:
    return _COMMAND_HINTS.get(hint, hint)


class _StderrHandler(logging.Handler):
    """Prints the SDK's log on stderr: connections lost and restored, failed publishes."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(printable(record.getMessage()), err=True)
