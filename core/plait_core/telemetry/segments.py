"""A segment: a header of 64 bytes, records of 64 bytes, and, once nothing more is to come, a seal of 64 bytes.

All three are of one size, so whoever reads a segment that still grows looks at whole multiples only: what is torn at
the end is not there yet. A seal has the number of records and the checksum of all bytes before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct
from typing import Final

from ..errors import PlaitError
from .schema import RECORD_BYTES

SEGMENT_HEADER_BYTES: Final = RECORD_BYTES
SEAL_BYTES: Final = RECORD_BYTES

_HEADER: Final = Struct("<8sHHIQqI28x")
_HEADER_MAGIC: Final = b"PLAITSEG"
_SEAL: Final = Struct("<16sQI36x")
_SEAL_MAGIC: Final = b"PLAIT SEGMENT.\x7f\x7f"
"""No record begins so: read as one, it would be of a time in the far future."""

_NAME: Final = re.compile(r"(\d{16})-(\d{6})\.seg\Z", re.ASCII)


class SegmentError(PlaitError):
    """A file that is no segment, or none that can be read."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """Whose records follow. The three fields of its identity name a segment wherever a copy of it lies."""

    broker: int
    started_us: int
    """When its broker started, by the broker's calendar: a broker that starts again writes other segments."""
    number: int
    """From 0, since then."""
    version: int

    def __post_init__(self) -> None:
        assert 0 <= self.number < 1_000_000

    def pack(self) -> bytes:
        return _HEADER.pack(_HEADER_MAGIC, self.version, RECORD_BYTES, 0, self.broker, self.started_us, self.number)

    @classmethod
    def parse(cls, data: bytes) -> SegmentHeader:
        """The header that a file begins with; SegmentError when that is none."""
        if len(data) < SEGMENT_HEADER_BYTES:
            raise SegmentError("it ends before its header does", hint="its broker died, or the copy is not complete")
        magic, version, record_bytes, reserved, broker, started_us, number = _HEADER.unpack_from(data)
        if magic != _HEADER_MAGIC:
            raise SegmentError("it is no segment of Plait's telemetry")
        if record_bytes != RECORD_BYTES or reserved or number >= 1_000_000 or not 0 <= started_us < 10**16:
            raise SegmentError(f"its header makes no sense: {record_bytes=} {reserved=} {number=} {started_us=}")
        return cls(broker, started_us, number, version)


@dataclass(frozen=True, slots=True)
class Seal:
    """What ends a segment."""

    records: int
    checksum: int
    """CRC-32 of all bytes before."""

    def pack(self) -> bytes:
        return _SEAL.pack(_SEAL_MAGIC, self.records, self.checksum)


def parse_seal(data: bytes) -> Seal | None:
    """The seal that 64 bytes are; None when they are a record."""
    assert len(data) == SEAL_BYTES
    magic, records, checksum = _SEAL.unpack(data)
    return Seal(records, checksum) if magic == _SEAL_MAGIC else None


def segment_name(started_us: int, number: int) -> str:
    """What a segment's file is called; names sort as segments were written."""
    assert 0 <= started_us < 10**16
    return f"{started_us:016d}-{number:06d}.seg"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """The start and number that a file's name says; None when it is no segment's."""
    found = _NAME.match(name)
    return (int(found[1]), int(found[2])) if found else None
