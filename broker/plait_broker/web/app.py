"""The ASGI application of a broker: health, metrics, status as JSON and as a stream, telemetry files. Read only, except
for readers' positions in telemetry.

Requests are small and have no body, and a connection whose request is not complete in time is closed. If other machines
can reach the server, everything except health needs a token. If only this machine can, the Host header must name it, so
that a web page whose name was rebound to 127.0.0.1 reads nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plait_core.errors import FilterError, PlaitError
from plait_core.rate_limit import TokenBuckets
from plait_core.values import Json
from plait_telemetry.recording import Recording

from ..broker_view import BrokerView
from ..status import (
    describe_advertisements,
    describe_clients,
    describe_links,
    describe_subscriptions,
    describe_topology,
)
from . import static_files
from .analytics_api import AnalyticsApi
from .explain_api import ExplainApi
from .live_api import LiveApi
from .query_params import number_param
from .sse import Feed, streamed
from .static_files import is_page
from .telemetry_api import TelemetryApi

PATH_CHARACTERS_MAX: Final = 4096
"""Characters of a path with its query: enough for a filter of some thousand characters."""

REQUESTS_PER_S, REQUESTS_BURST = 300.0, 3_000.0
"""Rate of one address: fifty people behind one gateway may open the page at once."""

ADDRESSES_MAX: Final = 1_000
"""Addresses whose requests are counted. The least recent one is removed first."""

ITEMS_DEFAULT, ITEMS_MAX = 1_000, 10_000
"""Items of a list in one answer: about ten milliseconds to describe."""

MayRead: TypeAlias = Callable[[str, str], bool]
"""Returns whether a client with this token, at this address, may read."""

_THIS_MACHINE: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)

_OPEN: Final = {"/healthz", "/readyz"}
"""Paths for health checks, which reveal nothing else and need no token."""

CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    b"connect-src 'self' http://127.0.0.1:* http://localhost:*; "
    b"form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only files of the package run, and none of them may turn text into markup. On one machine a page whose broker has
died may look which other broker is alive."""

_COMMON_HEADERS: Final = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
]
_HEADERS: Final = [*_COMMON_HEADERS, (b"cross-origin-resource-policy", b"same-origin")]
_OPEN_HEADERS: Final = [*_COMMON_HEADERS, (b"cross-origin-resource-policy", b"cross-origin")]
"""The page of another broker may see that this one is alive. It cannot read the answer."""


class NotReady(PlaitError):
    """The broker is still starting."""

    retryable = True


class ServedBroker(Protocol):
    """The broker that the application serves."""

    @property
    def status(self) -> str:
        """`ready`, or the reason why not."""
        ...

    @property
    def broker(self) -> BrokerView | None:
        """None during the start."""
        ...

    def facts(self) -> Json:
        """Return the server's status: addresses, log, loop."""
        ...

    async def query_brokers(self, brokers: Iterable[int], topic: str, query: Json) -> dict[int, Json]:
        """Query brokers, which may include this one; return the results of those that answered in time."""
        ...


class HttpApi:
    """Serves the API and the pages."""

    def __init__(
        self,
        served: ServedBroker,
        registry: CollectorRegistry,
        feed: Feed,
        overview: Feed,
        tables: Path | None,
        telemetry: Callable[[], Recording | None],
    ) -> None:
        """`feed` streams this broker, `overview` all brokers; `tables` is the directory of an analysis; `telemetry`
        returns the recording, if there is one."""
        self._served = served
        self._registry = registry
        self._feed = feed
        self._explain_api = ExplainApi(
            lambda: require_broker(served), lambda: broker_facts(served), served.query_brokers
        )
        self._tables = tables
        self._telemetry_api = TelemetryApi(telemetry)
        self._live_api = LiveApi(lambda: require_broker(served), served.query_brokers, overview)

    def routes(self) -> list[Route]:
        """Return all routes."""
        lists: dict[str, Callable[[BrokerView], list[Json]]] = {
            "links": describe_links,
            "clients": describe_clients,
            "subscriptions": describe_subscriptions,
            "advertisements": describe_advertisements,
        }
        return [
            *static_files.routes(),
            Route("/api/v1", self.index),
            Route("/healthz", self.alive),
            Route("/readyz", self.ready),
            Route("/metrics", self.metrics),
            Route("/api/v1/broker", self.broker),
            Route("/api/v1/topology", self.topology),
            Route("/api/v1/stream", self.stream),
            *self._explain_api.routes(),
            *self._live_api.routes(),
            *AnalyticsApi(self._tables).routes(),
            *self._telemetry_api.routes(),
            *(Route(f"/api/v1/{name}", self._list_of(describe)) for name, describe in lists.items()),
        ]

    async def index(self, request: Request) -> Response:
        """List the paths."""
        return JSONResponse({"paths": [route.path for route in self.routes()]})

    async def alive(self, request: Request) -> Response:
        """Report that the process runs and its loop turns."""
        return JSONResponse({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Report whether clients should be sent here."""
        status = self._served.status
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})

    async def broker(self, request: Request) -> Response:
        """Return the broker's status."""
        return JSONResponse(broker_facts(self._served))

    async def topology(self, request: Request) -> Response:
        """Return the brokers and the links between them."""
        found = describe_topology(require_broker(self._served))
        found["brokers"][0] |= broker_facts(self._served)
        return JSONResponse(found)

    async def stream(self, request: Request) -> Response:
        """Send a snapshot, then its changes, as server-sent events."""
        require_broker(self._served)
        return streamed(self._feed)

    def _list_of(self, describe: Callable[[BrokerView], list[Json]]) -> Callable[[Request], Any]:
        async def items(request: Request) -> Response:
            limit = number_param(request, "limit", ITEMS_DEFAULT, ITEMS_MAX)
            offset = number_param(request, "offset", 0, 2**63)
            found = describe(require_broker(self._served))
            return JSONResponse({"items": found[offset : offset + limit], "total": len(found), "offset": offset})

        return items


def broker_facts(served: ServedBroker) -> Json:
    """Return the broker's status, as the protocol and the server report it."""
    return require_broker(served).describe() | served.facts() | {"status": served.status}


def application(api: HttpApi, may_read: MayRead, *, loopback: bool) -> ASGIApp:
    """Return the ASGI application. `loopback`: only this machine can reach it."""
    handlers: dict[Any, Any] = {HTTPException: _http_error, NotReady: _not_ready, FilterError: _filter_error}
    guard = Middleware(Guard, may_read=may_read, loopback=loopback)
    return Starlette(routes=list(api.routes()), middleware=[guard], exception_handlers=handlers)


class Guard:
    """Rejects requests that are too large, name the wrong host, come too fast or lack permission, before any other
    code."""

    def __init__(self, app: ASGIApp, may_read: MayRead, loopback: bool) -> None:
        self._app = app
        self._may_read = may_read
        self._loopback = loopback
        self._buckets: TokenBuckets[str] = TokenBuckets(REQUESTS_PER_S, REQUESTS_BURST, ADDRESSES_MAX)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http", "there is neither lifespan nor websocket here"

        answered = False

        async def send_guarded(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                headers = _OPEN_HEADERS if scope["path"] in _OPEN else _HEADERS
                answered, message["headers"] = True, [*message["headers"], *headers]
            await send(message)

        rejection = self._rejection(scope)
        try:
            await (rejection or self._app)(scope, receive, send_guarded)
        except asyncio.CancelledError:  # the server stops, and has waited long enough
            if not answered:
                await _error(503, "the broker is stopping", close=True)(scope, receive, send_guarded)

    def _rejection(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if len(scope["raw_path"]) + len(scope["query_string"]) > PATH_CHARACTERS_MAX:
            return _error(414, "the path is too long", close=True)
        if headers.get(b"content-length", "0") != "0" or b"transfer-encoding" in headers:
            return _error(413, "requests here have no body", close=True)
        if self._loopback and not _THIS_MACHINE.fullmatch(headers.get(b"host", "")):
            return _error(
                421, "this server answers requests to localhost only", hint="http://127.0.0.1 or http://localhost"
            )
        if not self._buckets.take(str((scope.get("client") or ("",))[0]), monotonic()):
            return _error(429, "too many requests", hint="a few hundred a second are allowed")
        if scope["path"] in _OPEN or is_page(scope["path"]):
            return None
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else ""
        client = scope.get("client")
        if not self._may_read(given, str(client[0]) if client else ""):
            rejected = _error(401, "a token is required", hint="Authorization: Bearer TOKEN")
            rejected.headers["www-authenticate"] = "Bearer"
            return rejected
        return None


def require_broker(served: ServedBroker) -> BrokerView:
    broker = served.broker
    if broker is None:
        raise NotReady("the broker is starting")
    return broker


def _error(status: int, message: str, *, hint: str = "", close: bool = False) -> Response:
    response = JSONResponse({"error": message, **({"hint": hint} if hint else {})}, status)
    if close:  # the rest of the request is not read
        response.headers["connection"] = "close"
    return response


async def _http_error(request: Request, error: HTTPException) -> Response:
    response = _error(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _filter_error(request: Request, error: FilterError) -> Response:
    """Return what is wrong with a filter and where, so that a page can show it as the prompt does."""
    place = f" at column {error.column}" if error.column else ""
    facts = {"error": f"filter: {error.message}{place}", "text": error.text, "column": error.column}
    return JSONResponse(facts | ({"hint": error.hint} if error.hint else {}), 400)


async def _not_ready(request: Request, error: NotReady) -> Response:
    return _error(503, error.message)
