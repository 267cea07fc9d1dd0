"""Answers to queries about a broker and its events: history, marked events, and queries between brokers.

The pipeline records what happens through its observer (`pipeline/observer.py`). The answers come from
`local_status.py`, `route_explanation.py` and `status.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from plait_core import PlaitError
from plait_core.values import Json
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from ..pipeline.observer import EventObserver
from .broker_summary import ResourceFacts, describe_summary
from .event_tail import describe_event, describe_recent
from .incidents.incident_log import IncidentLog
from .local_status import describe_local_status
from .remote_queries import RemoteQueries
from .route_explanation import describe_interest, describe_route
from .tracing import Stopwatch

if TYPE_CHECKING:
    from ..broker_view import BrokerView


ANSWERS: Final[dict[str, Callable[[BrokerView, Json, float], Json]]] = {
    "broker": lambda broker, query, now: broker.describe(),
    "summary": describe_summary,
    "event": describe_event,
    "recent": describe_recent,
    "interest": describe_interest,
    "route": describe_route,
    "why": describe_local_status,
}
"""The queries that a broker answers, by topic."""


class Explainer:
    """One broker's explanations."""

    def __init__(
        self, broker: BrokerView, observer: EventObserver, send: Callable[[TraceMessage], None], now: float
    ) -> None:
        """`send` sends a frame to another broker."""
        self.history = observer.history
        self.tracing = observer.tracing
        self.queries = RemoteQueries(broker.id, send, self._answer, now)
        self.incidents = IncidentLog(broker, now)
        self._observer = observer
        self._broker = broker
        self.resources: ResourceFacts = dict
        """Reads the resources of the process; nothing without a server."""

    def observe_process(self, stopwatch: Stopwatch, resources: ResourceFacts) -> None:
        """Measure steps with the stopwatch of the process, and report its resources."""
        self.tracing.time_with(stopwatch)
        self.resources = resources

    def receive(self, frame: TraceMessage, now: float) -> None:
        """Handle a step, a query or a result of another broker."""
        match frame:
            case TraceStep():
                self.tracing.receive(frame)
            case Query() | QueryResult():
                self.queries.receive(frame, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._observer.tick(now)
        self.queries.tick(now)
        if now >= self.incidents.due_at:  # the heartbeats of links call this often enough
            self.incidents.review(now)

    def next_deadline(self) -> float | None:
        """Return when `tick` is due."""
        traced, queried = self.tracing.next_deadline(), self.queries.next_deadline()
        return queried if traced is None else traced if queried is None else min(traced, queried)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _answer(self, topic: str, query: Json, now: float) -> Json:
        answer = ANSWERS.get(topic)
        if answer is None:
            return {"error": f"this broker answers no queries about {topic[:80]!r}"}
        try:
            return answer(self._broker, query, now)
        except PlaitError as error:
            return {"error": error.message, "hint": error.hint}
