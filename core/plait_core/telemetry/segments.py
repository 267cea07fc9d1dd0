"""A segment: a header of 64 bytes, records of 64 bytes, and a seal of 64 bytes once it is complete.

All three have one size, so a reader of a growing segment reads whole multiples only and ignores a torn end. A seal has
the number of records and the checksum of all bytes before it.
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
"""The first bytes of a seal. No record begins with them: its time would be in the far future."""

_NAME: Final = re.compile(r"(\d{16})-(\d{6})\.seg\Z", re.ASCII)


class SegmentError(PlaitError):
    """A file that is not a segment, or cannot be read."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 64 bytes of a segment. Its three identity fields name the segment in every copy."""

    broker: int
    started_us: int
    """Start time of the broker, by its own calendar. A restarted broker writes other segments."""
    number: int
    """Number of the segment since the start, from 0."""
    version: int

    def __post_init__(self) -> None:
        assert 0 <= self.number < 1_000_000

    def pack(self) -> bytes:
        return _HEADER.pack(_HEADER_MAGIC, self.version, RECORD_BYTES, 0, self.broker, self.started_us, self.number)

    @classmethod
    def parse(cls, data: bytes) -> SegmentHeader:
        """Parse the header of a file; raise SegmentError if it is not one."""
        if len(data) < SEGMENT_HEADER_BYTES:
            raise SegmentError("it ends before its header does", hint="its broker died, or the copy is not complete")
        magic, version, record_bytes, reserved, broker, started_us, number = _HEADER.unpack_from(data)
        if magic != _HEADER_MAGIC:
            raise SegmentError("it is no segment of Plait's telemetry")
        if record_bytes != RECORD_BYTES or reserved or number >= 1_000_000 or not 0 <= started_us < 10**16:
            raise SegmentError(f"its header is invalid: {record_bytes=} {reserved=} {number=} {started_us=}")
        return cls(broker, started_us, number, version)


@dataclass(frozen=True, slots=True)
class Seal:
    """The last 64 bytes of a complete segment."""

    records: int
    checksum: int
    """CRC-32 of all bytes before."""

    def pack(self) -> bytes:
        return _SEAL.pack(_SEAL_MAGIC, self.records, self.checksum)


def parse_seal(data: bytes) -> Seal | None:
    """Parse a seal from 64 bytes. Return None if they are a record."""
    assert len(data) == SEAL_BYTES
    magic, records, checksum = _SEAL.unpack(data)
    return Seal(records, checksum) if magic == _SEAL_MAGIC else None


def segment_name(started_us: int, number: int) -> str:
    """Return the file name of a segment. Names sort in the order of writing."""
    assert 0 <= started_us < 10**16
    return f"{started_us:016d}-{number:06d}.seg"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Parse the start time and number from a file name. Return None if it is not a segment's."""
    found = _NAME.match(name)
    return (int(found[1]), int(found[2])) if found else None
