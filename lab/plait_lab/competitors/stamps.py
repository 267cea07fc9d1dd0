"""The stamp of a benchmark's event: its phase, its number in the phase, and the time it was due.

The stamp separates warm-up from measurement independently of clocks, and lets a subscriber detect missing, repeated and
reordered events. Eight bytes, little-endian: 48 bits of nanoseconds, 12 of number, 4 of phase. Numbers count from 0 to
`CYCLE - 1` and wrap.
"""

from __future__ import annotations

import time
from struct import Struct
from typing import Final

WARM: Final = 1
"""The phase before the measured one: every server is new, and a JVM compiles its code meanwhile."""
MEASURED: Final = 2
PHASES: Final = (WARM, MEASURED)

CYCLE: Final = 1024
"""Different events, published in a cycle."""
LAST: Final = CYCLE - 1
"""The highest number and, as CYCLE is a power of two, the mask of its bits."""
STAMP_BYTES: Final = 8
PHASE_BYTE: Final = 7
MARK: Final = Struct("<6xH")
"""Phase and number of a stamp together."""

_NUMBER_BITS: Final = 12
_TIME_BYTES: Final = 6
_TIME_MASK: Final = (1 << 8 * _TIME_BYTES) - 1


def stamp(phase: int, number: int = 0, due_ns: int = 0) -> bytes:
    """Return the first bytes of an event."""
    return (phase << 60 | number % CYCLE << 48 | due_ns & _TIME_MASK).to_bytes(STAMP_BYTES, "little")


def restamp(data: bytes, due_ns: int) -> bytes:
    """Return the stamp of the same event with another time."""
    return (due_ns & _TIME_MASK).to_bytes(_TIME_BYTES, "little") + data[_TIME_BYTES:STAMP_BYTES]


def phase_of(data: bytes) -> int:
    """Return the phase of the event that begins with these bytes."""
    return data[PHASE_BYTE] >> 4


def phase_of_mark(mark: int) -> int:
    return mark >> _NUMBER_BITS


def first_mark(phase: int) -> int:
    return phase << _NUMBER_BITS


def age_ns(data: bytes) -> int:
    """Return the nanoseconds since the event that begins with these bytes was due."""
    return time.monotonic_ns() - int.from_bytes(data[:_TIME_BYTES], "little") & _TIME_MASK


def closing(phase: int) -> bytes:
    """Return the last byte of an event that is counted unparsed; it occurs nowhere else in the event."""
    return bytes((phase,))
