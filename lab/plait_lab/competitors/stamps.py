"""What every event of a benchmark says of itself: its phase, its number in that phase, and the moment it was due.

So warming up and measuring are told apart by the event and not by the clock, and a subscriber sees at once when one
is missing, comes twice or overtakes another. Eight bytes, little-endian: 48 bits of nanoseconds, 12 of number, 4 of
phase; numbers count from 0 to `CYCLE - 1` and begin again.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import Final

WARM: Final = 1
"""The phase before the measured one: every server is new, and a JVM compiles meanwhile what it runs."""
MEASURED: Final = 2
PHASES: Final = (WARM, MEASURED)

CYCLE: Final = 1024
"""Different events, published over and over."""
LAST: Final = CYCLE - 1
"""The highest number, and as CYCLE is a power of two, the bits that hold it."""
STAMP_BYTES: Final = 8
PHASE_BYTE: Final = 7
MARK: Final = Struct("<6xH")
"""Of a stamp, phase and number together."""

_NUMBER_BITS: Final = 12
_TIME_BYTES: Final = 6
_TIME_MASK: Final = (1 << 8 * _TIME_BYTES) - 1


def stamp(phase: int, number: int = 0, due_ns: int = 0) -> bytes:
    """The first bytes of an event."""
    return (phase << 60 | number % CYCLE << 48 | due_ns & _TIME_MASK).to_bytes(STAMP_BYTES, "little")


def restamp(data: bytes, due_ns: int) -> bytes:
    """The stamp of the same event with another moment."""
    return (due_ns & _TIME_MASK).to_bytes(_TIME_BYTES, "little") + data[_TIME_BYTES:STAMP_BYTES]


def phase_of(data: bytes) -> int:
    """The phase of the event that begins with these bytes."""
    return data[PHASE_BYTE] >> 4


def phase_of_mark(mark: int) -> int:
    return mark >> _NUMBER_BITS


def first_mark(phase: int) -> int:
    return phase << _NUMBER_BITS


def age_ns(data: bytes) -> int:
    """How long ago the event that begins with these bytes was due to be published."""
    return time.monotonic_ns() - int.from_bytes(data[:_TIME_BYTES], "little") & _TIME_MASK


def closing(phase: int) -> bytes:
    """The last byte of an event that is counted without being parsed: it occurs nowhere else in its bytes."""
    return bytes((phase,))
