"""What a broker can say of itself and of events: memory, marked events, and the questions that brokers ask each other.

This is beside the pipeline (`pipeline.py`), which tells it what happens; `local_status.py`, `route_explanation.py` and
`status.py` are what it answers with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plait_core import PlaitError
from plait_core.telemetry import TO_BROKER
from plait_core.wire import Destination, EventFrame, Forward
from plait_core.wire.frame_types.trace_frames import MARKED, Query, QueryResult, TraceMessage, TraceStep

from ..telemetry.event_records import BrokerTelemetry
from .broker_summary import DigestResources, describe_digest
from .event_history import EventHistory
from .event_tail import describe_passage, describe_recent
from .local_status import testify
from .remote_queries import RemoteQueries
from .route_explanation import describe_interest, describe_route
from .tracing import Tracing

if TYPE_CHECKING:
    from ..broker import Broker
    from ..clients.delivery_queue import Queued
    from ..clients.subscriptions import Subscription

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

    def __init__(self, broker: Broker, tell: Callable[[TraceMessage], None], now: float) -> None:
        """`tell` sends a frame to another broker."""
        self.memory = EventHistory()
        self.tracing = Tracing(broker.id, broker.interest, tell, self._tell_client, now)
        self.inquiries = RemoteQueries(broker.id, tell, self._answer, now)
        self._broker = broker
        self.telemetry: BrokerTelemetry | None = None
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
        self.tracing.tick(now)
        self.inquiries.tick(now)

    def next_deadline(self) -> float | None:
        """When `tick` is to be called."""
        traced, asked = self.tracing.next_deadline(), self.inquiries.next_deadline()
        return asked if traced is None else traced if asked is None else min(traced, asked)

    # --- what ends ----------------------------------------------------------------------------------------------------

    def dropped(self, subscription: Subscription, entry: Queued, reason: str, now: float) -> None:
        """One delivery will not be."""
        self.memory.drop(entry.frame, reason, now, subscription=subscription.number)
        if self.telemetry is not None and not subscription.filter.system:
            self.telemetry.dropped_delivery(subscription, entry, reason, now)
        if self.tracing.live:
            waited_us = max(0, round((now - entry.arrived) * 1_000_000))
            self.tracing.dropped(entry.frame, reason, entry.delay_us + waited_us, subscription.number)

    def waited(self, subscription: Subscription, entry: Queued, delay_us: int, now: float) -> None:
        """A delivery that had waited is written."""
        self.memory.waited(entry.frame, subscription.number, now)
        if self.tracing.live:
            self.tracing.delivered(entry.frame, [subscription], delay_us, delay_us - entry.delay_us)

    def forbidden(self, frame: EventFrame, subscription: Subscription, now: float) -> None:
        """One who may not hear an event does not."""
        self.memory.drop(frame, "forbidden", now, subscription=subscription.number)
        if self.telemetry is not None:
            self.telemetry.dropped(frame, "forbidden", 0, now, subject=subscription.number)
        if self.tracing.live:
            self.tracing.dropped(frame, "forbidden", 0, subscription.number)

    def ended(self, frame: EventFrame, reason: str, delay_us: int, now: float) -> None:
        """A whole event goes no further."""
        self.memory.drop(frame, reason, now)
        if self.telemetry is not None:
            self.telemetry.dropped(frame, reason, delay_us, now)
        self._came(frame, delay_us, now)
        if self.tracing.live:
            self.tracing.dropped(frame, reason, delay_us)

    def lost(
        self, frame: EventFrame, reason: str, delay_us: int, homes: Sequence[Destination | int], now: float
    ) -> None:
        """A copy of an event ends here, on its way to these brokers."""
        brokers = [home if isinstance(home, int) else home.broker for home in homes]
        own = frame.publisher == (frame.path[0] if isinstance(frame, Forward) else self._broker.id)
        telemetry = None if own else self.telemetry  # what brokers say themselves is not recorded
        for home in brokers:
            self.memory.drop(frame, reason, now, broker=home)
            if telemetry is not None:
                telemetry.dropped(frame, reason, delay_us, now, subject=home, flags=TO_BROKER)
        self._came(frame, delay_us, now)
        if self.tracing.live:
            self.tracing.lost(frame, reason, delay_us, *brokers)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _came(self, frame: EventFrame, delay_us: int, now: float) -> None:
        if isinstance(frame, Forward) and frame.flags & MARKED:
            self.tracing.came(frame, delay_us, now)

    def _tell_client(self, session: int, step: TraceStep) -> None:
        known = self._broker.sessions.get(session)
        if known is not None and known.link is not None:
            known.link.send(step)

    def _answer(self, topic: str, question: Json, now: float) -> Json:
        about = ABOUT.get(topic)
        if about is None:
            return {"error": f"nothing is known here about {topic[:80]!r}"}
        try:
            return about(self._broker, question, now)
        except PlaitError as error:
            return {"error": error.message, "hint": error.hint}
