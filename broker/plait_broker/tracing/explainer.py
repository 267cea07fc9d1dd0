"""Answers to questions about a broker and its events: history, marked events, and queries between brokers.

The pipeline records what happens through its observer (`pipeline/observer.py`). The answers come from
`local_status.py`, `route_explanation.py` and `status.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core import PlaitError
from plait_core.wire.frame_types.trace_frames import Query, QueryResult, TraceMessage, TraceStep

from ..pipeline.observer import EventObserver
from .broker_summary import DigestResources, describe_digest
from .event_tail import describe_passage, describe_recent
from .local_status import testify
from .remote_queries import RemoteQueries
from .route_explanation import describe_interest, describe_route

if TYPE_CHECKING:
    from ..broker import Broker

Json: TypeAlias = dict[str, Any]

ABOUT: Final[dict[str, Callable[[Broker, Json, float], Json]]] = {
    "broker": lambda broker, question, now: broker.describe(),
    "digest": describe_digest,
    "passage": describe_passage,
    "recent": describe_recent,
    "interest": describe_interest,
    "route": describe_route,
    "why": testify,
}
"""What may be asked of a broker, by topic."""


class Explainer:
    """One broker's explanations."""

    def __init__(
        self, broker: Broker, observer: EventObserver, tell: Callable[[TraceMessage], None], now: float
    ) -> None:
        """`tell` sends a frame to another broker."""
        self.memory = observer.history
        self.tracing = observer.tracing
        self.inquiries = RemoteQueries(broker.id, tell, self._answer, now)
        self._observer = observer
        self._broker = broker
        self.resources: DigestResources = dict
        """What the process takes of its machine: the face knows."""

    def hear(self, frame: TraceMessage, now: float) -> None:
        """Another broker tells, asks or answers."""
        match frame:
            case TraceStep():
                self.tracing.hear(frame)
            case Query() | QueryResult():
                self.inquiries.hear(frame, now)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._observer.tick(now)
        self.inquiries.tick(now)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        traced, asked = self.tracing.next_deadline(), self.inquiries.next_deadline()
        return asked if traced is None else traced if asked is None else min(traced, asked)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _answer(self, topic: str, question: Json, now: float) -> Json:
        about = ABOUT.get(topic)
        if about is None:
            return {"error": f"nothing is known here about {topic[:80]!r}"}
        try:
            return about(self._broker, question, now)
        except PlaitError as error:
            return {"error": error.message, "hint": error.hint}
