"""uvicorn in the broker's own loop: its HTTP protocol behind our listener, its signals left alone.

uvicorn would take SIGINT and SIGTERM for itself, log in its own way, and wait for ever for a request that never ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from ..server.connection_limits import ConnectionLimits

REQUEST_S: Final = 10.0
"""For a request to be complete, from the first of its bytes or the opening of its connection."""

KEEP_ALIVE_S: Final = 30
"""Longer than a scrape interval of 15 s, so that Prometheus keeps its connection."""

HEADER_BYTES_MAX: Final = 16 * 1024
STOP_S: Final = 2

HTTP_DOOR: Final = ConnectionLimits(
    connections_max=512, address_connections_max=256, accepts_per_s=500.0, address_accepts_per_s=250.0
)
"""Dashboards, scrapers and health checks of one broker: people and machines in dozens."""


class HttpServer(uvicorn.Server):
    """Serves an application over connections that are handed to it."""

    def __init__(self, application: ASGIApp) -> None:
        config = uvicorn.Config(
            application,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a caller's address is where it calls from, whatever it says
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_S,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        )
        config.load()
        super().__init__(config)
        self.servers = []
        self._open = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; connections come through `protocol`."""
        self._serving = asyncio.get_running_loop().create_task(self.serve())

    def protocol(self, left: Callable[[], None]) -> asyncio.Protocol:
        """The protocol of a new connection; `left` is called when it is gone."""
        return _Connection(self, left)

    def here(self) -> None:
        """A connection is made."""
        self._open += 1
        self._idle.clear()

    def gone(self) -> None:
        """A connection is lost."""
        self._open -= 1
        if not self._open:
            self._idle.set()

    async def stop(self) -> None:
        """Let requests under way finish, for a moment."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self._idle.wait()

    async def startup(self, sockets: Any = None) -> None:
        """Nothing to listen on: connections are handed over."""
        self.started = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the broker's."""
        yield


class _Connection(H11Protocol):
    """uvicorn's, but a request has to come to its end."""

    def __init__(self, server: HttpServer, left: Callable[[], None]) -> None:
        super().__init__(server.config, server.server_state, {})
        self._server = server
        self._left = left
        self._request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._server.here()
        self._request_timer = self.loop.call_later(REQUEST_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn's annotation leaves out that there may be none
        if cycle is not None and not cycle.response_complete:
            self._stop_request_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self.transport.abort)

    def on_response_complete(self) -> None:
        self._stop_request_timer()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_request_timer()
        super().connection_lost(exc)
        self._left()
        self._server.gone()

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
