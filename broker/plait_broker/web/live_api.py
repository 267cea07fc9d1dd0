"""HTTP API of the live page: the overlay, the last events, one event, the trees of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core import PlaitError
from plait_core.events import EventId
from plait_core.filters import parse
from plait_core.ids import id_text
from plait_core.rate_limit import TokenBucket
from plait_core.values import Json

from ..broker_view import BrokerView
from ..tracing.event_tail import LISTED_MAX
from ..tracing.subscription_trees import describe_trees
from .explain_api import broker_name, find_broker, reachable_brokers, required_param
from .sse import Feed, streamed

QueryBrokers: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]

TAIL_S: Final = 1.0
"""Time for which one answer about the last events serves all pages with the same filter."""

ANSWER_S: Final = 5.0
"""Timeout for queries; they have one of their own, except at a broker that is stopping."""

TAILS_MAX: Final = 16
"""Filters whose answers are kept."""

QUERIES_PER_S, QUERIES_BURST = 20.0, 60.0
"""Rate of queries to all brokers; each costs every broker a millisecond."""


class LiveApi:
    """Serves the live page."""

    def __init__(self, require_broker: Callable[[], BrokerView], query_brokers: QueryBrokers, overview: Feed) -> None:
        """`present` returns the broker, or raises NotReady."""
        self._require_broker = require_broker
        self._query_brokers = query_brokers
        self._overview = overview
        self._rate_limit = TokenBucket(QUERIES_PER_S, QUERIES_BURST, monotonic())
        self._tails: dict[str, tuple[float, asyncio.Task[Json]]] = {}

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("/api/v1/overview", self.overview),
            Route("/api/v1/overview/stream", self.stream),
            Route("/api/v1/events", self.events),
            Route("/api/v1/event", self.event),
            Route("/api/v1/tree", self.tree),
        ]

    async def overview(self, request: Request) -> Response:
        """Return the overlay's state once."""
        self._require_broker()
        return JSONResponse(self._overview.current())

    async def stream(self, request: Request) -> Response:
        """Send the overlay's state, then its changes, as server-sent events."""
        self._require_broker()
        return streamed(self._overview)

    async def events(self, request: Request) -> Response:
        """Return the last events of all brokers, each with the result of a filter."""
        self._require_broker()
        text = request.query_params.get("filter", "")
        if text:
            text = parse(text).text
        query = {"filter": text, "limit": LISTED_MAX, "matching": request.query_params.get("matching") == "1"}
        return JSONResponse(await self._tail(query))

    async def event(self, request: Request) -> Response:
        """Return what all brokers remember of one event."""
        broker = self._require_broker()
        try:
            event = EventId.parse(required_param(request, "event"))
        except PlaitError as error:
            raise HTTPException(400, f"{error.message} ({error.hint})") from None
        self._limit_rate()
        answers = await self._query_brokers(reachable_brokers(broker), "event", {"event": str(event)})
        silent = [broker_name(broker, id) for id in reachable_brokers(broker) if id not in answers]
        seen = [report | {"id": id_text(id)} for id, report in sorted(answers.items())]
        return JSONResponse({"event": str(event), "brokers": seen, "silent": silent})

    async def tree(self, request: Request) -> Response:
        """Return the publishers' brokers and paths from which events reach a subscription: its broker `at`, and its
        `filter`."""
        broker = self._require_broker()
        home = find_broker(broker, request.query_params.get("at", ""))
        return JSONResponse(describe_trees(broker, home, parse(required_param(request, "filter"))))

    def _limit_rate(self) -> None:
        if not self._rate_limit.take(monotonic()):
            raise HTTPException(429, "too many queries at once", {"retry-after": "1"})

    async def _tail(self, query: Json) -> Json:
        """Return one shared answer to all requests with the same query within a second."""
        key, now = f"{query['matching']} {query['filter']}", monotonic()
        known = self._tails.get(key)
        if known is not None and now - known[0] < TAIL_S:
            return await asyncio.shield(known[1])
        self._limit_rate()
        task = asyncio.get_running_loop().create_task(self._query_tail(query))
        self._tails.pop(key, None)
        self._tails[key] = (now, task)
        if len(self._tails) > TAILS_MAX:
            del self._tails[next(iter(self._tails))]
        try:
            return await asyncio.shield(task)
        except TimeoutError:
            raise HTTPException(503, "the broker is stopping") from None

    async def _query_tail(self, query: Json) -> Json:
        broker = self._require_broker()
        async with asyncio.timeout(ANSWER_S):
            answers = await self._query_brokers(reachable_brokers(broker), "recent", query)
        events = [
            event | {"broker": id_text(id), "at": broker_name(broker, id)}
            for id, report in sorted(answers.items())
            if isinstance(report.get("events"), list)
            for event in report["events"][:LISTED_MAX]
            if isinstance(event, dict) and isinstance(event.get("ago_s"), int | float)
        ]
        events.sort(key=lambda event: event["ago_s"])
        return {"events": events[:LISTED_MAX], "filter": query["filter"]}
