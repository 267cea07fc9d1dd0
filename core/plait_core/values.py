"""Attribute values: the values that an event may carry, and the kinds that filters compare.

An attribute is an int (exact at any size), a float, a str, a bool, null, or a list of those. Filters test scalars only;
a list is opaque to them. Ints and floats are one kind and compare by value; a bool is not a number; NaN is a float
that no atom ever matches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from .errors import EventInvalid
from .limits import EVENT_LIMITS, EventLimits
from .sealed_opening import SEALED

Scalar: TypeAlias = int | float | str | bool | None
Value: TypeAlias = Scalar | list[Scalar]
Attributes: TypeAlias = dict[str, Value]
Literal: TypeAlias = int | float | str | bool
"""A value that can be written as a literal in a filter."""
Json: TypeAlias = dict[str, Any]
"""An object of a JSON document: reports, answers of the HTTP API, lines of a protocol. Its readers check the fields."""

REPLY: Final = "$reply"
"""The attribute of a reply that names the requester."""

_OF_CLIENTS: Final = frozenset((SEALED, REPLY))

_NAME = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*\Z")


class ValueKind(Enum):
    """The kinds of comparable values. Values of different kinds are never equal, less or greater."""

    NUMBER = "number"
    TEXT = "text"
    BOOL = "bool"


_KINDS: dict[type, ValueKind] = {
    int: ValueKind.NUMBER,
    float: ValueKind.NUMBER,
    str: ValueKind.TEXT,
    bool: ValueKind.BOOL,
}


def kind_of(value: object) -> ValueKind | None:
    """Return the kind of a value, or None if no filter can compare it (null, NaN, a list)."""
    kind = _KINDS.get(type(value))
    return None if kind is ValueKind.NUMBER and value != value else kind


def is_name(name: str, limits: EventLimits = EVENT_LIMITS) -> bool:
    """Return whether `name` is an attribute name: identifiers joined by dots; a leading `$` marks Plait's own."""
    return len(name) <= limits.name_bytes_max and _NAME.match(name) is not None


def is_reserved(name: str) -> bool:
    """Return whether only brokers may set this attribute: a name `$...`, except those that client libraries add to
    events.
    """
    return name.startswith("$") and name not in _OF_CLIENTS


def is_text(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8, that is, has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_attributes(given: Mapping[str, object], limits: EventLimits = EVENT_LIMITS) -> Attributes:
    """Return a plain dict of plain values equal to `given`; raise EventInvalid naming the offending attribute."""
    if len(given) > limits.attributes_max:
        raise EventInvalid(f"{len(given)} attributes, and {limits.attributes_max} are allowed")
    attributes: Attributes = {}
    for name, value in given.items():
        if type(name) is not str or not is_name(name, limits):
            raise EventInvalid(
                f"{str(name)[:80]!r} is no attribute name",
                hint=f"letters, digits and _ joined by dots, at most {limits.name_bytes_max} characters",
            )
        attributes[name] = _check_value(name, value, limits)
    return attributes


def _check_value(name: str, value: object, limits: EventLimits) -> Value:
    if isinstance(value, (list, tuple)):
        if len(value) > limits.list_items_max:
            raise EventInvalid(f"{name}: {len(value)} items, and {limits.list_items_max} are allowed")
        return [_check_scalar(name, item, limits) for item in value]
    return _check_scalar(name, value, limits)


def _check_scalar(name: str, value: object, limits: EventLimits) -> Scalar:
    """Convert subclasses (IntEnum, StrEnum, numpy floats) to the plain value that they extend."""
    if value is None or type(value) is bool or type(value) is float:
        return value
    if isinstance(value, str):
        if len(value) > limits.value_bytes_max or len(value.encode(errors="surrogatepass")) > limits.value_bytes_max:
            raise EventInvalid(f"{name}: text of over {limits.value_bytes_max} bytes", hint="long things are payload")
        if not is_text(value):
            raise EventInvalid(f"{name}: text with a lone surrogate cannot be written as UTF-8")
        return str.__str__(value)
    if isinstance(value, int):
        if value.bit_length() > limits.int_bits_max:
            raise EventInvalid(f"{name}: an integer of over {limits.int_bits_max} bits")
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise EventInvalid(
        f"{name}: a value of type {type(value).__name__}",
        hint="attributes are int, float, str, bool, None or lists of those; anything else is payload",
    )
