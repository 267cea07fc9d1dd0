"""The public part of sealed events: that an event is sealed, and its session's opening in the payload.

Brokers test the tags of the opening. No arithmetic is needed here.

    payload    version, length of the opening, opening, envelope of a session's member
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final

SEALED: Final = "$sealed"
"""The attribute that marks an event as sealed; its value is the realm."""

SEALED_VERSION: Final = 2
SEALED_HEAD: Final = Struct(">BI")


class Fit(Enum):
    """The result of testing an event's tags with the routing tokens that a subscription has deposited."""

    FITS = "fits"
    OTHER = "other"  # no credential of these keys is among the event's
    UNDECIDED = "undecided"  # the keys are of other epochs, or none: the subscriber decides


def opening_of(payload: bytes) -> bytes | None:
    """Return the opening of a sealed event's session, or None if the payload has none."""
    if len(payload) < SEALED_HEAD.size:
        return None
    version, size = SEALED_HEAD.unpack_from(payload)
    end = SEALED_HEAD.size + size
    return payload[SEALED_HEAD.size : end] if version == SEALED_VERSION and size > 0 and end <= len(payload) else None
