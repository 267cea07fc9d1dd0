"""The HTTP side of a broker: health, metrics, what goes on as JSON and as a stream, the segments of its telemetry. Read
only, but for how far readers of these are.

Requests are small and have no body; whoever does not finish one in time is hung up on. When others than this machine
can reach it, all but health wants a token; when only this machine can, the Host header must name it, so that a web page
whose name was rebound to 127.0.0.1 reads nothing.
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

from plait_core.errors import PlaitError
from plait_core.rate_limit import TokenBuckets
from plait_telemetry.recording import Recording

from ..broker import Broker
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
"""Of a path with its query: a filter of some thousand characters, as people write them, fits."""

REQUESTS_PER_S, REQUESTS_BURST = 300.0, 3_000.0
"""Of one address: fifty people behind one gateway may open the page at once."""

ADDRESSES_MAX: Final = 1_000
"""Whose requests are counted; those that asked least lately are forgotten."""

ITEMS_DEFAULT, ITEMS_MAX = 1_000, 10_000
"""Items of a list that one answer holds: some ten milliseconds to describe."""

Json: TypeAlias = dict[str, Any]
MayRead: TypeAlias = Callable[[str, str], bool]
"""Whether someone with this token, at this address, may look."""

_THIS_MACHINE: Final = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.ASCII | re.IGNORECASE)

_OPEN: Final = {"/healthz", "/readyz"}
"""For those who only watch whether it lives: they tell nothing else."""

CONTENT_SECURITY_POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    b"form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing but the files of the package runs, and none of them may make markup of text."""

_HEADERS: Final = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
]


class NotReady(PlaitError):
    """The broker is not there yet."""

    retryable = True


class Watched(Protocol):
    """What is shown."""

    @property
    def status(self) -> str:
        """`ready`, or why it is not."""
        ...

    @property
    def broker(self) -> Broker | None:
        """None while it starts."""
        ...

    def facts(self) -> Json:
        """What the face knows beside the broker: addresses, the log, the loop."""
        ...

    async def ask(self, brokers: Iterable[int], topic: str, question: Json) -> dict[int, Json]:
        """Ask brokers, of which this may be one; the answers of those who gave one in time."""
        ...


class Pages:
    """The answers."""

    def __init__(
        self,
        watched: Watched,
        registry: CollectorRegistry,
        feed: Feed,
        overview: Feed,
        tables: Path | None,
        telemetry: Callable[[], Recording | None],
    ) -> None:
        """`feed` is of this broker, `overview` of all; `tables` is where an analysis writes its own; `telemetry` is
        what records, if something does."""
        self._watched = watched
        self._registry = registry
        self._feed = feed
        self._explanations = ExplainApi(lambda: _present(watched), lambda: broker_facts(watched), watched.ask)
        self._tables = tables
        self._segments = TelemetryApi(telemetry)
        self._watching = LiveApi(lambda: _present(watched), watched.ask, overview)

    def routes(self) -> list[Route]:
        """Everything that is served."""
        lists: dict[str, Callable[[Broker], list[Json]]] = {
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
            *self._explanations.routes(),
            *self._watching.routes(),
            *AnalyticsApi(self._tables).routes(),
            *self._segments.routes(),
            *(Route(f"/api/v1/{name}", self._list_of(describe)) for name, describe in lists.items()),
        ]

    async def index(self, request: Request) -> Response:
        """What there is to read."""
        return JSONResponse({"paths": [route.path for route in self.routes()]})

    async def alive(self, request: Request) -> Response:
        """The process is there and its loop turns."""
        return JSONResponse({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        """Whether clients should be sent here."""
        status = self._watched.status
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(self._registry), headers={"content-type": content_type})

    async def broker(self, request: Request) -> Response:
        """The broker itself."""
        return JSONResponse(broker_facts(self._watched))

    async def topology(self, request: Request) -> Response:
        """Brokers, and the links between them."""
        found = describe_topology(_present(self._watched))
        found["brokers"][0] |= broker_facts(self._watched)
        return JSONResponse(found)

    async def stream(self, request: Request) -> Response:
        """A snapshot, then what changes, as server-sent events."""
        _present(self._watched)
        return streamed(self._feed)

    def _list_of(self, describe: Callable[[Broker], list[Json]]) -> Callable[[Request], Any]:
        async def items(request: Request) -> Response:
            limit = number_param(request, "limit", ITEMS_DEFAULT, ITEMS_MAX)
            offset = number_param(request, "offset", 0, 2**63)
            found = describe(_present(self._watched))
            return JSONResponse({"items": found[offset : offset + limit], "total": len(found), "offset": offset})

        return items


def broker_facts(watched: Watched) -> Json:
    """The broker itself, as the protocol and the face know it."""
    return _present(watched).describe() | watched.facts() | {"status": watched.status}


def application(static_files: Pages, may_read: MayRead, *, loopback: bool) -> ASGIApp:
    """The ASGI application. `loopback`: only this machine can reach it."""
    handlers: dict[Any, Any] = {HTTPException: _refused, NotReady: _not_ready}
    guard = Middleware(Guard, may_read=may_read, loopback=loopback)
    return Starlette(routes=list(static_files.routes()), middleware=[guard], exception_handlers=handlers)


class Guard:
    """Turns away what is too large, mistaken in its host, or not permitted, before anything else looks at it."""

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
                answered, message["headers"] = True, [*message["headers"], *_HEADERS]
            await send(message)

        refusal = self._refusal(scope)
        try:
            await (refusal or self._app)(scope, receive, send_guarded)
        except asyncio.CancelledError:  # the server stops, and has waited long enough
            if not answered:
                await _error(503, "the broker is stopping", close=True)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if len(scope["raw_path"]) + len(scope["query_string"]) > PATH_CHARACTERS_MAX:
            return _error(414, "the path is too long", close=True)
        if headers.get(b"content-length", "0") != "0" or b"transfer-encoding" in headers:
            return _error(413, "nothing here takes a body", close=True)
        if self._loopback and not _THIS_MACHINE.fullmatch(headers.get(b"host", "")):
            return _error(421, "this answers to localhost only", hint="http://127.0.0.1 or http://localhost")
        if not self._buckets.take(str((scope.get("client") or ("",))[0]), monotonic()):
            return _error(429, "too many requests", hint="not more than some hundred a second")
        if scope["path"] in _OPEN or is_page(scope["path"]):
            return None
        scheme, _, token = headers.get(b"authorization", "").partition(" ")
        offered = token.strip() if scheme.lower() == "bearer" else ""
        client = scope.get("client")
        if not self._may_read(offered, str(client[0]) if client else ""):
            refused = _error(401, "a token is wanted", hint="Authorization: Bearer TOKEN")
            refused.headers["www-authenticate"] = "Bearer"
            return refused
        return None


def _present(watched: Watched) -> Broker:
    broker = watched.broker
    if broker is None:
        raise NotReady("the broker is starting")
    return broker


def _error(status: int, message: str, *, hint: str = "", close: bool = False) -> Response:
    response = JSONResponse({"error": message, **({"hint": hint} if hint else {})}, status)
    if close:  # what follows is not read
        response.headers["connection"] = "close"
    return response


async def _refused(request: Request, error: HTTPException) -> Response:
    response = _error(error.status_code, error.detail)
    response.headers.update(error.headers or {})
    return response


async def _not_ready(request: Request, error: NotReady) -> Response:
    return _error(503, error.message)
