"""What a broker records of its events: called by the steps of the pipeline, one record a call, nothing but memory.

A broker without telemetry has none of this: its hooks compare one attribute with None. Above the configured rate only
every second, fourth, ... event is recorded, with that weight; which ones is decided by the event's number alone, so
that all records of an event are kept or none, at every broker that samples alike.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from plait_core.ids import id_text
from plait_core.telemetry import DURABLE, LATE, REPLAYED, Kind, reason_code
from plait_core.wire import EventFrame, Forward

from .ring import RING_RECORDS, Ring

if TYPE_CHECKING:
    from ..durables import Durable
    from ..outbox import Queued
    from ..subscriptions import Subscription

U32_MAX: Final = 0xFFFFFFFF
U16_MAX: Final = 0xFFFF
U64_MAX: Final = 0xFFFFFFFFFFFFFFFF

SAMPLING_BITS_MAX: Final = 15
"""One event of 32,768: above a thousand million events a second."""

NAMES_MAX: Final = 1_000_000
"""Names that wait for the writer: as many as a broker may have subscriptions."""

_PUBLISH, _ARRIVAL, _FORWARD = int(Kind.PUBLISH), int(Kind.ARRIVAL), int(Kind.FORWARD)
_DELIVERY, _MATCH = int(Kind.DELIVERY), int(Kind.MATCH)

_pack: Final = Struct("<qqQQQIIIIHHHBB").pack_into
"""The record with kind and reason as one number. The two hottest records have no reason, are packed where they are
made, without a tuple of arguments between, and look at the calendar once a read: half of what they would cost."""

_RING_MASK: Final = RING_RECORDS - 1


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """How much to record."""

    records_per_s_max: int = 200_000
    """Above it events are sampled: 200,000 are a tenth of a core and 13 MB/s."""


def sampled_out(sequence: int, mask: int) -> bool:
    """Whether an event is left out where only one of `mask + 1` is recorded: as the analysis decides it again."""
    return bool((sequence & 0xFFFFF) * 2_654_435_761 >> 12 & mask)


class Telemetry:
    """One broker's records. Methods are of the hot path: they trust their callers, and clip what has no bound."""

    def __init__(self, settings: TelemetrySettings, wall_offset_us: int) -> None:
        """`wall_offset_us`: what makes the broker's clock its calendar, as events are dated."""
        self.settings = settings
        ring = self.ring = Ring()
        self.names: deque[dict[str, Any]] = deque()
        """What ids in the records mean; the writer takes them."""
        self.names_lost = 0
        self._put = ring.put
        self._buffer = ring.buffer
        self._now = 0.0
        self._now_us = wall_offset_us
        self._wall_offset_us = wall_offset_us
        self._mask = 0
        self._weight = 1
        self._expected = 0
        self._expected_of: EventFrame | None = None
        self._counted = 0
        self._named: set[tuple[str, int]] = set()

    @property
    def weight(self) -> int:
        """How many records each one that is written stands for, now."""
        return self._weight

    # --- events -------------------------------------------------------------------------------------------------------

    def published(self, frame: EventFrame, matched: int, homes: int, delay_us: int, now: float) -> None:
        """An event of a publisher of this broker was admitted and matched."""
        self._event(_PUBLISH, frame, 0, matched, homes, delay_us, now)

    def arrived(self, frame: EventFrame, root: int, matched: int, delay_us: int, now: float) -> None:
        """An event of another broker's publisher was matched."""
        self._event(_ARRIVAL, frame, root, matched, 0, delay_us, now)

    def _event(
        self, kind: int, frame: EventFrame, subject: int, matched: int, count: int, delay_us: int, now: float
    ) -> None:
        expected = self._expected = matched if matched < U16_MAX else U16_MAX
        self._expected_of = frame
        sequence = frame.sequence
        if self._mask and sampled_out(sequence, self._mask):
            return
        ring = self.ring
        written = ring.written
        if written - ring.taken >= RING_RECORDS:
            ring.lost += 1
            return
        if now != self._now:
            self._now = now
            self._now_us = round(now * 1_000_000) + self._wall_offset_us
        lifetime_us = frame.lifetime_us
        _pack(
            self._buffer, (written & _RING_MASK) << 6, self._now_us, frame.published_us, frame.publisher, sequence,
            subject, delay_us if delay_us < U32_MAX else U32_MAX, lifetime_us if lifetime_us < U32_MAX else U32_MAX,
            len(frame.block), count, expected, self._weight, kind,
            1 if type(frame) is not Forward else len(frame.path) + 1, 0,
        )  # fmt: skip
        ring.written = written + 1

    def delivered(self, subscription: Subscription, frame: EventFrame, delay_us: int, flags: int, now: float) -> None:
        """One delivery was written."""
        sequence = frame.sequence
        if self._mask and sampled_out(sequence, self._mask):
            return
        ring = self.ring
        written = ring.written
        if written - ring.taken >= RING_RECORDS:
            ring.lost += 1
            return
        if now != self._now:
            self._now = now
            self._now_us = round(now * 1_000_000) + self._wall_offset_us
        within_us = subscription.within_us
        _pack(
            self._buffer, (written & _RING_MASK) << 6, self._now_us, frame.published_us, frame.publisher, sequence,
            subscription.number, delay_us if delay_us < U32_MAX else U32_MAX,
            within_us if within_us < U32_MAX else U32_MAX, len(frame.block), 1,
            self._expected if frame is self._expected_of else 0, self._weight,
            _DELIVERY, 1 if type(frame) is not Forward else len(frame.path) + 1, flags,
        )  # fmt: skip
        ring.written = written + 1

    def delivered_durably(
        self, subscription: Subscription, frame: EventFrame, delay_us: int, *, late: bool, replayed: bool, now: float
    ) -> None:
        """One delivery of a durable subscription, perhaps not the first of its event."""
        flags = DURABLE | (LATE if late else 0) | (REPLAYED if replayed else 0)
        self.delivered(subscription, frame, delay_us, flags, now)

    def forwarded(
        self, frame: EventFrame, neighbour: int, delay_us: int, hops: int, destinations: int, now: float
    ) -> None:
        """A copy was written to a neighbour."""
        if self._mask and sampled_out(frame.sequence, self._mask):
            return
        self._put(
            self.wall_us(now), frame.published_us, frame.publisher, frame.sequence, neighbour & U64_MAX,
            min(delay_us, U32_MAX), min(frame.lifetime_us, U32_MAX), len(frame.block), destinations, 0, self._weight,
            _FORWARD, 0, min(hops, 255), 0,
        )  # fmt: skip

    def dropped(
        self,
        frame: EventFrame,
        reason: str,
        delay_us: int,
        now: float,
        *,
        subject: int = 0,
        bound_us: int = 0,
        flags: int = 0,
    ) -> None:
        """An event, a copy or a delivery goes no further."""
        if self._mask and sampled_out(frame.sequence, self._mask):
            return
        expired = reason == "expired"
        bound_us = frame.lifetime_us if expired else bound_us
        self._put(
            self.wall_us(now), frame.published_us, frame.publisher, frame.sequence, subject & U64_MAX,
            min(max(delay_us, 0), U32_MAX), min(bound_us, U32_MAX), len(frame.block), 1, 0, self._weight,
            int(Kind.EXPIRY if expired else Kind.DROP), reason_code(reason), _hops(frame), flags,
        )  # fmt: skip

    def dropped_delivery(self, subscription: Subscription, entry: Queued, reason: str, now: float) -> None:
        """One delivery, that may have waited, will not be."""
        delay_us = entry.delay_us + round((now - entry.arrived) * 1_000_000)
        number, within_us = subscription.number, subscription.within_us
        self.dropped(entry.frame, reason, delay_us, now, subject=number, bound_us=within_us)

    def matched(self, events: int, elapsed_us: int, now: float) -> None:
        """One read was matched: so many events in so long."""
        self._put(self.wall_us(now), 0, 0, 0, 0, min(elapsed_us, U32_MAX), 0, 0, events, 0, 1, _MATCH, 0, 0, 0)

    # --- what is sampled ----------------------------------------------------------------------------------------------

    def state(
        self,
        kind: Kind,
        subject: int,
        now: float,
        *,
        by: int = 0,
        delay_us: int = 0,
        bound_us: int = 0,
        size: int = 0,
        count: int = 0,
        expected: int = 0,
        flags: int = 0,
    ) -> None:
        """How something is now: a link, the queues, who is there, which way leads where."""
        assert kind >= Kind.LINK
        clipped = (min(value, U32_MAX) for value in (delay_us, bound_us, size, count))
        self._put(
            self.wall_us(now), 0, by & U64_MAX, 0, subject & U64_MAX, *clipped, min(expected, U16_MAX), 1,
            int(kind), 0, 0, flags,
        )  # fmt: skip

    def adapt(self, elapsed_s: float) -> None:
        """Once a second: record as large a part of the events as the configured rate allows."""
        offered = self.ring.written + self.ring.lost
        rate = (offered - self._counted) / elapsed_s * self._weight
        self._counted = offered
        bits = 0
        while rate / (1 << bits) > self.settings.records_per_s_max and bits < SAMPLING_BITS_MAX:
            bits += 1
        self._weight = 1 << bits
        self._mask = self._weight - 1

    # --- names --------------------------------------------------------------------------------------------------------

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

    def name(self, kind: str, id: int, **facts: object) -> None:
        """What an id means. What is said last holds."""
        if len(self.names) >= NAMES_MAX:
            self.names_lost += 1
            return
        shown = id if kind == "subscription" else id_text(id)
        self.names.append({"kind": kind, "id": shown, **facts})

    def name_once(self, kind: str, id: int, **facts: object) -> None:
        """The same, of what never means anything else."""
        if (kind, id) not in self._named and len(self._named) < NAMES_MAX:
            self._named.add((kind, id))
            self.name(kind, id, **facts)

    def wall_us(self, now: float) -> int:
        """The broker's calendar."""
        return round(now * 1_000_000) + self._wall_offset_us


def _hops(frame: EventFrame) -> int:
    return len(frame.path) + 1 if type(frame) is Forward else 1
