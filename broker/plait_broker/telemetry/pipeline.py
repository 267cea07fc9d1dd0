"""What a broker's pipeline records of its events, beyond what every process of Plait does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait_core.telemetry import DURABLE, LATE, REPLAYED
from plait_core.wire import EventFrame
from plait_telemetry.telemetry import Telemetry

if TYPE_CHECKING:
    from ..durables import Durable
    from ..outbox import Queued
    from ..subscriptions import Subscription


class BrokerTelemetry(Telemetry):
    """One broker's records."""

    def delivered_durably(
        self, subscription: Subscription, frame: EventFrame, delay_us: int, *, late: bool, replayed: bool, now: float
    ) -> None:
        """One delivery of a durable subscription, perhaps not the first of its event."""
        flags = DURABLE | (LATE if late else 0) | (REPLAYED if replayed else 0)
        self.delivered(subscription.number, subscription.within_us, frame, delay_us, flags, now)

    def dropped_delivery(self, subscription: Subscription, entry: Queued, reason: str, now: float) -> None:
        """One delivery, that may have waited, will not be."""
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        number, within_us = subscription.number, subscription.within_us
        self.dropped(entry.frame, reason, delay_us, now, subject=number, bound_us=within_us)

    def subscribed(self, party: Subscription | Durable) -> None:
        """A subscription is there, or has another filter."""
        session = getattr(party, "session", None)
        self.name(
            "subscription",
            party.number,
            filter=party.filter.text,
            client=session.name if session is not None else getattr(party, "owner", ""),
            within_us=getattr(party, "within_us", 0),
        )
