"""The system stream: what this broker records, as events for those whose filters name `$` attributes. No I/O.

It reads the ring behind the pipeline, twenty times a second and only while somebody wants such events, here or at
another broker. Which kinds of records are wanted is decided once; of these each is matched, and becomes an event only
if it is for somebody. What is too much is thinned out, as telemetry itself is. Its events make no records.

A broker publishes them under its own id. So wherever one passes, its publisher is the root of its tree: no client's is.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from plait_core.events import Event
from plait_core.filters import F, Filter
from plait_core.telemetry import KIND, RECORD, RECORD_BYTES, RecordKind, record_attributes
from plait_core.values import Attributes
from plait_core.wire import Confirm, Publish, encode_block
from plait_telemetry.recorder import sampled_out
from plait_telemetry.telemetry import SAMPLE_S, SAMPLING_BITS_MAX, Telemetry, TelemetrySettings

from .periodic_samples import Sampler

if TYPE_CHECKING:
    from ..broker import Broker
    from ..pipeline.pipeline import EventPipeline

LOOK_S: Final = 0.05
"""Between two looks at the ring: how late such an event is at most, and the writer's own pace."""

LOOK_RECORDS_MAX: Final = 1 << 14
"""Of one look: 300,000 a second, half as many again as are recorded at most."""

EVENTS_MAX: Final = 200
"""Of one look: 4,000 a second, which take about a twentieth of a core."""

OWN_RECORDS: Final = 1 << 14
"""Room for records that are made for the stream alone: one look's worth."""

_KIND_AT: Final = 60
_SEQUENCE: Final = Struct("<24xQ32x")
"""Where a record has these."""

_KINDS: Final[dict[RecordKind, Filter]] = {kind: (F[KIND] == kind.name.lower()) for kind in RecordKind}


class SystemStream:
    """One broker's."""

    def __init__(self, broker: Broker, pipeline: EventPipeline) -> None:
        self.live = False
        """Whether somebody listens."""
        self.events = 0
        """That were published so far."""
        self.missed = 0
        """Records of a wanted kind, or that could not be looked at, for which there was no time."""
        self._broker = broker
        self._pipeline = pipeline
        self._here = broker.interest.system
        self._elsewhere = broker.joining.overlay.wanted.system
        self._own: Sampler | None = None
        """Of records that are made for this stream alone: without it nobody would record."""
        self._kinds = bytes(256)
        """By number, 1 for those that are wanted."""
        self._kinds_of = (-1, -1)
        self._seen = 0
        self._look_at = self._sample_at = 0.0

    @property
    def wanted(self) -> bool:
        """Whether somebody should be listened to."""
        return bool(len(self._here) or len(self._elsewhere))

    def turn(self, now: float) -> None:
        """Somebody begins to listen, or nobody does any more."""
        self.live = self.wanted
        broker = self._broker
        if not self.live:
            if self._own is not None:
                self._own = None
                broker.unobserve()
            return
        self._look_at = now + LOOK_S
        if broker.telemetry is None:
            telemetry = broker.observe(TelemetrySettings(), OWN_RECORDS)
            self._own = Sampler(broker, telemetry)
            self._sample_at = now
        assert broker.telemetry is not None, "else it records now"
        self._seen = broker.telemetry.ring.written

    def next_deadline(self) -> float | None:
        """When to look again."""
        return self._look_at if self.live else None

    def tick(self, now: float) -> None:
        """Look, when it is time."""
        telemetry = self._broker.telemetry
        if not self.live or now < self._look_at or telemetry is None:
            return
        self._look_at = now + LOOK_S
        if self._own is not None and now >= self._sample_at:
            elapsed_s, self._sample_at = now - self._sample_at + SAMPLE_S, now + SAMPLE_S
            self._own.sample(now, elapsed_s, telemetry.ring.lost)
        for fields, weight in self._look(telemetry):
            self._say(record_attributes((*fields[:10], weight, *fields[11:]), self._broker.settings.name), fields, now)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _look(self, telemetry: Telemetry) -> list[tuple[tuple[int, ...], int]]:
        """The records since the last look that may be wanted, each with how many it stands for."""
        ring = telemetry.ring
        end = ring.written
        start = max(self._seen, end - min(LOOK_RECORDS_MAX, telemetry.records))
        self.missed += start - self._seen
        self._seen = end
        data = ring.copy(start, end)
        if self._own is not None:
            ring.release(end - ring.taken)
            telemetry.names.clear()
        wanted = data[_KIND_AT::RECORD_BYTES].translate(self._wanted_kinds())
        found = [at for at, one in enumerate(wanted) if one] if 1 in wanted else []
        kept, times = self._thin(data, found)
        return [
            (fields, max(fields[10], times) if fields[3] else fields[10])  # what is of no event is not thinned out
            for fields in (RECORD.unpack_from(data, at * RECORD_BYTES) for at in kept)
        ]

    def _thin(self, data: bytes, found: list[int]) -> tuple[list[int], int]:
        """As many as there is time for, and how many each stands for: all records of an event, or none of them. What
        telemetry has thinned out already is thinned out further, by the same rule."""
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

    def _wanted_kinds(self) -> bytes:
        """Kinds of records that some filter may match, by number."""
        revisions = (self._broker.interest.system_revision, self._broker.joining.overlay.wanted.system_revision)
        if revisions != self._kinds_of:
            self._kinds_of = revisions
            kinds = bytearray(256)
            for kind, filter in _KINDS.items():
                kinds[kind] = bool(self._here.intersecting(filter) or self._elsewhere.intersecting(filter))
            self._kinds = bytes(kinds)
        return self._kinds

    def _say(self, attributes: Attributes, fields: tuple[int, ...], now: float) -> None:
        """Publish a record, if it is for somebody."""
        broker = self._broker
        homes = broker.joining.overlay.wanted.match_system(attributes)
        if not homes and not self._here.match(attributes):
            return
        self.events += 1
        frame = Publish(Confirm.NONE, encode_block(Event(attributes, b"", broker.id, self.events, fields[0])))
        delay_us = max(0, broker.wall_us(now) - fields[0])
        if homes:
            broker.joining.publish(frame, homes, delay_us, now, Confirm.NONE)
        self._pipeline.deliver_system(frame, attributes, delay_us, now)
