"""The history of a simulated world in numbers, and its hash.

A history contains times, nodes, links, event ids and the type numbers of frames. It contains no text and no name of a
class, field, reason or metric. So a commit that only renames or moves code leaves every hash unchanged, and a commit
that sends, delays, drops or reorders anything changes it.

The bytes of a control frame depend on the names of its fields, so a history weighs all control frames alike
(`CONTROL_BYTES`).
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterator
from enum import IntEnum
from typing import ClassVar, Final

from plait_core.errors import FrameError
from plait_core.wire import VERSION_MAX, Deliver, Forward, Frame, FrameDecoder, Publish
from plait_core.wire.frame_header import DELIVER, FORWARD, PREFIX, PREFIX_BYTES, PUBLISH
from plait_core.wire.frame_types.envelope_frames import END_TO_END, SIGNED, EndToEnd, Signed
from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS

TYPE_AT: Final = 5
"""Where a frame's type number is in its prefix."""

UNKNOWN: Final = (1 << 64) - 1
"""Stands for a node that the world does not know, and for a missing result."""

CONTROL_BYTES: Final = 64
"""The weight of a control frame: roughly the mean of what clients and brokers exchange."""

NOISE: Final = 0
"""The type number of bytes that are no frame."""


class Kind(IntEnum):
    """The subject of a line. The numbers are part of all recorded hashes."""

    FRAME = 1
    EVENT_COPY = 2
    WRITE = 3

    STARTED = 10
    STOPPED = 11
    PAUSED = 12
    RESUMED = 13
    LINK_UP = 14
    LINK_DOWN = 15
    CLOSED = 16
    EXPELLED = 17

    PUBLISHED = 20
    RECEIVED = 21
    TAKEN = 22
    OUTCOME = 23
    SETTLED = 24
    GIVEN_UP = 25
    MISSED = 26

    ADVERTISED = 30
    SUBSCRIBED = 31
    INSTALLED = 32
    CHANGED = 33
    CLOSING = 34
    ENDED = 35

    FAULT = 40
    BREACH = 41


class History:
    """The lines of one world, hashed as they are added."""

    held_max: ClassVar[int] = 1 << 16
    """Numbers kept before they are hashed and released: half a megabyte. Raise it to read a history afterwards."""

    def __init__(self) -> None:
        self._held = array("Q")
        self._digest = hashlib.blake2b(digest_size=8)

    def add(self, kind: Kind, at_s: float, *numbers: int) -> None:
        """Add a line: the kind, the time, and the numbers that identify it."""
        held = self._held
        held.extend((kind, round(at_s * 1_000_000), len(numbers), *numbers))
        if len(held) > self.held_max:
            self._digest.update(_portable(held))
            del held[:]

    def hash(self) -> str:
        """Return the hash of all lines up to now."""
        digest = self._digest.copy()
        digest.update(_portable(self._held))
        return digest.hexdigest()

    def lines(self) -> Iterator[str]:
        """Return the lines that are still kept, as text."""
        held, at = self._held, 0
        while at < len(held):
            kind, at_us, count = held[at : at + 3]
            numbers = held[at + 3 : at + 3 + count]
            yield f"{at_us / 1_000_000:12.6f} {Kind(kind).name.lower():10} {' '.join(map(str, numbers))}".rstrip()
            at += 3 + count


def _portable(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


_TYPE_NUMBERS: Final[dict[type, int]] = {Publish: PUBLISH, Forward: FORWARD, Deliver: DELIVER}


def type_number(frame: Frame | bytes) -> int:
    """Return the number that a frame's type has on the wire; of an envelope, that of what it carries."""
    kind = type(frame)
    if isinstance(frame, Signed | EndToEnd):
        return frame.kind
    try:
        return _TYPE_NUMBERS[kind]
    except KeyError:
        if isinstance(frame, bytes):
            number: int = PREFIX.unpack_from(frame)[2]
            return _carried(frame) if number in (SIGNED, END_TO_END) else number
    found = next(number for number, schema in FRAME_SCHEMAS.items() if schema.frame is kind)
    _TYPE_NUMBERS[kind] = found
    return found


def _carried(frame: bytes) -> int:
    """Return the kind of what an envelope carries; of a malformed one, its own number."""
    decoder = FrameDecoder(version=VERSION_MAX)
    decoder.feed(frame)
    try:
        (envelope,) = decoder.take()
    except FrameError:
        return int(frame[TYPE_AT])
    assert isinstance(envelope, Signed | EndToEnd)
    return envelope.kind


def frames_in(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the type number, the bytes and the weight of each frame in a write.

    Bytes that are no frame are the last item, as one piece of noise.
    """
    at = 0
    while len(data) - at >= PREFIX_BYTES:
        body_bytes, _, number, _ = PREFIX.unpack_from(data, at)
        size = PREFIX_BYTES + body_bytes
        hot = number in (PUBLISH, FORWARD, DELIVER)
        if size > len(data) - at or not (hot or number in FRAME_SCHEMAS):
            break
        if number in (SIGNED, END_TO_END):
            number = _carried(data[at : at + size])
        yield number, size, size if hot else CONTROL_BYTES
        at += size
    if at < len(data):
        yield NOISE, len(data) - at, len(data) - at


def weights_in(data: bytes) -> list[int]:
    """Return the type number and the weight of each frame in a write, one after the other."""
    return [number for type_number, _, weight in frames_in(data) for number in (type_number, weight)]
