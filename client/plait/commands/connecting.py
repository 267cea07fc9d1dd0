"""Connects a command to its broker: fails at once when there is none, comes back for ever once there was one."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import click

from .. import connect
from ..addresses import parse_address
from .failures import Failure
from .output import printable

if TYPE_CHECKING:
    from .. import Client
    from .addressing import Target

TIMEOUT_S: Final = 5.0


@asynccontextmanager
async def connected(target: Target, role: str) -> AsyncIterator[Client]:
    """A client of this broker, closed at the end. What happens to its connection is told on stderr."""
    await _somebody_listens(target)
    name = f"plait-{role}-{secrets.token_hex(4)}"
    async with connect(target.url, name=name, auth=target.token, timeout=TIMEOUT_S) as client:
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


async def _somebody_listens(target: Target) -> None:
    """The SDK would try again for a while; at a prompt a wrong address is to be told now."""
    address = parse_address(target.url)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except OSError as error:  # TimeoutError is one
        reason = error.strerror or str(error) or f"no answer within {TIMEOUT_S:g} s"
        where = "" if target.source == "default" else f" (from {target.source})"
        hint = "`plait up` starts a broker here; --url says where else to look"
        raise Failure(f"no broker at {target.url}{where}: {reason}", hint=hint) from None
    writer.close()


class _Teller(logging.Handler):
    """Prints what the SDK logs: connections lost and found, publishes that went nowhere."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(printable(record.getMessage()), err=True)
