"""The exception tree of the SDK: `plait.Error` is the root, every error has `.retryable` and `.hint`.

Error                        (plait_core.PlaitError)
├── EventInvalid             local: attributes, headers or payload that no event may have
│   └── PayloadTooLarge      the payload exceeds the limit
├── FilterError              local: an unusable filter; has .text, .column and .caret()
│   ├── FilterSyntax
│   ├── FilterTooComplex
│   └── FilterNeverTrue      no event can match it
├── ArgumentInvalid          local: a wrong argument; also a ValueError
│   └── AddressInvalid       a URL, or the name of a context, that names no broker
├── ConfigurationInvalid     local: a saved context, or a file that one or PLAIT_TOKEN_FILE names, is not usable
├── NotAvailable             local: a feature that this version, or this installation, does not have
├── Closed                   the application has closed the client or subscription
├── ConnectionLost           reconnecting was given up, or the outcome of a publish is unknown
├── Timeout                  no answer in time; also a TimeoutError
├── RequestFailed            the responder of a request raised an exception
├── DeadlineMissed           the event's lifetime ended before it was confirmed
├── BufferFull               a bounded queue is full, and its policy is to raise
├── Refused                  the broker refused a request; has .code
│   ├── AuthFailed           unknown token or certificate
│   ├── NotAllowed           the client lacks the right
│   ├── FilterRefused        the broker does not accept this filter
│   ├── NameTaken            the name or id is in use by another client
│   ├── LimitReached         a quota or bound of the broker
│   ├── DurabilityFailed     the broker cannot store events now
│   └── Draining             the broker is stopping; try another broker, or later
└── FrameError               remote: bytes that break the protocol
"""

from __future__ import annotations

from typing import Final

from plait_core import (
    EventInvalid,
    FilterError,
    FilterNeverTrue,
    FilterSyntax,
    FilterTooComplex,
    FrameError,
    PlaitError,
)
from plait_core.wire.frame_types.session_frames import Code

Error = PlaitError
"""The root of the tree."""


class PayloadTooLarge(EventInvalid):
    """The payload exceeds the limit. Put large objects into a store, and their address into the event."""


class ArgumentInvalid(PlaitError, ValueError):
    """An argument of a type or value that the function does not take. The hint says what it takes."""


class AddressInvalid(ArgumentInvalid):
    """A URL, or the name of a context, that names no broker."""


class ConfigurationInvalid(PlaitError):
    """A saved context, or a file that one or PLAIT_TOKEN_FILE names, is not usable."""


class NotAvailable(PlaitError):
    """A feature that this version, or this installation, does not have."""


class Closed(PlaitError):
    """The application has closed the client or subscription."""


class ConnectionLost(PlaitError):
    """The client has given up reconnecting, or the connection broke before the outcome was known."""

    retryable = True


class Timeout(PlaitError, TimeoutError):
    """No answer arrived in time."""

    retryable = True


class RequestFailed(PlaitError):
    """The responder of a request raised an exception. The message has its type and its text."""


class DeadlineMissed(PlaitError):
    """The event's lifetime ended before it was confirmed. It is no longer delivered."""


class BufferFull(PlaitError):
    """A bounded queue is full, and its policy is to raise."""

    retryable = True


class Refused(PlaitError):
    """The broker refused a request. `code` names the reason in one word."""

    def __init__(self, message: str, *, code: str = "", hint: str = "", retryable: bool = False) -> None:
        super().__init__(message, hint=hint)
        self.code = code
        self.retryable = retryable


class AuthFailed(Refused):
    """The broker does not know this token or certificate."""


class NotAllowed(Refused):
    """The broker knows the client and does not permit this."""


class FilterRefused(Refused):
    """The broker does not accept this filter."""


class NameTaken(Refused):
    """The name or id is in use by another client."""


class LimitReached(Refused):
    """A quota or bound of the broker is reached."""


class DurabilityFailed(Refused):
    """The broker cannot store events now."""


class Draining(Refused):
    """The broker is stopping. Try another broker, or later."""


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
}


def refusal(code: str, message: str, *, hint: str = "", retryable: bool = False) -> PlaitError:
    """Return the exception for an error code of the broker. An unknown code becomes a plain `Refused`."""
    text = message or f"the broker answered {code!r}"
    if code == Code.EXPIRED:
        return DeadlineMissed(text, hint=hint)
    return _BY_CODE.get(code, Refused)(text, code=code, hint=hint or _HINTS.get(code, ""), retryable=retryable)


__all__ = [
    "AddressInvalid",
    "ArgumentInvalid",
    "AuthFailed",
    "BufferFull",
    "Closed",
    "ConfigurationInvalid",
    "ConnectionLost",
    "DeadlineMissed",
    "Draining",
    "DurabilityFailed",
    "Error",
    "EventInvalid",
    "FilterError",
    "FilterNeverTrue",
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
    "RequestFailed",
    "Timeout",
    "refusal",
]
