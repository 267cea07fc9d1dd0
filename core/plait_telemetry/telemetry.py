"""The event records of a broker or a peer: one record a call, written to memory only.

Without telemetry none of this exists: the hooks compare one attribute with None. Above the configured rate only every
second, fourth, ... event is recorded, with that weight. The event's number alone decides, so all samplers with the same
weight keep all records of an event or none.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from plait_core.ids import id_text
from plait_core.telemetry import RecordKind, reason_code
from plait_core.values import Json
from plait_core.wire import EventFrame, Forward

from .recorder import U16_MAX, U32_MAX, RecordPassed, RecordPublished, new_recorder, sampled_out
from .ring import RING_RECORDS

if TYPE_CHECKING:
    from plait_core.space import Schema

U64_MAX: Final = 0xFFFFFFFFFFFFFFFF

SAMPLING_BITS_MAX: Final = 15
"""Bits of the highest weight, one event of 32,768: above a thousand million events a second."""

SAMPLE_S: Final = 1.0
"""Seconds between two samples: twice the heartbeat that measures links."""

NAMES_MAX: Final = 1_000_000
"""Names that wait for the writer: as many as a broker may have subscriptions."""

_MATCH: Final = int(RecordKind.MATCH)


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Limits of recording."""

    records_per_s_max: int = 200_000
    """Above this rate events are sampled: 200,000 are a tenth of a core and 13 MB/s."""
    space: Schema | None = None
    """Of a broker: the event space in which its publishers' events are located, at some microseconds each."""


class Telemetry:
    """The records of one broker, or of one process of peers.

    Methods are on the hot path: they trust their callers, and clip values that are out of range.
    """

    def __init__(self, settings: TelemetrySettings, wall_offset_us: int, records: int = RING_RECORDS) -> None:
        """`wall_offset_us` converts the clock to the calendar time of events; `records` is the size of the ring."""
        self.settings = settings
        self.records: Final = records
        ring = self.ring = new_recorder(wall_offset_us, records)
        self.published: RecordPublished = ring.published
        self.passed: RecordPassed = ring.passed
        """These two may be bound anew, to methods that also locate the event."""
        self.arrived: Final = ring.arrived
        self.forwarded: Final = ring.forwarded
        self.delivered: Final = ring.delivered
        """The steps of every event are bound directly to the ring's methods, which saves a call."""
        self.names: deque[Json] = deque()
        """Names of ids in the records; the writer takes them."""
        self.names_lost = 0
        self._put = ring.put
        self._wall_offset_us = wall_offset_us
        self._mask = 0
        self._weight = 1
        self._counted = 0
        self._named: set[tuple[str, int]] = set()

    @property
    def weight(self) -> int:
        """The number of events that each record represents now."""
        return self._weight

    # --- events -------------------------------------------------------------------------------------------------------

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
        """Record that an event, a copy or a delivery was dropped."""
        if self._mask and sampled_out(frame.sequence, self._mask):
            return
        expired = reason == "expired"
        bound_us = frame.lifetime_us if expired else bound_us
        self._put(
            self.wall_us(now), frame.published_us, frame.publisher, frame.sequence, subject & U64_MAX,
            min(max(delay_us, 0), U32_MAX), min(bound_us, U32_MAX), len(frame.block), 1, 0, self._weight,
            int(RecordKind.EXPIRY if expired else RecordKind.DROP), reason_code(reason), _hops(frame), flags,
        )  # fmt: skip

    def matched(self, events: int, elapsed_us: int, now: float) -> None:
        """Record the matching of one read: its number of events and copies, and the time for all of them."""
        self._put(self.wall_us(now), 0, 0, 0, 0, min(elapsed_us, U32_MAX), 0, 0, events, 0, 1, _MATCH, 0, 0, 0)

    # --- samples ------------------------------------------------------------------------------------------------------

    def state(
        self,
        kind: RecordKind,
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
        """Record a state: a link, a lane, the queues, the membership, or a route."""
        assert kind >= RecordKind.LINK
        clipped = (min(value, U32_MAX) for value in (delay_us, bound_us, size, count))
        self._put(
            self.wall_us(now), 0, by & U64_MAX, 0, subject & U64_MAX, *clipped, min(expected, U16_MAX), 1,
            int(kind), 0, 0, flags,
        )  # fmt: skip

    def adapt(self, elapsed_s: float) -> None:
        """Set the weight, once a second, so that records stay within the configured rate."""
        produced = self.ring.written + self.ring.lost
        rate = (produced - self._counted) / elapsed_s * self._weight
        self._counted = produced
        bits = 0
        while rate / (1 << bits) > self.settings.records_per_s_max and bits < SAMPLING_BITS_MAX:
            bits += 1
        self._weight = 1 << bits
        self._mask = self._weight - 1
        self.ring.weigh(self._weight)

    # --- names --------------------------------------------------------------------------------------------------------

    def name(self, kind: str, id: int, **facts: object) -> None:
        """Name an id. A later name replaces an earlier one."""
        if len(self.names) >= NAMES_MAX:
            self.names_lost += 1
            return
        shown = id if kind == "subscription" else id_text(id)
        self.names.append({"kind": kind, "id": shown, **facts})

    def name_once(self, kind: str, id: int, **facts: object) -> None:
        """Name an id whose name never changes."""
        if (kind, id) not in self._named and len(self._named) < NAMES_MAX:
            self._named.add((kind, id))
            self.name(kind, id, **facts)

    def wall_us(self, now: float) -> int:
        """Convert to the calendar time that events are dated by."""
        return round(now * 1_000_000) + self._wall_offset_us


def _hops(frame: EventFrame) -> int:
    return len(frame.path) + 1 if type(frame) is Forward else 1
