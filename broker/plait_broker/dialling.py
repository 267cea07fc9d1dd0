"""Dialling other brokers: one task for each address, which connects, waits until that ends, and connects again."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from typing import Final

from .connection import Connection
from .driver import BrokerDriver
from .endpoints import Endpoint

PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 3.0
"""Between two attempts: short at first, so that a broker that restarts is back soon; then longer, with jitter."""

ATTEMPT_S: Final = 5.0
"""For a connection to stand."""

GOOD_S: Final = 5.0
"""A connection that lasted so long was a good one: the pauses begin anew."""

log: Final = logging.getLogger(__name__)


class Dialler:
    """Keeps a connection to one other broker."""

    def __init__(self, endpoint: Endpoint, driver: BrokerDriver, tls: ssl.SSLContext | None) -> None:
        self._endpoint = endpoint
        self._driver = driver
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._told = False

    def start(self) -> None:
        """From now on."""
        self._task = self._loop.create_task(self._run(), name=f"link to {self._endpoint}")

    async def close(self) -> None:
        """Dial no more; a connection that stands is the driver's to end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        pause_s = PAUSE_S
        while True:
            began = self._loop.time()
            await self._connect()
            pause_s = PAUSE_S if self._loop.time() - began >= GOOD_S else min(2 * pause_s, PAUSE_MAX_S)
            await asyncio.sleep(pause_s * (0.5 + secrets.randbelow(500) / 1000))

    async def _connect(self) -> None:
        """One connection, from its attempt to its end."""
        gone = asyncio.Event()
        try:
            async with asyncio.timeout(ATTEMPT_S):
                await self._loop.create_connection(
                    lambda: Connection(self._driver, gone.set, dialled=True),
                    self._endpoint.host,
                    self._endpoint.port,
                    ssl=self._tls,
                )
        except (OSError, TimeoutError) as error:
            if not self._told:
                self._told = True
                log.warning("no link to %s: %s; trying again", self._endpoint, str(error) or "it does not answer")
            return
        self._told = False
        await gone.wait()
