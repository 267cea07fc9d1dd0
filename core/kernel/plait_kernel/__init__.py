"""Plait's native kernel: the matching index and the frame splitter, in Rust.

`plait_core.matching.new_index()` uses it when it is installed. Answers are those of `plait_core`; here they are found
faster, and `Index.match_many` takes a whole read of frames in one call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import WIRE_LIMITS, WireLimits

from ._kernel import Index, Splitter

__all__ = ["Frame", "Index", "Splitter", "frame_error", "split_frames", "splitter_for"]

Frame: TypeAlias = tuple[int, int, int, int]
"""A frame in a buffer: its type, where it starts, where its event block or body starts, and where it ends."""


@lru_cache(maxsize=16)
def splitter_for(limits: WireLimits = WIRE_LIMITS, version: int | None = None) -> Splitter:
    """The splitter for connections with these limits that are past the handshake; of the newest version, if of none."""
    from plait_core.wire import VERSION_MAX, Close  # which uses the kernel itself
    from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS

    return Splitter(
        limits,
        VERSION_MAX if version is None else version,
        [(n, schema.opening, schema.frame is Close) for n, schema in FRAME_SCHEMAS.items()],
    )


def split_frames(
    buffer: bytes | bytearray | memoryview, limits: WireLimits = WIRE_LIMITS, version: int | None = None
) -> tuple[list[Frame], int, FrameError | None]:
    """The whole frames at the start of a buffer, the bytes that they take up, and the error that comes next, if any.

    Hot frames are checked up to their attributes, control frames up to their body.
    """
    frames, taken, refusal = splitter_for(limits, version).split(buffer)
    return frames, taken, frame_error(refusal)


def frame_error(refusal: tuple[str, str] | None) -> FrameError | None:
    """What the kernel refuses, as the error that `plait_core` raises."""
    return None if refusal is None else FrameError(FrameFault(refusal[0]), refusal[1])
