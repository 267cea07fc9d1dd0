"""Telemetry records of a broker's pipeline, beyond those of every process of Plait."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

from plait_core.errors import PlaitError
from plait_core.telemetry import CELL_BITS, DURABLE, FELL, LATE, REPLAYED, RecordKind, cell_of, reason_code
from plait_core.wire import EventFrame
from plait_telemetry.recorder import U32_MAX, sampled_out
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import Telemetry, TelemetrySettings

if TYPE_CHECKING:
    from plait_core.space import Schema

    from ..clients.delivery_queue import Queued
    from ..clients.sessions import DurableSubscription, Session, Subscription


class BrokerTelemetry(Telemetry):
    """One broker's telemetry."""

    def __init__(self, settings: TelemetrySettings, wall_offset_us: int, records: int = RING_RECORDS) -> None:
        super().__init__(settings, wall_offset_us, records)
        if settings.space is not None:
            self._space: Schema = settings.space
            self._depth = min(self._space.depth, CELL_BITS)
            self.published = self._published_located
            self.passed = self._passed_located

    def _published_located(
        self,
        frame: EventFrame,
        subscriptions: Sized,
        durables: Sized,
        destinations: Sized,
        delay_us: int,
        now: float,
        /,
    ) -> None:
        self._locate(frame)
        self.ring.published(frame, subscriptions, durables, destinations, delay_us, now)

    def _passed_located(
        self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /
    ) -> None:
        self._locate(frame)
        self.ring.passed(frame, number, within_us, delay_us, flags, now)

    def _locate(self, frame: EventFrame) -> None:
        """Set the cell of the event space for the next record; 0 if the event lies outside the space."""
        if self._mask and sampled_out(frame.sequence, self._mask):
            return
        try:
            cell = cell_of(self._space.locate(frame.attributes(), self._depth).text)
        except PlaitError:
            cell = 0
        self.ring.locate(cell)

    def delivered_durably(
        self, subscription: Subscription, frame: EventFrame, delay_us: int, *, late: bool, replayed: bool, now: float
    ) -> None:
        """Record one delivery of a durable subscription, which may be a repeated one."""
        flags = DURABLE | (LATE if late else 0) | (REPLAYED if replayed else 0)
        self.delivered(subscription.number, subscription.within_us, frame, delay_us, flags, now)

    def dropped_delivery(self, subscription: Subscription, entry: Queued, reason: str, now: float) -> None:
        """Record a dropped delivery, which may have waited."""
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        number, within_us = subscription.number, subscription.within_us
        self.dropped(entry.frame, reason, delay_us, now, subject=number, bound_us=within_us)

    def connected(self, session: Session) -> None:
        """Record the name of a client, which may publish."""
        if session.publisher:
            self.name("publisher", session.publisher, name=session.name)

    def client_reported(self, subscription: Subscription, handed_out: int, waiting: int, now: float) -> None:
        """Record a client's report about one subscription."""
        self.state(RecordKind.CLIENT, subscription.number, now, count=handed_out, size=waiting)

    def unseen(self, subscription: Subscription, reason: str, last: tuple[int, int], change: int, now: float) -> None:
        """Record a change of the number of deliveries that an application has not seen."""
        flags = FELL if change < 0 else 0
        self._put(
            self.wall_us(now), 0, *last, subscription.number, 0, 0, 0, min(abs(change), U32_MAX), 0, 1,
            int(RecordKind.UNSEEN), reason_code(reason), 0, flags,
        )  # fmt: skip

    def subscribed(self, party: Subscription | DurableSubscription) -> None:
        """Record a new subscription, or a new filter of one."""
        session = getattr(party, "session", None)
        self.name(
            "subscription",
            party.number,
            filter=party.filter.text,
            client=session.name if session is not None else getattr(party, "owner", ""),
            within_us=getattr(party, "within_us", 0),
        )
