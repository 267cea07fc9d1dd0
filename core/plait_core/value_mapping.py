"""The mapping of Python values to attribute values, one for publishing and for the filters that `F` builds.

| Python | attribute | order |
|---|---|---|
| `datetime` with a zone | text, UTC with microseconds: `2026-01-31T09:30:00.000000Z` | that of the moments |
| `date` | text: `2026-01-31` | that of the days; a prefix of the moments of that day |
| `Decimal` | int or float; refused if a float does not hold all its digits | that of the numbers |
| `Enum` | its value, mapped in turn | that of the values |
| `UUID` | text: 8-4-4-4-12 lower-case hex digits | that of the bytes |
| `bytes`, `bytearray` | text of lower-case hex digits | that of the bytes |
| numpy scalars | the Python value of `.item()`, mapped in turn | that of the numbers |

Equal values give one text or number, so equality and sets work. The order is kept, so ranges work, also in the text of
a filter: `at >= '2026-01-31T09:30'`. That is why a moment is a text and not a number of microseconds: a reader can
write it. `restore` gives an equal value back. A `datetime` comes back in UTC, and a `Decimal` without trailing zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

from .errors import EventInvalid
from .limits import EVENT_LIMITS

_DIGITS_MAX: Final = EVENT_LIMITS.int_bits_max // 3
"""Digits of an integral Decimal. Beyond that the integer exceeds `int_bits_max`, and computing it may take for ever."""


def plain_value(value: object) -> object:
    """Return the attribute value of a Python value. A value of another type is returned as it is.

    Raise EventInvalid for a value without an exact mapping.
    """
    if isinstance(value, Enum):
        return plain_value(value.value)
    if isinstance(value, str | int | float) or value is None:
        return value
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex()
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        found: object = value.item()  # type: ignore[attr-defined]
        return plain_value(found) if type(found).__module__ != "numpy" else value
    return value


def _moment(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise EventInvalid(
            f"the datetime {moment.isoformat()} has no time zone", hint="datetime.now(UTC), or .astimezone()"
        )
    try:
        utc = moment.astimezone(UTC)
    except OverflowError:
        raise EventInvalid(
            f"the datetime {moment.isoformat()} is out of range in UTC", hint="years 1 to 9999"
        ) from None
    return utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _number(number: Decimal) -> int | float:
    if number.is_finite():
        if number == number.to_integral_value() and number.adjusted() < _DIGITS_MAX:
            return int(number)
        found = float(number)
        if Decimal(repr(found)) == number:
            return found
    raise EventInvalid(
        f"the Decimal {str(number)[:60]} is no number that a filter compares exactly",
        hint="up to 17 digits; publish str(...) to keep all of them",
    )


def _decimal(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a Decimal is a number")
    return Decimal(repr(value))


def _of_text(make: Callable[[str], object]) -> Callable[[object], object]:
    def restore(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(f"a {type(value).__name__} instead of a text")
        return make(value)

    return restore


def _aware(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a datetime without a time zone")
    return moment


RESTORE: Final[dict[type, Callable[[object], object]]] = {
    datetime: _of_text(_aware),
    date: _of_text(date.fromisoformat),
    Decimal: _decimal,
    UUID: _of_text(UUID),
    bytes: _of_text(bytes.fromhex),
}
"""For each type that is mapped to another: the function that gives the value back, or raises ValueError."""


def restore(kind: type[Any], value: object) -> object:
    """Return the value of type `kind` that `plain_value` mapped to `value`. Raise ValueError if there is none."""
    if issubclass(kind, Enum):
        for member in kind:
            if plain_value(member.value) == value and type(plain_value(member.value)) is type(value):
                return member
        raise ValueError(f"{value!r:.80} is no {kind.__name__}")
    return RESTORE[kind](value)
