"""Conversion between Python objects and attributes: mappings, dataclasses and pydantic models, both ways.

Pydantic models are recognised by their methods; this module never imports pydantic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from plait_core import Attributes, EventInvalid
from plait_core.values import check_attributes, is_reserved
from plait_core.wire.attributes import are_plain

from ..errors import NotAvailable
from ..event import Event

T = TypeVar("T")


def plain_attributes(given: Mapping[str, object]) -> Attributes:
    """Check attributes and return them. Raise EventInvalid for attributes that no event may have.

    A dict of plain values is returned as it is.
    """
    if type(given) is dict and are_plain(given):
        return given
    attributes = check_attributes(given)
    reserved = next(filter(is_reserved, attributes), None)
    if reserved is not None:
        raise EventInvalid(f"{reserved}: names that begin with $ are reserved for brokers", hint="choose another name")
    return attributes


def event_parts(given: object, payload: bytes) -> tuple[Mapping[str, object], bytes]:
    """Return the attributes and the payload of a mapping, dataclass or pydantic model. A `payload` field of bytes is
    the payload."""
    if isinstance(given, Mapping):
        return given, payload
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        fields: dict[str, object] = {f.name: getattr(given, f.name) for f in dataclasses.fields(given)}
    elif hasattr(given, "model_dump"):
        fields = dict(given.model_dump(by_alias=True))  # the names that model_validate reads
    else:
        raise EventInvalid(
            f"a {type(given).__name__} cannot be published", hint="give a mapping, a dataclass or a pydantic model"
        )
    if isinstance(fields.get("payload"), bytes):
        own = fields.pop("payload")
        assert isinstance(own, bytes)
        payload = payload or own
    return fields, payload


def reader_of(shape: type[T]) -> Callable[[Event], T]:
    """Return a function that converts an event to `shape`. It raises ValueError or TypeError if the event does not
    convert."""
    if shape is dict:
        return dict  # type: ignore[return-value]  # a dict of any key and value
    validate: Callable[[dict[str, object]], T] | None = getattr(shape, "model_validate", None)
    if validate is not None:
        return partial(_validated, validate, "payload" in getattr(shape, "model_fields", {}))
    if dataclasses.is_dataclass(shape):
        return _dataclass_reader(shape)
    raise NotAvailable(f"as_={shape!r}", hint="give a dataclass, a pydantic model or dict")


def _validated(validate: Callable[[dict[str, object]], T], takes_payload: bool, event: Event) -> T:
    return validate(_fields(event, takes_payload))


def _fields(event: Event, takes_payload: bool) -> dict[str, object]:
    return {"payload": event.payload, **event} if takes_payload else dict(event)


def _dataclass_reader(shape: type[T]) -> Callable[[Event], T]:
    hints = get_type_hints(shape)
    assert dataclasses.is_dataclass(shape)
    fields = [f for f in dataclasses.fields(shape) if f.init]
    kinds = {f.name: _kinds(hints[f.name]) for f in fields}
    takes_payload = "payload" in kinds

    def read(event: Event) -> T:
        given = _fields(event, takes_payload)
        values: dict[str, object] = {}
        for name, allowed in kinds.items():
            if name in given:
                values[name] = _converted(name, given[name], allowed)
        made: T = shape(**values)  # raises TypeError for a missing field without a default
        return made

    return read


def _converted(name: str, value: object, allowed: tuple[type, ...] | None) -> object:
    if allowed is None or type(value) in allowed:
        return value
    if float in allowed and type(value) is int:
        return float(value)
    raise ValueError(f"{name} is a {type(value).__name__}")


@lru_cache(maxsize=1024)
def _kinds(hint: Any) -> tuple[type, ...] | None:
    """Return the plain types that a field accepts, or None when its annotation is not a plain type."""
    if hint is None:
        return (type(None),)
    if hint in (int, float, str, bool, bytes, list, type(None)):
        return (hint,)
    origin = get_origin(hint)
    if origin is list:
        return (list,)
    if origin in (Union, UnionType):
        parts = [_kinds(part) for part in get_args(hint)]
        return None if None in parts else tuple(kind for part in parts if part for kind in part)
    return None
