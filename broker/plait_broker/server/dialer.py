"""Dialling other brokers: carries out each Dial, and says when nobody answers. The protocol decides when and whom."""

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
"""For a connection to stand."""

TOLD_MAX: Final = 1024
"""Addresses of which the log has said that nobody answers there: it says it once, until someone does."""

TELL_AT: Final = 3
"""Attempts in vain until the log says so: brokers that start together dial each other before all of them listen."""

log: Final = logging.getLogger(__name__)


class Dialer:
    """All attempts of one broker to connect to others."""

    def __init__(self, driver: BrokerDriver, tls: ssl.SSLContext | None, *, vouched: bool) -> None:
        """`vouched`: the context believes brokers of this overlay alone."""
        self.tls = tls
        self._vouched = vouched
        self._driver = driver
        self._loop = asyncio.get_running_loop()
        self._attempts: set[asyncio.Task[None]] = set()
        self._told: dict[str, int] = {}
        """How often in a row nobody has answered, by address."""
        self._closed = False
        driver.dial = self.dial

    def dial(self, address: str) -> None:
        """Begin an attempt."""
        if not self._closed:
            attempt = self._loop.create_task(self._attempt(address), name=f"link to {address}")
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)

    async def close(self) -> None:
        """Dial no more; a connection that stands is the driver's to end."""
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
        except (OSError, TimeoutError, ValueError) as error:  # a ValueError: what was written is no address
            self._tell(address, str(error) or "it does not answer")
            self._driver.broker.neighbourhood.unreachable(address, monotonic())
            self._driver.settings_changed()
        else:
            self._told.pop(address, None)

    def _tell(self, address: str, why: str) -> None:
        failed = self._told.get(address, 0) + 1
        if failed == 1 and len(self._told) >= TOLD_MAX:
            return
        self._told[address] = failed
        if failed == TELL_AT:
            log.warning("no link to %s: %s; trying again", address, why)


def _nothing() -> None:
    """A connection that was dialled holds no place at the door."""
