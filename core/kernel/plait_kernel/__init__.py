"""Plait's native kernel: the matching index and the frame splitter, in Rust.

`plait_core.matching.new_index()` uses it if it is installed. Results are those of `plait_core`, computed faster, and
`Index.match_many` processes a whole read of frames in one call.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from plait_core.errors import FrameError, FrameFault
from plait_core.limits import WIRE_LIMITS, WireLimits

from ._kernel import Index, Splitter

__all__ = ["Frame", "Index", "Splitter", "frame_error", "split_frames", "splitter_for"]

Frame: TypeAlias = tuple[int, int, int, int]
"""A frame in a buffer: its type, its start, the start of its event block or body, and its end."""


@lru_cache(maxsize=16)
def splitter_for(limits: WireLimits = WIRE_LIMITS, version: int | None = None) -> Splitter:
    """Return the splitter for connections with these limits after the handshake. The default is the newest version."""
    from plait_core.wire import VERSION_MAX, Close  # imported here, because it uses the kernel itself
    from plait_core.wire.frame_types.frame_schema import FRAME_SCHEMAS

    return Splitter(
        limits,
        VERSION_MAX if version is None else version,
        [(n, schema.opening, schema.frame is Close) for n, schema in FRAME_SCHEMAS.items()],
    )


def split_frames(
    buffer: bytes | bytearray | memoryview, limits: WireLimits = WIRE_LIMITS, version: int | None = None
) -> tuple[list[Frame], int, FrameError | None]:
    """Split the complete frames at the start of a buffer.

    Return the frames, the bytes that they take up, and the error of the next frame, if it has one. Hot frames are
    checked up to their attributes, control frames up to their body.
    """
    frames, taken, refusal = splitter_for(limits, version).split(buffer)
    return frames, taken, frame_error(refusal)


def frame_error(refusal: tuple[str, str] | None) -> FrameError | None:
    """Convert a refusal of the kernel to the error that `plait_core` raises."""
    return None if refusal is None else FrameError(FrameFault(refusal[0]), refusal[1])
