"""HTTP API that queries other brokers too: all brokers, `plait route`, `plait why`.

The broker that receives the request queries the others over the overlay (`remote_queries.py`), and answers within two
seconds with the results that it has received. Any broker may be requested.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from plait_core import PlaitError
from plait_core.events import EventId
from plait_core.filters import parse
from plait_core.ids import id_text
from plait_core.values import Json

from ..broker_view import BrokerView
from ..status import describe_topology
from ..tracing.delivery_explanation import explain_delivery

QueryBrokers: TypeAlias = Callable[[Iterable[int], str, Json], Awaitable[dict[int, Json]]]
"""Queries brokers on a topic; returns the results of those that answered."""

NAMED_MAX: Final = 8
"""Brokers listed in an error."""


class ExplainApi:
    """Serves explanations of routes and deliveries."""

    def __init__(
        self, require_broker: Callable[[], BrokerView], facts: Callable[[], Json], query_brokers: QueryBrokers
    ) -> None:
        """`require_broker` returns the broker, or raises NotReady; `facts` returns its status."""
        self._require_broker = require_broker
        self._facts = facts
        self._query_brokers = query_brokers

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            Route("/api/v1/brokers", self.brokers),
            Route("/api/v1/route", self.route),
            Route("/api/v1/why", self.why),
        ]

    async def brokers(self, request: Request) -> Response:
        """List all brokers: their link state, and the status that each reports."""
        broker = self._require_broker()
        shown = describe_topology(broker)["brokers"]
        reachable = [int(item["id"], 16) for item in shown if item["reachable"]]
        answers = await self._query_brokers(reachable, "broker", {})
        answers[broker.id] = self._facts()
        items = []
        for item in shown:
            report = answers.get(int(item["id"], 16))
            status = item["status"] if report is None else "draining" if report.get("draining") else "ready"
            silent = {"status": "silent"} if report is None and item["reachable"] else {}
            items.append({**(report or {}), **item, "status": status, **silent})
        return JSONResponse({"items": items, "total": len(items), "offset": 0})

    async def route(self, request: Request) -> Response:
        """Explain where events that match `filter` go when published `from` a broker."""
        broker = self._require_broker()
        filter = parse(required_param(request, "filter"))
        start = find_broker(broker, request.query_params.get("from", ""))
        interest = await self._query_brokers(reachable_brokers(broker), "interest", {"filter": filter.text})
        destinations = [home for home, report in interest.items() if report.get("subscriptions")]
        answers = await self._query_brokers([start], "route", {"filter": filter.text, "homes": destinations})
        if start not in answers:
            raise HTTPException(504, f"{broker_name(broker, start)} does not answer")
        route = answers[start]
        for destination in route.get("destinations", []):
            report = interest.get(int(destination["id"], 16), {})
            destination |= {key: report.get(key) for key in ("subscriptions", "filters")}
        return JSONResponse(
            route | {"silent": [broker_name(broker, b) for b in reachable_brokers(broker) if b not in interest]}
        )

    async def why(self, request: Request) -> Response:
        """Explain why `event` was, or was not, delivered to `subscription`: BROKER/NUMBER, or a number of this
        broker."""
        broker = self._require_broker()
        try:
            event = EventId.parse(required_param(request, "event"))
        except PlaitError as error:
            raise HTTPException(400, f"{error.message} ({error.hint})") from None
        home, number = _subscription(broker, required_param(request, "subscription"))
        return JSONResponse(await self.explain(event, home, number))

    async def explain(self, event: EventId, home: int, number: int) -> Json:
        """Explain what became of an event for a subscription. Query its broker first, and all others if it does not
        answer or has not received the event."""
        broker = self._require_broker()
        reachable = reachable_brokers(broker)
        mine = {"event": str(event), "number": number}
        report_of_home = (await self._query_brokers([home], "why", mine)).get(home) if home in reachable else None
        others: dict[int, Json] = {}
        subscription = {} if report_of_home is None else report_of_home.get("subscription")
        if subscription is not None and not (report_of_home or {}).get("event"):
            query = {"event": str(event), "home": id_text(home), "filter": subscription.get("filter")}
            others = await self._query_brokers([b for b in reachable if b != home], "why", query)
        named = {broker_name(broker, other): report for other, report in others.items()}
        explanation = explain_delivery(report_of_home, named, (str(event), broker_name(broker, home)))
        about = {"event": str(event), "subscription": f"{broker_name(broker, home)}/{number}", **explanation}
        return about | {"reports": {broker_name(broker, home): report_of_home, **named}}


def find_broker(broker: BrokerView, name: str) -> int:
    """Return the id of the broker with this name or id; this one's if `name` is empty."""
    link_states = broker.overlay.map.link_states
    reachable = broker.overlay.map.distances(broker.id)
    if not name or name in (broker.settings.name, id_text(broker.id)):
        return broker.id
    for link_state in sorted(link_states, key=lambda link_state: link_state.origin not in reachable):
        if name in (link_state.name, id_text(link_state.origin)):
            return link_state.origin
    names = ", ".join(link_state.name for link_state in link_states[:NAMED_MAX])
    raise HTTPException(404, f"no broker is called {name[:80]!r}: there are {names}")


def _subscription(broker: BrokerView, text: str) -> tuple[int, int]:
    """Return the broker and the number that `BROKER/NUMBER` names; this broker's for a plain number."""
    name, _, number = text.rpartition("/")
    if not (number.isascii() and number.isdecimal() and len(number) < 20):
        raise HTTPException(400, f"{text[:80]!r} is no subscription: BROKER/NUMBER, as `plait ls subs` prints it")
    return find_broker(broker, name), int(number)


def required_param(request: Request, name: str) -> str:
    """Return a query parameter; raise HTTPException 400 if it is missing."""
    value = request.query_params.get(name, "")
    if not value:
        raise HTTPException(400, f"{name}= is missing")
    return value


def reachable_brokers(broker: BrokerView) -> list[int]:
    """Return all reachable brokers, including this one."""
    return sorted(broker.overlay.map.distances(broker.id))


def broker_name(broker: BrokerView, id: int) -> str:
    return broker.overlay.map.name(id) or id_text(id)
