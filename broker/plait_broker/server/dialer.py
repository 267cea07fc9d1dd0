"""Connects to other brokers: carries out each Dial and reports failures. The protocol decides when and where to
connect."""

from __future__ import annotations

import asyncio
import logging
import ssl
from time import monotonic
from typing import Final

from .driver import BrokerDriver
from .endpoints import Endpoint
from .tcp_connection import TcpConnection

ATTEMPT_S: Final = 5.0
"""Timeout of a connection attempt."""

FAILURES_MAX: Final = 1024
"""Addresses whose failures are counted. Each series of failures is logged once."""

LOG_FAILURES_AT: Final = 3
"""Failed attempts before a failure is logged: brokers that start together dial each other before all of them listen."""

log: Final = logging.getLogger(__name__)


class Dialer:
    """All attempts of one broker to connect to others."""

    def __init__(self, driver: BrokerDriver, tls: ssl.SSLContext | None, *, vouched: bool) -> None:
        """`vouched`: the TLS context trusts only brokers of this overlay."""
        self.tls = tls
        self._vouched = vouched
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._attempts: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        """Consecutive failures, by address."""
        self._closed = False

    def dial(self, address: str) -> None:
        """Start an attempt."""
        if not self._closed:
            attempt = self._loop.create_task(self._attempt(address), name=f"link to {address}")
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)

    async def close(self) -> None:
        """Cancel all attempts; connections that are open belong to the driver."""
        self._closed = True
        for attempt in self._attempts:
            attempt.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)

    async def _attempt(self, address: str) -> None:
        try:
            endpoint = Endpoint.parse(address)
            async with asyncio.timeout(ATTEMPT_S):
                await self._loop.create_connection(
                    lambda: TcpConnection(self._driver, _nothing, dialled=address, vouched=self._vouched),
                    endpoint.host,
                    endpoint.port,
                    ssl=self.tls,
                )
        except (OSError, TimeoutError, ValueError) as error:  # a ValueError: the text is no address
            self._count_failure(address, str(error) or "it does not answer")
            self._driver.broker.broker_connections.unreachable(address, monotonic())
            self._driver.settings_changed()
        else:
            self._failures.pop(address, None)

    def _count_failure(self, address: str, why: str) -> None:
        failed = self._failures.get(address, 0) + 1
        if failed == 1 and len(self._failures) >= FAILURES_MAX:
            return
        self._failures[address] = failed
        if failed == LOG_FAILURES_AT:
            log.warning("no link to %s: %s; trying again", address, why)


def _nothing() -> None:
    """Release nothing: an outgoing connection is not counted by the limiter."""
