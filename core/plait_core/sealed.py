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

PARCEL_VERSION: Final = 1
PARCEL_HEAD: Final = Struct(">BI")


class Fit(Enum):
    """What came of testing an event's tags with the routing keys that a subscription has deposited."""

    FITS = "fits"
    OTHER = "other"  # no credential of these keys is among the event's
    UNTOLD = "untold"  # the keys are of other epochs, or none: its subscriber is to decide


def opening_of(payload: bytes) -> bytes | None:
    """The opening of a sealed event's session; None if the payload has none."""
    if len(payload) < PARCEL_HEAD.size:
        return None
    version, size = PARCEL_HEAD.unpack_from(payload)
    end = PARCEL_HEAD.size + size
    return payload[PARCEL_HEAD.size : end] if version == PARCEL_VERSION and size > 0 and end <= len(payload) else None
