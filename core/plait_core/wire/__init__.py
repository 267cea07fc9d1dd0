"""Wire frames: the bytes of events and control messages between any two parties. No I/O.

`Handshake` agrees on a version, `FrameDecoder` turns bytes into frames, `encode_frame` and the `*_head` functions turn
frames into bytes. ARCHITECTURE.md documents the layout; `frame_header.py`, `event_block.py` and `event_frames.py` are
its source.
"""

from .decoder import FrameDecoder
from .delivery_writer import DeliveryWriter
from .event_block import encode_block
from .event_frames import (
    Confirm,
    Deliver,
    Delivery,
    Destination,
    EventFrame,
    Forward,
    Publish,
    deliver_head,
    encode_plain_publish,
    encode_publish,
    forward_head,
    publish_head,
)
from .frame_header import HANDSHAKE_VERSION, VERSION_MAX, VERSION_MIN
from .frame_types import group_frames as group_frames  # registers its frames with every decoder
from .frame_types import session_frames as session_frames
from .frame_types import strategy_frames as strategy_frames  # registers its frames with every decoder
from .frame_types.connection_frames import Close, CloseCode, Hello, Introduction, Ping, Pong, Role, Welcome
from .frame_types.frame_schema import U64, AtMost, Between, ControlFrame, control, encode_control
from .frames import Frame, encode_frame
from .handshake import End, Handshake, State

__all__ = [
    "HANDSHAKE_VERSION",
    "U64",
    "VERSION_MAX",
    "VERSION_MIN",
    "AtMost",
    "Between",
    "Close",
    "CloseCode",
    "Confirm",
    "ControlFrame",
    "Deliver",
    "Delivery",
    "DeliveryWriter",
    "Destination",
    "End",
    "EventFrame",
    "Forward",
    "Frame",
    "FrameDecoder",
    "Handshake",
    "Hello",
    "Introduction",
    "Ping",
    "Pong",
    "Publish",
    "Role",
    "State",
    "Welcome",
    "control",
    "deliver_head",
    "encode_block",
    "encode_control",
    "encode_frame",
    "encode_plain_publish",
    "encode_publish",
    "forward_head",
    "publish_head",
]
