"""The exception tree of the SDK: `plait.Error` is the root, every error has `.retryable` and `.hint`.

Error                        (plait_core.PlaitError)
├── EventInvalid             yours: attributes, headers or payload that no event may have
│   └── PayloadTooLarge      its payload is over the limit
├── FilterError              yours: a filter that cannot be used; has .text, .column and .caret()
│   ├── FilterSyntax
│   └── FilterTooComplex
├── AddressInvalid           yours: a URL that names no broker
├── NotAvailable             yours: asks for what this version does not have
├── Closed                   the client or subscription was closed, by you
├── ConnectionLost           no connection, and reconnecting was given up; or the outcome of a publish is not known
├── Timeout                  no answer in time; also a TimeoutError
├── DeadlineMissed           the event's time was over before it was confirmed
├── BufferFull               a bounded queue is full, and its policy is to say so
├── Refused                  the broker said no; has .code
│   ├── AuthFailed           it does not know your token or certificate
│   ├── NotAllowed           it knows you, and this is not permitted
│   ├── FilterRefused        it does not take this filter
│   ├── NameTaken            a name or id is in use by someone else
│   ├── LimitReached         a quota or bound
│   ├── DurabilityFailed     it cannot be stored now
│   └── Draining             it is stopping; another broker, or a later time, may serve
└── FrameError               theirs: bytes that break the protocol
"""

from __future__ import annotations

from typing import Final

from plait_core import (
    EventInvalid,
    FilterError,
    FilterSyntax,
    FilterTooComplex,
    FrameError,
    PlaitError,
)
from plait_core.wire.frame_types.session_frames import Code

Error = PlaitError
"""The root of the tree."""


class PayloadTooLarge(EventInvalid):
    """The payload is over the limit; large objects belong in a store, with their address in the event."""


class AddressInvalid(PlaitError):
    """A URL that names no broker."""


class NotAvailable(PlaitError):
    """What was asked for is not in this version."""


class Closed(PlaitError):
    """The client or subscription was closed."""


class ConnectionLost(PlaitError):
    """There is no connection, and reconnecting was given up; or it broke before an outcome was known."""

    retryable = True


class Timeout(PlaitError, TimeoutError):
    """No answer came in time."""

    retryable = True


class DeadlineMissed(PlaitError):
    """The event's lifetime was over before it was confirmed; it is not delivered any more."""


class BufferFull(PlaitError):
    """A bounded queue is full, and its policy is to say so."""

    retryable = True


class Refused(PlaitError):
    """The broker said no. `code` says why in one word."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.retryable = retryable


class AuthFailed(Refused):
    """The broker does not know this token or certificate."""


class NotAllowed(Refused):
    """The broker knows who you are and does not permit this."""


class FilterRefused(Refused):
    """The broker does not take this filter."""


class NameTaken(Refused):
    """A name or id is in use by someone else."""


class LimitReached(Refused):
    """A quota or bound of the broker is reached."""


class DurabilityFailed(Refused):
    """The broker cannot store it now."""


class Draining(Refused):
    """The broker is stopping; another one, or a later time, may serve."""


_BY_CODE: Final[dict[str, type[Refused]]] = {
    Code.AUTH: AuthFailed,
    Code.NOT_ALLOWED: NotAllowed,
    Code.FILTER: FilterRefused,
    Code.TAKEN: NameTaken,
    Code.LIMIT: LimitReached,
    Code.DURABILITY: DurabilityFailed,
    Code.DRAINING: Draining,
}
_HINTS: Final[dict[str, str]] = {
    Code.AUTH: "give the broker's token: connect(auth=...) or plait://TOKEN@host",
    Code.TAKEN: "choose another name=, or leave it out",
}


def refusal(code: str, message: str, *, hint: str = "", retryable: bool = False) -> PlaitError:
    """The error for what a broker answered. Codes that this version does not know become plain `Refused`."""
    said = message or f"the broker answered {code!r}"
    if code == Code.EXPIRED:
        return DeadlineMissed(said, hint=hint)
    return _BY_CODE.get(code, Refused)(said, code=code, hint=hint or _HINTS.get(code, ""), retryable=retryable)


__all__ = [
    "AddressInvalid",
    "AuthFailed",
    "BufferFull",
    "Closed",
    "ConnectionLost",
    "DeadlineMissed",
    "Draining",
    "DurabilityFailed",
    "Error",
    "EventInvalid",
    "FilterError",
    "FilterRefused",
    "FilterSyntax",
    "FilterTooComplex",
    "FrameError",
    "LimitReached",
    "NameTaken",
    "NotAllowed",
    "NotAvailable",
    "PayloadTooLarge",
    "Refused",
    "Timeout",
    "refusal",
]
