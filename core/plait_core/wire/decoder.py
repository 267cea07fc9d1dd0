"""Decode bytes from the network into frames.

A decoder holds the start of one frame and the bytes fed last. It refuses a frame on its eight-byte prefix, before it
holds the rest. It begins in the handshake, where it takes only small handshake frames, one at a time. After `establish`
it goes on with one protocol version.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from ..errors import FrameError, FrameFault
from ..limits import WIRE_LIMITS, WireLimits
from ..native import kernel
from .attributes import reader_for
from .event_frames import EventFrameReader
from .frame_header import DELIVER, FORWARD, HANDSHAKE_VERSION, PREFIX, PREFIX_BYTES, PUBLISH
from .frame_types.connection_frames import CLOSE, HELLO, INTRODUCTION, WELCOME
from .frame_types.frame_schema import FRAME_SCHEMAS, FrameSchema, UnknownFrame, decode_control
from .frames import Frame

_Read: TypeAlias = Callable[[bytes, int, int, int], Frame]
"""Builds a frame from a read and the offsets of the frame's route, of its rest, and of its end."""

_UNLIMITED: Final = 1 << 62

_OPENING: Final = (HELLO, WELCOME, INTRODUCTION, CLOSE)
"""The frames that are decoded in the handshake."""

_TABLES_KEPT: Final = 16
"""Tables for as many limits and versions: a process has one or two, tests have more."""


class FrameDecoder:
    """Decode the frames in a stream of bytes. The result does not depend on how the stream is cut into reads.

    Frames before an error are returned first; then every call raises that error, and further input is dropped. Use it
    as

        frames = decoder.read(data)
        while frames:
            ...
            frames = decoder.take() if decoder.more else []
    """

    __slots__ = (
        "_at",
        "_body_bytes_max",
        "_error",
        "_hot",
        "_limits",
        "_native",
        "_need",
        "_pending",
        "_read",
        "_readers",
        "_take",
        "_unknown",
        "_version",
        "more",
    )

    def __init__(
        self,
        limits: WireLimits = WIRE_LIMITS,
        version: int | None = None,
        *,
        native: bool = True,
        keep_unknown: bool = False,
    ) -> None:
        """With a `version`, begin after the handshake. `native=False` decodes without the kernel, for comparison."""
        self._limits = limits
        self.more = False
        """True if `take` may return or raise something, or the start of a frame is buffered."""
        self._read = b""  # whole frames, usually: the part from `_at` on is not decoded yet
        self._at = 0
        self._pending = bytearray()  # the start of a frame, or input that arrived before `_read` was used up
        self._need = PREFIX_BYTES  # bytes needed for the next step
        self._error: FrameError | None = None
        self._version = HANDSHAKE_VERSION
        self._body_bytes_max = min(limits.hello_bytes_max, limits.frame_bytes_max) - PREFIX_BYTES
        self._native = native
        self._unknown = False
        self._hot: Any = None  # the kernel's reader of hot frames
        self._take = 1  # the bytes after a handshake frame have other rules, which the frame's receiver sets
        self._readers = _opening_readers(limits)
        if version is not None:
            self.establish(version, keep_unknown=keep_unknown)

    def establish(self, version: int, *, keep_unknown: bool = False) -> None:
        """End the handshake: from the next frame on, take everything but handshake frames, in this version.

        `keep_unknown` returns frames of types that this version does not know as UnknownFrame, in place of a
        FrameError: the other end may be newer.
        """
        assert self._version == HANDSHAKE_VERSION != version, "a connection has one handshake"
        self._version = version
        self._unknown = keep_unknown
        self._body_bytes_max = self._limits.frame_bytes_max - PREFIX_BYTES
        self._take = _UNLIMITED
        self._readers = _established_readers(self._limits, self._native, len(FRAME_SCHEMAS))
        if self._native and kernel is not None:
            self._hot = _hot_reader(self._limits, version)

    @property
    def held_bytes(self) -> int:
        """Number of bytes fed and not yet returned as frames."""
        return len(self._read) - self._at + len(self._pending)

    def read(self, data: bytes) -> list[Frame]:
        """Call `feed` and then `take`, in one step for the common case that a read is whole events."""
        if self._hot is None or self.more:
            self.feed(data)
            return self.take()
        frames: list[Frame] = []
        at = self._hot.read(data, 0, frames)
        if at == len(data):
            return frames
        self.more, self._read, self._at = True, data, at
        return self._decode(self._take, frames)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Append input from the network."""
        self.more = True
        if self._error is not None:
            return
        if self._read or len(self._pending) + len(data) < self._need:
            self._pending += data
        elif not self._pending:
            self._read = bytes(data)  # bytes() of bytes makes no copy
        else:
            self._read = b"".join((self._pending, data))
            self._pending = bytearray()

    def take(self) -> list[Frame]:
        """Return all complete frames (in the handshake, the next one). Raise FrameError if an error is next."""
        if not self._read and len(self._pending) < self._need and self._error is None:
            return []  # the common case: the last read was used up
        frames: list[Frame] = []
        if self._hot is not None and self._read and not self._pending:
            self._at = self._hot.read(self._read, self._at, frames)
            if self._at == len(self._read):  # the common case: whole events alone
                self._read, self._at, self._need, self.more = b"", 0, PREFIX_BYTES, False
                return frames
        return self._decode(self._take, frames)

    def next_frame(self) -> Frame | None:
        """Return the next frame if it is complete. Raise FrameError if an error is next."""
        frames = self._decode(1, [])
        return frames[0] if frames else None

    def _decode(self, most: int, frames: list[Frame]) -> list[Frame]:
        """Decode up to `most` frames, and append them to `frames`."""
        try:
            while len(frames) < most and self._error is None:
                if not self._read and (len(self._pending) < self._need or not self._refill()):
                    break
                self._decode_read(frames, most)
        except FrameError as error:
            self._error = error
            self._read, self._at, self._pending = b"", 0, bytearray()
        if self._error is not None and not frames:
            raise self._error.with_traceback(None)
        self.more = bool(self._read or self._pending or self._error)
        return frames

    def _refill(self) -> bool:
        """Return whether there are bytes to decode. Joins a frame's pieces once, when all of them have arrived."""
        if len(self._pending) >= self._need:
            self._read, self._pending = bytes(self._pending), bytearray()
        return bool(self._read)

    def _decode_read(self, frames: list[Frame], most: int) -> None:
        read, readers, version, body_bytes_max = self._read, self._readers, self._version, self._body_bytes_max
        at, end = self._at, len(self._read)
        hot = self._hot if most == _UNLIMITED else None
        need = PREFIX_BYTES
        while len(frames) < most:
            if hot is not None:
                at = hot.read(read, at, frames)  # up to a control frame, a part of a frame, or a fault
            if end - at < PREFIX_BYTES:
                break
            size, frame_version, number, route_bytes = PREFIX.unpack_from(read, at)
            reader = readers.get(number)
            if size > body_bytes_max or frame_version != version or reader is None:
                reader = self._check_prefix(size, frame_version, number)
            start = at + PREFIX_BYTES
            if end - start < size:
                need = PREFIX_BYTES + size
                break
            at = start + size
            frames.append(reader(read, start, start + route_bytes, at))
        self._at = at
        if len(frames) < most or at == end:
            if at < end:
                self._keep_partial(need)
            else:
                self._read, self._at, self._need = b"", 0, need

    def _keep_partial(self, need: int) -> None:
        """Copy the start of an incomplete frame, so that the memory of its read is released."""
        self._pending[:0] = self._read[self._at :]
        self._read, self._at, self._need = b"", 0, need

    def _check_prefix(self, size: int, version: int, number: int) -> _Read:
        """Return the reader of a frame with an uncommon prefix, or raise FrameError."""
        if size > self._body_bytes_max:
            raise FrameError(FrameFault.OVERSIZE, f"a body of {size} bytes, and {self._body_bytes_max} are allowed")
        reader = self._readers.get(number)
        if reader is None and (number in FRAME_SCHEMAS or number in (PUBLISH, FORWARD, DELIVER)):
            when = "before" if self._version == HANDSHAKE_VERSION else "after"
            raise FrameError(FrameFault.ORDER, f"a frame of type {number:#x} {when} the handshake is done")
        # An initiator that gives up before our Welcome arrives closes in the handshake's version.
        early_close = number == CLOSE and version == HANDSHAKE_VERSION
        if version != self._version and not early_close:
            raise FrameError(FrameFault.VERSION, f"a frame in version {version}; this connection uses {self._version}")
        if reader is None and self._unknown:
            return lambda read, route, body, end: UnknownFrame(number)
        if reader is None:
            raise FrameError(FrameFault.TYPE, f"frame type {number:#x} does not exist")
        return reader


# The tables of readers depend on limits and version alone. All connections share them: a table takes 9 KB.


@lru_cache(maxsize=_TABLES_KEPT)
def _opening_readers(limits: WireLimits) -> dict[int, _Read]:
    """Return the readers of frames in the handshake. Callers must not change the table."""
    return {number: _control(FRAME_SCHEMAS[number], limits) for number in _OPENING}


@lru_cache(maxsize=_TABLES_KEPT)
def _established_readers(limits: WireLimits, native: bool, schemas: int) -> dict[int, _Read]:
    """Return the readers of frames after the handshake. Callers must not change the table.

    `schemas`: the number of known frame types. A module that is imported later, such as that of the peers' frames, adds
    its own.
    """
    events = EventFrameReader(limits, native=native)
    readers = {number: _control(schema, limits) for number, schema in FRAME_SCHEMAS.items() if not schema.opening}
    return readers | {PUBLISH: events.publish, FORWARD: events.forward, DELIVER: events.deliver}


@lru_cache(maxsize=_TABLES_KEPT)
def _hot_reader(limits: WireLimits, version: int) -> Any:
    """Return the kernel's reader of hot frames. It keeps nothing between two reads."""
    assert kernel is not None
    return kernel.EventFrameReader(limits, version, reader_for(limits.event))


def _control(schema: FrameSchema, limits: WireLimits) -> _Read:
    def read_control(read: bytes, route: int, body: int, end: int) -> Frame:
        if body != route:
            raise FrameError(FrameFault.FIELD, f"a control frame with a route of {body - route} bytes")
        return decode(read[body:end])

    decode = partial(decode_control, schema, limits=limits) if schema.layout is None else schema.layout.decode
    return read_control
