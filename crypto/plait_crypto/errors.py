"""The errors of sealed events.

    PlaitError
    ├── SealError           the root of this tree
    │   ├── SealInvalid     yours: an event, filter or schema that cannot be sealed as asked
    │   ├── KeyMissing      yours: no publisher key here permits sealing this event
    │   ├── KeyRefused      yours: the authority issues no such key to this holder
    │   ├── KeyInvalid      theirs: bytes that are no key, or no public parameters, of this version
    │   └── Unopenable      theirs: an envelope that does not open here, whatever the reason
    └── ...

Whoever sends envelopes learns from an `Unopenable` one thing, that it was refused: the message is always the same and
no cause is chained to it. What its reader may be told is in `why`, which never travels.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from plait_core import PlaitError

Why: TypeAlias = Literal[
    "not_authentic",  # changed, malformed, or not signed as it says
    "another_realm",
    "stale_epoch",  # its epoch, or its session, is over or has not begun
    "missing_key",  # no keys of its epoch are here
    "not_covered",  # there are, and what they open is something else
    "replayed",
]
"""Why an event does not open here."""


class SealError(PlaitError):
    """Root of what sealing and opening raise."""


class SealInvalid(SealError):
    """An event, a filter or a schema that cannot be sealed as asked."""


class KeyMissing(SealError):
    """No publisher key at hand covers the event."""


class KeyRefused(SealError):
    """The authority does not issue this key."""


class KeyInvalid(SealError):
    """Bytes that are no key of this version."""


class Unopenable(SealError):
    """A sealed event that does not open: not for these keys, not whole, not authentic, or not in its time."""

    def __init__(self, why: Why = "not_authentic") -> None:
        super().__init__("a sealed event that does not open here")
        self.args = ()
        self.why: Why = why
