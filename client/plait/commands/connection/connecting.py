"""Connects a command to its broker: fails at once when there is none, comes back for ever once there was one."""

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

from ... import AuthFailed, Error, connect, hints
from ...options.addresses import parse_address
from ..terminal.failures import Failure, as_failure
from ..terminal.output import printable

if TYPE_CHECKING:
    from ... import Client, Opening
    from .addressing import Target

TIMEOUT_S: Final = 5.0

_WITHOUT_ENTRY: Final = "give the broker's token: --url plait://TOKEN@HOST, or `plait context add NAME URL --token -`"

_AT_A_PROMPT: Final = {
    hints.NO_LISTENER: "`plait up` starts a broker here; --url says where else to look",
    hints.NOT_TRUSTED: (
        "`plait context add NAME URL --ca FILE` says whom to trust, SSL_CERT_FILE=FILE does so for once"
    ),
    hints.NEEDS_CERTIFICATE: (
        "the broker may ask for a certificate: `plait context add NAME URL --certificate FILE --key FILE`"
    ),
}
"""What to do about it, where the SDK speaks of arguments."""


@asynccontextmanager
async def connected(target: Target, role: str) -> AsyncIterator[Client]:
    """A client of this broker, closed at the end. What happens to its connection is told on stderr."""
    await _somebody_listens(target)
    name = f"plait-{role}-{secrets.token_hex(4)}"
    opening = connect(target.url, name=name, auth=target.token, tls=_context(target), timeout=TIMEOUT_S)
    async with _told_at_a_prompt(opening) as client:
        teller = _Teller()
        logger = logging.getLogger("plait")
        before = logger.level, logger.propagate
        logger.addHandler(teller)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        try:
            yield client
        finally:
            logger.removeHandler(teller)
            logger.level, logger.propagate = before


def _context(target: Target) -> ssl.SSLContext | None:
    return target.trust.context() if target.tls else None


async def _somebody_listens(target: Target) -> None:
    """The SDK would try again for a while; at a prompt a wrong address is to be told now."""
    _, writer = await dial(target)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def dial(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to this broker; Failure when nobody listens there."""
    address = parse_address(target.url)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.open_connection(address.host, address.port, ssl=_context(target))
    except OSError as error:  # TimeoutError is one, and so is what TLS raises
        reason = (None if isinstance(error, ssl.SSLError) else error.strerror) or str(error)
        where = "" if target.source == "default" else f" (from {target.source})"
        said = f"no broker at {target.url}{where}: {reason or f'no answer within {TIMEOUT_S:g} s'}"
        raise Failure(said, hint=_at_a_prompt(hints.hint(address, reason))) from None


@asynccontextmanager
async def _told_at_a_prompt(opening: Opening[Client]) -> AsyncIterator[Client]:
    """Hints speak of the command line, not of arguments of functions."""
    try:
        client = await opening
    except Error as error:
        failure = as_failure(error)
        failure.hint = _WITHOUT_ENTRY if isinstance(error, AuthFailed) else _at_a_prompt(error.hint)
        raise failure from error
    async with client:
        yield client


def _at_a_prompt(hint: str) -> str:
    return _AT_A_PROMPT.get(hint, hint)


class _Teller(logging.Handler):
    """Prints what the SDK logs: connections lost and found, publishes that went nowhere."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(printable(record.getMessage()), err=True)
