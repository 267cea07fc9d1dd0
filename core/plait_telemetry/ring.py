"""A ring of records between the loop that makes them and the thread that writes them.

There is one producer and one consumer, each with a counter that it alone advances. The consumer sees a record once the
producer's counter has passed it. When the ring is full a record is dropped and counted: telemetry never delays an
event.
"""

from __future__ import annotations

from typing import Final

from plait_core.telemetry import RECORD_BYTES, pack_into

RING_RECORDS: Final = 1 << 17
"""8 MiB: a third of a second at 400,000 records/s, within which the thread must run once."""


class Ring:
    """A bounded ring, allocated once."""

    __slots__ = ("_mask", "_slots", "buffer", "lost", "taken", "written")

    def __init__(self, records: int = RING_RECORDS) -> None:
        assert records > 0
        assert not records & (records - 1), "a power of two: slots are found by a mask"
        self.buffer = bytearray(records * RECORD_BYTES)
        self._slots = records
        self._mask = records - 1
        self.written = 0
        """Records put in; advanced by the producer alone."""
        self.taken = 0
        """Records taken out; advanced by the consumer alone."""
        self.lost = 0
        """Records dropped because the ring was full."""

    def put(self, *fields: int) -> None:
        """Write a record with the arguments of `pack_into`. It is dropped if the ring is full."""
        written = self.written
        if written - self.taken >= self._slots:
            self.lost += 1
            return
        pack_into(self.buffer, (written & self._mask) * RECORD_BYTES, *fields)
        self.written = written + 1

    def filled(self) -> list[memoryview]:
        """Return the records that wait, in order, in at most two pieces; `release` frees their slots."""
        written = self.written  # read once: the producer goes on meanwhile
        if written == self.taken:
            return []
        begin, end = self.taken & self._mask, written & self._mask
        view = memoryview(self.buffer)
        if begin < end:
            return [view[begin * RECORD_BYTES : end * RECORD_BYTES]]
        return [piece for piece in (view[begin * RECORD_BYTES :], view[: end * RECORD_BYTES]) if piece]

    def copy(self, start: int, end: int) -> bytes:
        """Return records by number, taken out or not.

        Only the producer may call this, as only it knows they still exist.
        """
        assert 0 <= end - start <= self._slots
        assert end <= self.written <= start + self._slots, "older ones were overwritten"
        begin, stop = start & self._mask, end & self._mask
        view = memoryview(self.buffer)
        if begin < stop or start == end:
            return bytes(view[begin * RECORD_BYTES : stop * RECORD_BYTES])
        return b"".join((view[begin * RECORD_BYTES :], view[: stop * RECORD_BYTES]))

    def release(self, records: int) -> None:
        """Free the slots of this many records, which were written out."""
        assert 0 <= records <= self.written - self.taken
        self.taken += records
