"""What of sealed events everybody sees who passes them on, with no arithmetic: that they are sealed, and where in their
payload the opening of their session is, whose tags brokers test.

    payload    version, length of the opening, opening, envelope of a session's member
"""

from __future__ import annotations

from enum import Enum
from struct import Struct
from typing import Final

SEALED: Final = "$sealed"
"""The attribute that says that an event is sealed, and in which realm."""

SEALED_VERSION: Final = 1
SEALED_HEAD: Final = Struct(">BI")


class Fit(Enum):
    """What came of testing an event's tags with the routing keys that a subscription has deposited."""

    FITS = "fits"
    OTHER = "other"  # no credential of these keys is among the event's
    UNTOLD = "untold"  # the keys are of other epochs, or none: its subscriber is to decide


def opening_of(payload: bytes) -> bytes | None:
    """The opening of a sealed event's session; None if the payload has none."""
    if len(payload) < SEALED_HEAD.size:
        return None
    version, size = SEALED_HEAD.unpack_from(payload)
    end = SEALED_HEAD.size + size
    return payload[SEALED_HEAD.size : end] if version == SEALED_VERSION and size > 0 and end <= len(payload) else None
