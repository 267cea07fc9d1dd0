"""The system stream: telemetry records as events, for subscriptions that name `$` attributes. No I/O.

It reads the ring of records twenty times a second, and only while a subscription here or at another broker needs such
events. The kinds of records that may match are computed once per change of subscriptions. Each record of these kinds is
matched, and published only if it matches. A surplus is sampled, as telemetry itself is. The stream's events make no
records.

A broker publishes them under its own id, which no client has. So their publisher is always the root of their tree.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from plait_core.events import Event
from plait_core.filters import F, Filter
from plait_core.telemetry import KIND, RECORD, RECORD_BYTES, RecordKind, record_attributes
from plait_core.values import Attributes
from plait_core.wire import Confirm, EventFrame, Publish, encode_block
from plait_telemetry.recorder import sampled_out
from plait_telemetry.telemetry import SAMPLE_S, SAMPLING_BITS_MAX, Telemetry, TelemetrySettings

from ..broker_view import BrokerView
from .periodic_samples import Sampler

if TYPE_CHECKING:
    from .event_records import BrokerTelemetry


READ_INTERVAL_S: Final = 0.05
"""Time between two reads of the ring: the maximum delay of a system event, and the writer's own interval."""

READ_RECORDS_MAX: Final = 1 << 14
"""Records of one read: 300,000 a second, half as many again as are recorded at most."""

EVENTS_MAX: Final = 200
"""Events of one read: 4,000 a second, which take about a twentieth of a core."""

OWN_RECORDS: Final = 1 << 14
"""Ring size of a telemetry that runs for the stream alone: the records of one read."""

_KIND_AT: Final = 60
_SEQUENCE: Final = Struct("<24xQ32x")
"""Offsets of the kind and the sequence number in a record."""

_KINDS: Final[dict[RecordKind, Filter]] = {kind: (F[KIND] == kind.name.lower()) for kind in RecordKind}


class SystemPublisher(Protocol):
    """Sends system events to other brokers, and to the subscriptions here that match and may read them."""

    def publish(
        self, frame: EventFrame, attributes: Attributes, destinations: list[int], delay_us: int, now: float, /
    ) -> None: ...


class ObservedBroker(BrokerView, Protocol):
    """A broker whose telemetry can be read and switched."""

    @property
    def telemetry(self) -> BrokerTelemetry | None: ...
    def observe(self, settings: TelemetrySettings, records: int) -> BrokerTelemetry: ...
    def unobserve(self) -> None: ...
    def wall_us(self, now: float) -> int: ...


class SystemStream:
    """One broker's system stream."""

    def __init__(self, broker: ObservedBroker, publisher: SystemPublisher) -> None:
        self.live = False
        """Whether the stream runs."""
        self.events = 0
        """Events published so far."""
        self.missed = 0
        """Records of a needed kind that exceeded a limit, and records overwritten before they were read."""
        self._broker = broker
        self._publisher = publisher
        self._local = broker.interest.system
        self._remote = broker.overlay.remote_interest.system
        self._own: Sampler | None = None
        """Sampler of a telemetry that runs for this stream alone; None if telemetry is configured."""
        self._kinds = bytes(256)
        """By number of a kind, 1 if some filter may match it."""
        self._kinds_of = (-1, -1)
        self._seen = 0
        self._read_at = self._sample_at = 0.0

    @property
    def needed(self) -> bool:
        """Whether any subscription needs system events."""
        return bool(len(self._local) or len(self._remote))

    def start_or_stop(self, now: float) -> None:
        """Start the stream for the first subscription, or stop it after the last."""
        if self.live is self.needed:
            return
        self.live = self.needed
        broker = self._broker
        if not self.live:
            if self._own is not None:
                self._own = None
                broker.unobserve()
            return
        self._read_at = now + READ_INTERVAL_S
        if broker.telemetry is None:
            telemetry = broker.observe(TelemetrySettings(), OWN_RECORDS)
            self._own = Sampler(broker, telemetry)
            self._sample_at = now
        assert broker.telemetry is not None, "started above"
        self._seen = broker.telemetry.ring.written

    def next_deadline(self) -> float | None:
        """Return when the ring is to be read next."""
        return self._read_at if self.live else None

    def tick(self, now: float) -> None:
        """Read the ring, when due."""
        telemetry = self._broker.telemetry
        if not self.live or now < self._read_at or telemetry is None:
            return
        self._read_at = now + READ_INTERVAL_S
        if self._own is not None and now >= self._sample_at:
            elapsed_s, self._sample_at = now - self._sample_at + SAMPLE_S, now + SAMPLE_S
            self._own.sample(now, elapsed_s, telemetry.ring.lost)
        for fields, weight in self._read_ring(telemetry):
            self._publish(
                record_attributes((*fields[:10], weight, *fields[11:]), self._broker.settings.name), fields, now
            )

    # --- inside -------------------------------------------------------------------------------------------------------

    def _read_ring(self, telemetry: Telemetry) -> list[tuple[tuple[int, ...], int]]:
        """Return the new records of needed kinds, each with the number of records that it stands for."""
        ring = telemetry.ring
        end = ring.written
        start = max(self._seen, end - min(READ_RECORDS_MAX, telemetry.records))
        self.missed += start - self._seen
        self._seen = end
        data = ring.copy(start, end)
        if self._own is not None:
            ring.release(end - ring.taken)
            telemetry.names.clear()
        needed = data[_KIND_AT::RECORD_BYTES].translate(self._needed_kinds())
        found = [at for at, one in enumerate(needed) if one] if 1 in needed else []
        kept, times = self._sample(data, found)
        return [
            (fields, max(fields[10], times) if fields[3] else fields[10])  # records of no event are never sampled
            for fields in (RECORD.unpack_from(data, at * RECORD_BYTES) for at in kept)
        ]

    def _sample(self, data: bytes, found: list[int]) -> tuple[list[int], int]:
        """Reduce records to EVENTS_MAX; return those kept and the number that each stands for. All records of an event
        are kept or none, by the rule with which telemetry samples."""
        if len(found) <= EVENTS_MAX:
            return found, 1
        sequences = [sequence for (sequence,) in _SEQUENCE.iter_unpack(data)]
        bits, kept = 0, found
        while len(kept) > EVENTS_MAX and bits < SAMPLING_BITS_MAX:
            bits += 1
            mask = (1 << bits) - 1
            kept = [at for at in kept if not sampled_out(sequences[at], mask)]
        self.missed += max(0, len(kept) - EVENTS_MAX)
        return kept[:EVENTS_MAX], 1 << bits

    def _needed_kinds(self) -> bytes:
        """Return the kinds of records that some filter may match, by number."""
        revisions = (self._broker.interest.system_revision, self._broker.overlay.remote_interest.system_revision)
        if revisions != self._kinds_of:
            self._kinds_of = revisions
            kinds = bytearray(256)
            for kind, filter in _KINDS.items():
                kinds[kind] = bool(self._local.intersecting(filter) or self._remote.intersecting(filter))
            self._kinds = bytes(kinds)
        return self._kinds

    def _publish(self, attributes: Attributes, fields: tuple[int, ...], now: float) -> None:
        """Publish a record, if a subscription matches it."""
        broker = self._broker
        destinations = broker.overlay.remote_interest.match_system(attributes)
        if not destinations and not self._local.match(attributes):
            return
        self.events += 1
        frame = Publish(Confirm.NONE, encode_block(Event(attributes, b"", broker.id, self.events, fields[0])))
        delay_us = max(0, broker.wall_us(now) - fields[0])
        self._publisher.publish(frame, attributes, destinations, delay_us, now)
