"""The part of the HTTP side that the live page reads: the whole overlay, the last events, one event's way, the trees of
a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic
from typing import Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core import PlaitError
from plait_core.events import EventId
from plait_core.filters import Filter, parse
from plait_core.ids import id_text
from plait_core.rate_limit import TokenBucket

from ..broker import Broker
from ..tracing.event_tail import LISTED_MAX
from ..tracing.subscription_trees import describe_trees
from .explain_api import asked_for, find_broker, name_of, reached_from
from .sse import Feed, streamed

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]

TAIL_S: Final = 1.0
"""The last events are asked for no more often, however many pages show them with the same filter."""

ANSWER_S: Final = 5.0
"""Questions have their own end, but for those of a broker that is stopping."""

TAILS_MAX: Final = 16
"""Filters whose answers are kept."""

QUESTIONS_PER_S, QUESTIONS_BURST = 20.0, 60.0
"""That all brokers are asked; each costs everyone a millisecond."""


class LiveApi:
    """The answers."""

    def __init__(self, present: Callable[[], Broker], ask: Ask, overview: Feed) -> None:
        """`present` gives the broker, or raises while there is none."""
        self._present = present
        self._ask = ask
        self._overview = overview
        self._pace = TokenBucket(QUESTIONS_PER_S, QUESTIONS_BURST, monotonic())
        self._tails: dict[str, tuple[float, asyncio.Task[Json]]] = {}

    def routes(self) -> list[Route]:
        """Everything that is served."""
        return [
            Route("/api/v1/overview", self.overview),
            Route("/api/v1/overview/stream", self.stream),
            Route("/api/v1/events", self.events),
            Route("/api/v1/passage", self.passage),
            Route("/api/v1/tree", self.tree),
        ]

    async def overview(self, request: Request) -> Response:
        """The whole overlay, once."""
        self._present()
        return JSONResponse(self._overview.current())

    async def stream(self, request: Request) -> Response:
        """The same, then what changes, as server-sent events."""
        self._present()
        return streamed(self._overview)

    async def events(self, request: Request) -> Response:
        """The last events of all brokers, each with what a filter says of it."""
        self._present()
        text = request.query_params.get("filter", "")
        if text:
            text = _filter(text).text
        question = {"filter": text, "limit": LISTED_MAX, "matching": request.query_params.get("matching") == "1"}
        return JSONResponse(await self._tail(question))

    async def passage(self, request: Request) -> Response:
        """What became of one event, as all brokers remember it."""
        broker = self._present()
        try:
            event = EventId.parse(asked_for(request, "event"))
        except PlaitError as error:
            raise HTTPException(400, f"{error.message} ({error.hint})") from None
        self._question()
        answers = await self._ask(reached_from(broker), "passage", {"event": str(event)})
        silent = [name_of(broker, id) for id in reached_from(broker) if id not in answers]
        seen = [said | {"id": id_text(id)} for id, said in sorted(answers.items())]
        return JSONResponse({"event": str(event), "brokers": seen, "silent": silent})

    async def tree(self, request: Request) -> Response:
        """From where, and which way, events come to a subscription: its broker `at`, and its `filter`."""
        broker = self._present()
        home = find_broker(broker, request.query_params.get("at", ""))
        return JSONResponse(describe_trees(broker, home, _filter(asked_for(request, "filter"))))

    def _question(self) -> None:
        if not self._pace.take(monotonic()):
            raise HTTPException(429, "too many questions at once", {"retry-after": "1"})

    async def _tail(self, question: Json) -> Json:
        """One answer for all who ask the same within a second."""
        key, now = f"{question['matching']} {question['filter']}", monotonic()
        known = self._tails.get(key)
        if known is not None and now - known[0] < TAIL_S:
            return await asyncio.shield(known[1])
        self._question()
        task = asyncio.get_running_loop().create_task(self._ask_for_tail(question))
        self._tails.pop(key, None)
        self._tails[key] = (now, task)
        if len(self._tails) > TAILS_MAX:
            del self._tails[next(iter(self._tails))]
        try:
            return await asyncio.shield(task)
        except TimeoutError:
            raise HTTPException(503, "the broker is stopping") from None

    async def _ask_for_tail(self, question: Json) -> Json:
        broker = self._present()
        async with asyncio.timeout(ANSWER_S):
            answers = await self._ask(reached_from(broker), "recent", question)
        events = [
            event | {"broker": id_text(id), "at": name_of(broker, id)}
            for id, said in sorted(answers.items())
            if isinstance(said.get("events"), list)
            for event in said["events"][:LISTED_MAX]
            if isinstance(event, dict) and isinstance(event.get("ago_s"), int | float)
        ]
        events.sort(key=lambda event: event["ago_s"])
        return {"events": events[:LISTED_MAX], "filter": question["filter"]}


def _filter(text: str) -> Filter:
    try:
        return parse(text)
    except PlaitError as error:
        raise HTTPException(400, f"filter: {error.message}") from None
