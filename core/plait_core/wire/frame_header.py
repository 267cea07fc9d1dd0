"""The prefix of every frame, and the type numbers in it.

`>IBBH`: bytes after the prefix, protocol version, frame type, bytes of the route. A hot frame continues with its route
and an event block, a control frame (whose route is empty) with one msgpack map or list. Big-endian throughout.
"""

from __future__ import annotations

from struct import Struct

PREFIX = Struct(">IBBH")
PREFIX_BYTES = PREFIX.size

VERSION_MIN = 1
VERSION_MAX = 1
"""The protocol versions that this release supports."""

HANDSHAKE_VERSION = 0
"""The version in the prefix of frames before one is agreed on.

It never changes, so that any two can refuse each other.
"""

PUBLISH = 0x01
FORWARD = 0x02
DELIVER = 0x03
CONTROL_TYPES = range(0x10, 0x100)
"""Type numbers for control frames. Numbers below are for frames that carry an event."""
