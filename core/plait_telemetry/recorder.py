"""Write records of the pipeline's steps into the ring. Every event pays for this part of telemetry.

The native kernel has the same interface, at a fraction of the cost; `new_recorder` prefers it. Both write the same
bytes, which a test compares. Methods trust their callers, and clip values that are out of range.
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
"""The record with kind and reason as one number: hot records have no reason."""


class RecordPublished(Protocol):
    """`Records.published`, or a method that replaces it."""

    def __call__(
        self,
        frame: EventFrame,
        subscriptions: Sized,
        durables: Sized,
        destinations: Sized,
        delay_us: int,
        now: float,
        /,
    ) -> None: ...


class RecordPassed(Protocol):
    """`Records.passed`, or a method that replaces it."""

    def __call__(
        self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /
    ) -> None: ...


class Records(Protocol):
    """A ring of records, and the methods that record the steps of an event."""

    @property
    def written(self) -> int:
        """Records put in since the start."""

    @property
    def taken(self) -> int:
        """Records taken out since the start."""

    @property
    def lost(self) -> int:
        """Records dropped because the ring was full."""

    def weigh(self, weight: int) -> None:
        """Record one event in `weight`, a power of two, from now on, and write that weight into the records."""

    def locate(self, cell: int, /) -> None:
        """Set the cell of the next published event."""

    def published(
        self,
        frame: EventFrame,
        subscriptions: Sized,
        durables: Sized,
        destinations: Sized,
        delay_us: int,
        now: float,
        /,
    ) -> None:
        """Record that an event of a publisher of this process was admitted, with its matches."""

    def arrived(
        self, frame: EventFrame, root: int, subscriptions: Sized, durables: Sized, delay_us: int, now: float, /
    ) -> None:
        """Record that an event of another process' publisher arrived, with its matches."""

    def forwarded(
        self, frame: EventFrame, neighbour: int, delay_us: int, hops: int, destinations: int, now: float, /
    ) -> None:
        """Record that a copy was written to a neighbour."""

    def delivered(
        self, number: int, within_us: int, frame: EventFrame, delay_us: int, flags: int, now: float, /
    ) -> None:
        """Record that one delivery was written, to the subscription with this number and bound."""

    def passed(self, frame: EventFrame, number: int, within_us: int, delay_us: int, flags: int, now: float, /) -> None:
        """Record that an event of a publisher of this process was admitted and written to its one subscription at once.

        This is `published` and `delivered` in one call, because most events take this path.
        """

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
        """Record each of these events under one kind (plus reason times 256).

        Without a bound the event's lifetime is recorded. `added_us` is added to the delay in the event's frame.
        """

    def put(self, *fields: int) -> None:
        """Write any other record, with the arguments of `plait_core.telemetry.pack_into`."""

    def filled(self) -> list[memoryview]:
        """Return records that wait, in order, perhaps not all of them; `release` frees their slots."""

    def copy(self, start: int, end: int, /) -> bytes:
        """Return records by number, taken out or not.

        Only the producer may call this, as only it knows they still exist.
        """

    def release(self, records: int) -> None:
        """Free the slots of this many records, which were written out."""


class Recorder(Ring):
    """The recorder in Python.

    The hottest records are packed where they are made, without an intermediate tuple of arguments, and the calendar
    time is computed once per read. That halves the cost.
    """

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
        """See `Records`, as for all methods here."""
        self._weight, self._sampling = weight, weight - 1

    def locate(self, cell: int, /) -> None:
        self._cell = cell

    def published(
        self,
        frame: EventFrame,
        subscriptions: Sized,
        durables: Sized,
        destinations: Sized,
        delay_us: int,
        now: float,
        /,
    ) -> None:
        cell, self._cell = self._cell, 0
        self._event(_PUBLISH, frame, cell, len(subscriptions) + len(durables), len(destinations), delay_us, now)

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
    """Return whether sampling of one event in `mask + 1` leaves this one out. The analysis computes the same."""
    return bool((sequence & 0xFFFFF) * 2_654_435_761 >> 12 & mask)


def new_recorder(wall_offset_us: int, records: int = RING_RECORDS, *, native: bool | None = None) -> Records:
    """Return the fastest recorder for this many records. `wall_offset_us` converts its clock to calendar time."""
    if native is False or kernel is None:
        return Recorder(records, wall_offset_us)
    made: Any = kernel.Recorder(records, wall_offset_us)
    recorder: Records = made
    return recorder
