"""The event: attributes for routing, an opaque payload, and an identity of publisher and sequence number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .errors import EventInvalid
from .limits import EVENT_LIMITS, PRIORITY_MAX, EventLimits
from .values import Attributes, check_attributes, is_name, is_text

U64_MAX = 2**64 - 1
I64_MAX = 2**63 - 1


class EventId(NamedTuple):
    """The permanent name of an event: its publisher's id and the publisher's sequence number, from 1."""

    publisher: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.publisher:016x}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> EventId:
        """Parse the id that `str` printed; raise EventInvalid if `text` is not one."""
        publisher, _, sequence = text.partition("-")
        try:
            found = cls(int(publisher, 16), int(sequence))
        except ValueError:
            found = cls(0, 0)
        if str(found) != text or not 0 <= found.publisher <= U64_MAX or not 0 <= found.sequence <= U64_MAX:
            raise EventInvalid(f"{text[:80]!r} is no event id", hint="16 hex digits, a dash, a number")
        return found


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Times are whole microseconds, so that they survive every hop unrounded.

    The constructor trusts its arguments (it is on the hot path); `Event.checked` does not.
    """

    attributes: Attributes
    payload: bytes = b""
    publisher: int = 0
    sequence: int = 0
    published_us: int = 0
    """Publication time in microseconds since 1970, by the publisher's clock: for people, never for ordering."""
    lifetime_us: int = 0
    """Microseconds after publication during which the event may be delivered; 0: for ever."""
    priority: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> EventId:
        return EventId(self.publisher, self.sequence)

    @classmethod
    def checked(
        cls,
        attributes: Mapping[str, object],
        payload: bytes = b"",
        *,
        publisher: int = 0,
        sequence: int = 0,
        published_us: int = 0,
        lifetime_us: int = 0,
        priority: int = 0,
        headers: Mapping[str, str] | None = None,
        limits: EventLimits = EVENT_LIMITS,
    ) -> Event:
        """Return the event with these parts; raise EventInvalid if one of them is not allowed."""
        if len(payload) > limits.payload_bytes_max:
            raise EventInvalid(f"a payload of {len(payload)} bytes, and {limits.payload_bytes_max} are allowed")
        if not 0 <= publisher <= U64_MAX or not 0 <= sequence <= U64_MAX:
            raise EventInvalid("publisher and sequence are unsigned 64-bit numbers")
        if not -I64_MAX <= published_us <= I64_MAX or not 0 <= lifetime_us <= I64_MAX:
            raise EventInvalid("publication time and lifetime are 64-bit numbers of microseconds")
        if not 0 <= priority <= PRIORITY_MAX:
            raise EventInvalid(f"priority {priority}", hint=f"0 to {PRIORITY_MAX}")
        checked = check_attributes(attributes, limits)
        return cls(
            checked,
            bytes(payload),
            publisher,
            sequence,
            published_us,
            lifetime_us,
            priority,
            _check_headers(headers or {}, limits),
        )


def _check_headers(headers: Mapping[str, str], limits: EventLimits) -> dict[str, str]:
    if not isinstance(headers, Mapping):
        raise EventInvalid(f"headers of type {type(headers).__name__}", hint="headers are a mapping of names to texts")
    if len(headers) > limits.headers_max:
        raise EventInvalid(f"{len(headers)} headers, and {limits.headers_max} are allowed")
    for name, text in headers.items():
        if type(name) is not str or not is_name(name.replace("-", "_"), limits):
            raise EventInvalid(f"{str(name)[:80]!r} is no header name", hint="letters, digits, _ and - joined by dots")
        if type(text) is not str or not is_text(text):
            raise EventInvalid(f"header {name}: not a text that can be written as UTF-8")
    return dict(headers)
