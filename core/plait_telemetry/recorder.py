"""What turns the steps of the pipeline into records in the ring: the part of telemetry that every event pays for.

The native kernel has the same, at a fraction of the cost; `new_recorder` takes it where it is. Both write the same
bytes, which a test compares. Methods trust their callers, and clip what has no bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from struct import Struct
from typing import Any, Final, Protocol

from plait_core.native import kernel
from plait_core.telemetry import RecordKind
from plait_core.wire import EventFrame, Forward

from .ring import RING_RECORDS, Ring

U32_MAX: Final = 0xFFFFFFFF
U16_MAX: Final = 0xFFFF

_PUBLISH, _ARRIVAL, _FORWARD, _DELIVERY = map(
    int, (RecordKind.PUBLISH, RecordKind.ARRIVAL, RecordKind.FORWARD, RecordKind.DELIVERY)
)

_pack: Final = Struct("<qqQQQIIIIHHHBB").pack_into
"""The record with kind and reason as one number: the hot ones have no reason."""


class Records(Protocol):
    """A ring of records, and what is put into it for each event."""

    @property
    def written(self) -> int:
        """Records put in, ever."""

    @property
    def taken(self) -> int:
        """Records taken out, ever."""

    @property
    def lost(self) -> int:
        """Records that found no place."""

    def weigh(self, weight: int) -> None:
        """From now on record one event in so many, a power of two, and say so in the records."""

    def locate(self, cell: int, /) -> None:
        """The event that is published next lies in this cell."""

    def published(
        self, frame: EventFrame, subscriptions: Sized, durables: Sized, homes: Sized, delay_us: int, now: float, /
    ) -> None:
        """An event of a publisher of this process was admitted, and matched these."""

    def arrived(
        self, frame: EventFrame, root: int, subscriptions: Sized, durables: Sized, delay_us: int, now: float, /
    ) -> None:
        """An event of another process' publisher matched these."""

    def forwarded(
        self, frame: EventFrame, neighbour: int, delay_us: int, hops: int, destinations: int, now: float, /
    ) -> None:
        """A copy was written to a neighbour."""

    def delivered(
        self, number: int, within_us: int, frame: EventFrame, delay_us: int, flags: int, now: float, /
    ) -> None:
        """One delivery was written, to the subscription of this number and bound."""

    def passed(self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /) -> None:
        """An event of a publisher of this process was admitted, and written to its one subscription at once:
        `published` and `delivered` in one call, for that is what most events are."""

    def each(
        self,
        kind: int,
        frames: Iterable[EventFrame],
        subject: int,
        bound_us: int | None,
        added_us: int,
        count: int,
        expected: int,
        hops: int,
        flags: int,
        now: float,
        /,
    ) -> None:
        """A record of the same kind, and reason times 256, of each of these events. Without a bound that is its
        lifetime; `added_us` comes to the delay that it came with."""

    def put(self, *fields: int) -> None:
        """Any other record, as `plait_core.telemetry.pack_into` takes it."""

    def filled(self) -> list[memoryview]:
        """What is there, in order, perhaps not all of it; `release` gives the place back."""

    def copy(self, start: int, end: int, /) -> bytes:
        """Records by their number, taken out or not: for the producer alone, which knows that they are still there."""

    def release(self, records: int) -> None:
        """So many have been written out."""


class Recorder(Ring):
    """In Python. The hottest records are packed where they are made, without a tuple of arguments between, and look at
    the calendar once a read: half of what they would cost."""

    __slots__ = ("_cell", "_expected", "_expected_of", "_now", "_now_us", "_sampling", "_wall_offset_us", "_weight")

    def __init__(self, records: int, wall_offset_us: int) -> None:
        super().__init__(records)
        self._wall_offset_us = self._now_us = wall_offset_us
        self._now = 0.0
        self._sampling = 0
        self._weight = 1
        self._cell = 0
        self._expected = 0
        self._expected_of = (0, 0)

    def weigh(self, weight: int) -> None:
        """As `Records` says, like everything here."""
        self._weight, self._sampling = weight, weight - 1

    def locate(self, cell: int, /) -> None:
        self._cell = cell

    def published(
        self, frame: EventFrame, subscriptions: Sized, durables: Sized, homes: Sized, delay_us: int, now: float, /
    ) -> None:
        cell, self._cell = self._cell, 0
        self._event(_PUBLISH, frame, cell, len(subscriptions) + len(durables), len(homes), delay_us, now)

    def arrived(
        self, frame: EventFrame, root: int, subscriptions: Sized, durables: Sized, delay_us: int, now: float, /
    ) -> None:
        self._event(_ARRIVAL, frame, root, len(subscriptions) + len(durables), 0, delay_us, now)

    def _event(
        self, kind: int, frame: EventFrame, subject: int, matched: int, count: int, delay_us: int, now: float
    ) -> None:
        expected = self._expected = matched if matched < U16_MAX else U16_MAX
        self._expected_of = (frame.publisher, frame.sequence)
        lifetime_us = frame.lifetime_us
        bound_us = lifetime_us if lifetime_us < U32_MAX else U32_MAX
        self._record(kind, frame, subject, delay_us, bound_us, count, expected, _hops(frame), 0, now)

    def forwarded(
        self, frame: EventFrame, neighbour: int, delay_us: int, hops: int, destinations: int, now: float, /
    ) -> None:
        bound_us = min(frame.lifetime_us, U32_MAX)
        self._record(_FORWARD, frame, neighbour, delay_us, bound_us, destinations, 0, min(hops, 255), 0, now)

    def delivered(
        self, number: int, within_us: int, frame: EventFrame, delay_us: int, flags: int, now: float, /
    ) -> None:
        expected = self._expected if self._expected_of == (frame.publisher, frame.sequence) else 0
        bound_us = within_us if within_us < U32_MAX else U32_MAX
        self._record(_DELIVERY, frame, number, delay_us, bound_us, 1, expected, _hops(frame), flags, now)

    def passed(self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /) -> None:
        cell, self._cell = self._cell, 0
        self._event(_PUBLISH, frame, cell, 1, 0, delay_us, now)
        self.delivered(number, within_us, frame, delay_us, flags, now)

    def each(
        self,
        kind: int,
        frames: Iterable[EventFrame],
        subject: int,
        bound_us: int | None,
        added_us: int,
        count: int,
        expected: int,
        hops: int,
        flags: int,
        now: float,
        /,
    ) -> None:
        for frame in frames:
            delay_us = added_us + (frame.delay_us if type(frame) is Forward else 0)
            bound = min(frame.lifetime_us if bound_us is None else bound_us, U32_MAX)
            self._record(kind, frame, subject, delay_us, bound, count, expected, min(hops, 255), flags, now)

    def _record(
        self,
        kind: int,
        frame: EventFrame,
        subject: int,
        delay_us: int,
        bound_us: int,
        count: int,
        expected: int,
        hops: int,
        flags: int,
        now: float,
    ) -> None:
        sequence = frame.sequence
        if self._sampling and sampled_out(sequence, self._sampling):
            return
        written = self.written
        if written - self.taken >= self._slots:
            self.lost += 1
            return
        if now != self._now:
            self._now = now
            self._now_us = round(now * 1_000_000) + self._wall_offset_us
        _pack(
            self.buffer, (written & self._mask) << 6, self._now_us, frame.published_us, frame.publisher, sequence,
            subject, delay_us if delay_us < U32_MAX else U32_MAX, bound_us, len(frame.block), count, expected,
            self._weight, kind, hops, flags,
        )  # fmt: skip
        self.written = written + 1


def _hops(frame: EventFrame) -> int:
    return 1 if type(frame) is not Forward else len(frame.path) + 1


def sampled_out(sequence: int, mask: int) -> bool:
    """Whether an event is left out where only one of `mask + 1` is recorded: as the analysis decides it again."""
    return bool((sequence & 0xFFFFF) * 2_654_435_761 >> 12 & mask)


def new_recorder(wall_offset_us: int, records: int = RING_RECORDS, *, native: bool | None = None) -> Records:
    """The fastest there is, for so many records; `wall_offset_us` is what makes its clock its calendar."""
    if native is False or kernel is None:
        return Recorder(records, wall_offset_us)
    made: Any = kernel.Recorder(records, wall_offset_us)
    recorder: Records = made
    return recorder
