"""The part of the HTTP side that asks other brokers too: all brokers, `plait route`, `plait why`.

Whoever asks reaches one broker; that one asks the others over the overlay (`remote_queries.py`), and answers with what
it has heard after two seconds at most. Any broker will do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core import PlaitError
from plait_core.events import EventId
from plait_core.filters import parse
from plait_core.ids import id_text

from ..broker import Broker
from ..status import describe_topology
from ..tracing.delivery_explanation import decide

Json: TypeAlias = dict[str, Any]
Ask: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]
"""Asks brokers on a topic; the answers of those who gave one."""

NAMED_MAX: Final = 8
"""Brokers that an error names."""


class ExplainApi:
    """The answers."""

    def __init__(self, present: Callable[[], Broker], facts: Callable[[], Json], ask: Ask) -> None:
        """`present` gives the broker, or raises while there is none; `facts` all that is known of it."""
        self._present = present
        self._facts = facts
        self._ask = ask

    def routes(self) -> list[Route]:
        """Everything that is served."""
        return [
            Route("/api/v1/brokers", self.brokers),
            Route("/api/v1/route", self.route),
            Route("/api/v1/why", self.why),
        ]

    async def brokers(self, request: Request) -> Response:
        """All brokers: what the map says of each, and what each says of itself."""
        broker = self._present()
        shown = describe_topology(broker)["brokers"]
        reached = [int(item["id"], 16) for item in shown if item["reachable"]]
        answers = await self._ask(reached, "broker", {})
        answers[broker.id] = self._facts()
        items = []
        for item in shown:
            said = answers.get(int(item["id"], 16))
            status = item["status"] if said is None else "draining" if said.get("draining") else "ready"
            silent = {"status": "silent"} if said is None and item["reachable"] else {}
            items.append({**(said or {}), **item, "status": status, **silent})
        return JSONResponse({"items": items, "total": len(items), "offset": 0})

    async def route(self, request: Request) -> Response:
        """Where events that match `filter` go when they are published `from` a broker, and why."""
        broker = self._present()
        text = asked_for(request, "filter")
        try:
            filter = parse(text)
        except PlaitError as error:
            raise HTTPException(400, f"filter: {error.message}") from None
        start = find_broker(broker, request.query_params.get("from", ""))
        interest = await self._ask(reached_from(broker), "interest", {"filter": filter.text})
        homes = [home for home, said in interest.items() if said.get("subscriptions")]
        answers = await self._ask([start], "route", {"filter": filter.text, "homes": homes})
        if start not in answers:
            raise HTTPException(504, f"{name_of(broker, start)} does not answer")
        route = answers[start]
        for destination in route.get("destinations", []):
            said = interest.get(int(destination["id"], 16), {})
            destination |= {key: said.get(key) for key in ("subscriptions", "filters")}
        return JSONResponse(route | {"silent": [name_of(broker, b) for b in reached_from(broker) if b not in interest]})

    async def why(self, request: Request) -> Response:
        """Why `event` was, or was not, delivered to `subscription`: BROKER/NUMBER, or a number of this broker."""
        broker = self._present()
        try:
            event = EventId.parse(asked_for(request, "event"))
        except PlaitError as error:
            raise HTTPException(400, f"{error.message} ({error.hint})") from None
        home, number = _subscription(broker, asked_for(request, "subscription"))
        return JSONResponse(await self.judge(event, home, number))

    async def judge(self, event: EventId, home: int, number: int) -> Json:
        """What became of an event for a subscription: first its broker is asked, and if that does not answer, or has
        not seen the event, all others."""
        broker = self._present()
        reached = reached_from(broker)
        mine = {"event": str(event), "number": number}
        testimony = (await self._ask([home], "why", mine)).get(home) if home in reached else None
        others: dict[int, Json] = {}
        subscription = {} if testimony is None else testimony.get("subscription")
        if subscription is not None and not (testimony or {}).get("event"):
            question = {"event": str(event), "home": id_text(home), "filter": subscription.get("filter")}
            others = await self._ask([b for b in reached if b != home], "why", question)
        named = {name_of(broker, other): said for other, said in others.items()}
        verdict = decide(testimony, named, (str(event), name_of(broker, home)))
        about = {"event": str(event), "subscription": f"{name_of(broker, home)}/{number}", **verdict}
        return about | {"reports": {name_of(broker, home): testimony, **named}}


def find_broker(broker: Broker, called: str) -> int:
    """The id of the broker with this name or id; this one's when nothing is said."""
    sheets = broker.joining.overlay.map.link_states
    reached = broker.joining.overlay.map.distances(broker.id)
    if not called or called in (broker.settings.name, id_text(broker.id)):
        return broker.id
    for sheet in sorted(sheets, key=lambda sheet: sheet.origin not in reached):
        if called in (sheet.name, id_text(sheet.origin)):
            return sheet.origin
    names = ", ".join(sheet.name for sheet in sheets[:NAMED_MAX])
    raise HTTPException(404, f"no broker is called {called[:80]!r}: there are {names}")


def _subscription(broker: Broker, text: str) -> tuple[int, int]:
    """The broker and the number that `BROKER/NUMBER` names; this broker when there is but a number."""
    called, _, number = text.rpartition("/")
    if not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise HTTPException(400, f"{text[:80]!r} is no subscription: BROKER/NUMBER, as `plait ls subs` prints it")
    return find_broker(broker, called), int(number)


def asked_for(request: Request, name: str) -> str:
    """A query parameter that has to be there."""
    value = request.query_params.get(name, "")
    if not value:
        raise HTTPException(400, f"{name}= is missing")
    return value


def reached_from(broker: Broker) -> list[int]:
    """All brokers that can be asked, this one included."""
    return sorted(broker.joining.overlay.map.distances(broker.id))


def name_of(broker: Broker, id: int) -> str:
    return broker.joining.overlay.map.name(id) or id_text(id)
