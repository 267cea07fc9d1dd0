"""Wire frames: how events and control messages look between any two parties. No I/O.

`Handshake` agrees on a version, `FrameDecoder` turns bytes into frames, `encode_frame` and the `*_head` functions turn
frames into bytes. ARCHITECTURE.md has the layout; `prefix.py`, `event_block.py` and `event_frames.py` are its source.
"""

from . import session_frames as session_frames  # registers its frames with every decoder
from .control_frames import Close, CloseCode, Hello, Introduction, Ping, Pong, Role, Welcome
from .decoder import FrameDecoder
from .delivering import DeliveryWriter
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
from .frames import Frame, encode_frame
from .handshake import Handshake, Side, State
from .prefix import HANDSHAKE_VERSION, VERSION_MAX, VERSION_MIN
from .schema import U64, AtMost, Between, ControlFrame, control

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
    "Side",
    "State",
    "Welcome",
    "control",
    "deliver_head",
    "encode_block",
    "encode_frame",
    "encode_plain_publish",
    "encode_publish",
    "forward_head",
    "publish_head",
]
