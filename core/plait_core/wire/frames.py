"""A frame of any type, and its bytes."""

from __future__ import annotations

from typing import TypeAlias

from ..limits import WIRE_LIMITS, WireLimits
from .event_frames import Deliver, Forward, Publish, encode_event_frame
from .frame_header import VERSION_MAX
from .frame_types.frame_schema import ControlFrame, encode_control

Frame: TypeAlias = Publish | Forward | Deliver | ControlFrame


def encode_frame(frame: Frame, version: int = VERSION_MAX, limits: WireLimits = WIRE_LIMITS) -> bytes:
    """Encode a frame for a FrameDecoder of that version. Handshake frames always use their own version."""
    if isinstance(frame, ControlFrame):
        return encode_control(frame, version, limits)
    return encode_event_frame(frame, version)
