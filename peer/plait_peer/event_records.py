"""Telemetry of events at the peers of one process, recorded in batches. No I/O.

Each subscription and each publisher is a peer of its own. An event therefore arrives once for each subscription that
receives it. It expects one delivery there, or none if only the sub-space matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from plait_core.telemetry import TO_BROKER, RecordKind, reason_code
from plait_core.wire import Confirm, EventFrame, Publish
from plait_core.wire.frame_types.peer_frames import PeerEvent
from plait_telemetry.ring import RING_RECORDS
from plait_telemetry.telemetry import Telemetry, TelemetrySettings

from .protocol.outputs import Deliver

_PUBLISH, _ARRIVAL, _FORWARD, _DELIVERY = map(
    int, (RecordKind.PUBLISH, RecordKind.ARRIVAL, RecordKind.FORWARD, RecordKind.DELIVERY)
)

UNEXPECTED: Final = frozenset(("unmatched", "invalid", "duplicate", "not_allowed"))
"""Drop reasons of events that no subscription expects, or that it already has."""

_US: Final = 1_000_000


class Arrival(NamedTuple):
    """The path of received events."""

    origin: int
    """The process of their publisher; 0 if unknown."""
    added_us: int
    """Added to the delay in the frame."""
    hops: int
    """Peers on the path, including this one."""
    now: float


class PeerTelemetry(Telemetry):
    """The records of one process. Batches of events reach the recorder in one call."""

    def __init__(self, settings: TelemetrySettings, wall_offset_us: int, records: int = RING_RECORDS) -> None:
        super().__init__(settings, wall_offset_us, records)
        self.arrivals = 0
        """Events received by subscriptions, so far."""
        self.forwarded_counts: Counter[int] = Counter()
        """Events forwarded to each neighbour since the last sample."""
        self._each: Final = self.ring.each

    def events_published(self, frames: Sequence[EventFrame], cell: int, copies: int, now: float) -> None:
        """Record events of a local publisher in one cell, sent to `copies` peers."""
        self._each(_PUBLISH, frames, cell, None, 0, copies, 0, 1, 0, now)
        if not copies:
            self._drop(frames, "unmatched", 0, Arrival(0, 0, 1, now))

    def events_forwarded(self, frames: Sequence[EventFrame], neighbour: int, arrival: Arrival) -> None:
        """Record copies sent to a peer of another process."""
        self.forwarded_counts[neighbour] += len(frames)
        self._each(_FORWARD, frames, neighbour, None, arrival.added_us, 1, 0, arrival.hops, 0, arrival.now)

    def written(self, frames: Sequence[EventFrame], dropped: int, neighbour: int, now: float) -> None:
        """Record events of a local publisher written to a link, without the last `dropped` ones."""
        arrival, written = Arrival(0, 0, 1, now), len(frames) - dropped
        self.events_forwarded(frames[:written] if dropped else frames, neighbour, arrival)
        if dropped:
            self.events_not_forwarded(frames[written:], neighbour, "overlay_full", arrival)

    def events_not_forwarded(self, frames: Sequence[EventFrame], neighbour: int, reason: str, arrival: Arrival) -> None:
        """Record copies for a peer of another process that are dropped here."""
        self._drop(frames, reason, neighbour, arrival, flags=TO_BROKER)

    def events_received(
        self,
        frames: Sequence[EventFrame],
        arrival: Arrival,
        number: int,
        within_us: int,
        reason: str = "",
        flags: int = 0,
    ) -> None:
        """Record events that a subscription received: delivered, or dropped for `reason`."""
        expected = reason not in UNEXPECTED
        self.arrivals += len(frames)
        added_us, hops, now = arrival.added_us, arrival.hops, arrival.now
        self._each(_ARRIVAL, frames, arrival.origin, None, added_us, 0, int(expected), hops, 0, now)
        if not reason:
            self._each(_DELIVERY, frames, number, within_us, added_us, 1, 1, hops, flags, now)
        else:
            self._drop(frames, reason, number if expected else 0, arrival, bound_us=within_us if expected else 0)

    def batch_received(
        self,
        frames: Sequence[EventFrame],
        matched: Sequence[EventFrame],
        malformed: Sequence[EventFrame],
        arrival: Arrival,
        number: int,
    ) -> None:
        """Record a batch by its matched, malformed and unmatched events, for a subscription without a bound."""
        if len(matched) == len(frames):
            self.events_received(matched, arrival, number, 0)
            return
        known = {id(frame) for frame in (*matched, *malformed)}
        rest = [frame for frame in frames if id(frame) not in known]
        for part, reason in ((matched, ""), (malformed, "invalid"), (rest, "unmatched")):
            if part:
                self.events_received(part, arrival, number, 0, reason)

    def dropped_copies(self, frames: Sequence[EventFrame], reason: str, arrival: Arrival) -> None:
        """Record duplicates and unrequested copies. They are no arrivals."""
        self._drop(frames, reason, 0, arrival)

    def _drop(
        self,
        frames: Sequence[EventFrame],
        reason: str,
        subject: int,
        arrival: Arrival,
        bound_us: int = 0,
        flags: int = 0,
    ) -> None:
        kind = RecordKind.DROP | reason_code(reason) << 8
        self._each(kind, frames, subject, bound_us, arrival.added_us, 1, 0, arrival.hops, flags, arrival.now)


def frames_of(event: PeerEvent) -> tuple[EventFrame]:
    """Return a single event in the form in which batches are recorded."""
    return (Publish(Confirm.NONE, event.block),)


def arrival_of(event: PeerEvent | Deliver, now: float, origin: int = 0) -> Arrival:
    """Return the path of a single event."""
    return Arrival(origin, int(event.delay * _US), event.hops + 1, now)
