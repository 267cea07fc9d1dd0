"""The errors of sealed events.

    PlaitError
    ├── SealError           the root of this tree
    │   ├── SealInvalid     caller: an event, filter or schema that cannot be sealed as requested
    │   ├── KeyMissing      caller: no publisher key here permits sealing this event
    │   ├── KeyRefused      caller: the authority issues no such key to this holder
    │   ├── RingClosed      caller: a key ring that was closed with its membership
    │   ├── KeyInvalid      remote: bytes that are not a key or parameters of this version
    │   └── Unopenable      remote: an envelope that does not open here, for any reason
    └── ...

An `Unopenable` reveals to a sender only that its envelope was refused: the message is always the same and no cause is
chained to it. The reason for the local reader is in `why`, which is never sent.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from plait_core import PlaitError

UnopenableReason: TypeAlias = Literal[
    "not_authentic",  # changed, malformed, or not signed by its publisher
    "another_realm",
    "stale_epoch",  # its epoch, or its session, is over or has not begun
    "missing_key",  # the ring has no keys of its epoch
    "not_covered",  # the ring has keys of its epoch, which open other events
    "replayed",  # it was opened before, or published before this ring can tell
    "expired",  # its sealed lifetime is over
]
"""The reason why an event does not open here."""


class SealError(PlaitError):
    """The base of all errors of sealing and opening."""


class SealInvalid(SealError):
    """An event, a filter or a schema that cannot be sealed as requested."""


class KeyMissing(SealError):
    """No publisher key of this ring covers the event."""


class KeyRefused(SealError):
    """The authority does not issue this key."""


class RingClosed(SealError):
    """A key ring that was closed with its membership. It neither seals nor opens."""

    def __init__(self) -> None:
        super().__init__("the key ring is closed", hint="close subscriptions and clients before their membership")


class KeyInvalid(SealError):
    """Bytes that are not a key of this version."""


class Unopenable(SealError):
    """A sealed event that does not open: not for these keys, not whole, not authentic, or not in its time."""

    def __init__(self, why: UnopenableReason = "not_authentic", place: tuple[bytes, int] | None = None) -> None:
        super().__init__("a sealed event that does not open here")
        self.args = ()
        self.why: UnopenableReason = why
        self.place = place
        """Session and number of an authentic event, which is `expired` or `replayed`."""
