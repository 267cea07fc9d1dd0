"""uvicorn in the broker's own loop: its HTTP protocol behind our listener, without its signal handlers.

By default uvicorn would take SIGINT and SIGTERM, log in its own format, and wait without limit for a request to finish.
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
"""Timeout for a request to be complete, from its first byte or the opening of its connection."""

KEEP_ALIVE_S: Final = 30
"""Longer than a scrape interval of 15 s, so that Prometheus keeps its connection."""

HEADER_BYTES_MAX: Final = 16 * 1024
STOP_S: Final = 2

HTTP_LIMITS: Final = ConnectionLimits(
    connections_max=512, address_connections_max=256, accepts_per_s=500.0, address_accepts_per_s=250.0
)
"""Limits for dashboards, scrapers and health checks of one broker: dozens of clients."""


class HttpServer(uvicorn.Server):
    """Serves an application on connections that a listener has accepted."""

    def __init__(self, application: ASGIApp) -> None:
        config = uvicorn.Config(
            application,
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client's address is that of its socket; headers are not trusted
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
        """Start serving; `protocol` makes the protocol of each connection."""
        self._serving = asyncio.get_running_loop().create_task(self.serve())

    def protocol(self, on_lost: Callable[[], None]) -> asyncio.Protocol:
        """Return the protocol of a new connection; it calls `left` when the connection is lost."""
        return _Connection(self, on_lost)

    def connection_opened(self) -> None:
        """Count a new connection."""
        self._open += 1
        self._idle.clear()

    def connection_lost(self) -> None:
        """Count a lost connection."""
        self._open -= 1
        if not self._open:
            self._idle.set()

    async def stop(self) -> None:
        """Let requests finish for STOP_S, then abort their connections."""
        self.should_exit = True
        if self._serving is not None:
            await self._serving
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self._idle.wait()

    async def startup(self, sockets: Any = None) -> None:
        """Listen nowhere: connections are handed over."""
        self.started = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the broker."""
        yield


class _Connection(H11Protocol):
    """uvicorn's protocol with a timeout for each request."""

    def __init__(self, server: HttpServer, on_lost: Callable[[], None]) -> None:
        super().__init__(server.config, server.server_state, {})
        self._server = server
        self._on_lost = on_lost
        self._request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._server.connection_opened()
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
        self._on_lost()
        self._server.connection_lost()

    def _stop_request_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None
