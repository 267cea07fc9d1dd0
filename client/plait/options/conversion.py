"""Conversion between Python objects and attributes: mappings, dataclasses and pydantic models, both ways.

A nested mapping, dataclass or model becomes attributes with dotted names: `{"place": {"city": "Oslo"}}` is published
as `place.city`. Values are mapped as `plait_core.value_mapping` says. Pydantic models are recognised by their methods;
this module never imports pydantic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from plait_core import Attributes, EventInvalid
from plait_core.value_mapping import RESTORE, plain_value, restore
from plait_core.values import check_attributes, is_reserved
from plait_core.wire.attributes import are_plain

from ..errors import ArgumentInvalid
from ..event import Event
from .limits import NESTING_MAX

T = TypeVar("T")


def plain_attributes(given: Mapping[str, object]) -> Attributes:
    """Map values, flatten nested objects, check the attributes and return them.

    Raise EventInvalid for attributes that no event may have. A dict of plain values is returned as it is.
    """
    if type(given) is dict and are_plain(given):
        return given
    if not isinstance(given, Mapping):
        raise EventInvalid(
            f"attributes of type {type(given).__name__}", hint="give a mapping, a dataclass or a pydantic model"
        )
    flat: dict[str, object] = {}
    _flatten("", given, flat, 1)
    attributes = check_attributes(flat)
    reserved = next(filter(is_reserved, attributes), None)
    if reserved is not None:
        raise EventInvalid(f"{reserved}: names that begin with $ are reserved for brokers", hint="choose another name")
    return attributes


def event_parts(given: object, payload: bytes) -> tuple[Mapping[str, object], bytes]:
    """Return the attributes and the payload of a mapping, dataclass or pydantic model. A `payload` field of bytes is
    the payload."""
    if isinstance(given, Mapping):
        return given, payload
    fields = _fields_of(given)
    if fields is None:
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
    if not _is_shape(shape):
        raise ArgumentInvalid(f"as_={shape!r}", hint="give a dataclass, a pydantic model or dict")
    takes_payload = "payload" in _names(shape)

    def read(event: Event) -> T:
        found: T = _built(shape, {"payload": event.payload, **event} if takes_payload else dict(event))
        return found

    return read


# --- to attributes ----------------------------------------------------------------------------------------------------


def _fields_of(given: object) -> dict[str, object] | None:
    """Return the fields of a dataclass or model, not those of objects in it. None for other objects."""
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}
    if hasattr(given, "model_dump") and not isinstance(given, type):
        return dict(given.model_dump(by_alias=True))  # the names that model_validate reads
    return None


def _flatten(prefix: str, given: Mapping[Any, object], flat: dict[str, object], depth: int) -> None:
    if depth > NESTING_MAX:
        raise EventInvalid(f"{prefix[:80]}: nested over {NESTING_MAX} deep", hint="deep things are payload")
    for key, value in given.items():
        if type(key) is not str:
            raise EventInvalid(f"{prefix}{key!r:.80} is no attribute name", hint="names are texts")
        name = prefix + key
        inner = value if isinstance(value, Mapping) else _fields_of(value)
        if inner is not None:
            _flatten(f"{name}.", inner, flat, depth + 1)
            continue
        if name in flat:
            raise EventInvalid(f"{name} occurs twice: as a name with a dot, and nested")
        try:
            flat[name] = plain_value(value)
        except EventInvalid as error:
            raise EventInvalid(f"{name}: {error.message}", hint=error.hint) from None


# --- from attributes --------------------------------------------------------------------------------------------------


def _is_shape(kind: object) -> bool:
    """Return whether `kind` is a dataclass or a pydantic model."""
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "model_validate"))


@lru_cache(maxsize=1024)
def _hints(shape: Any) -> dict[str, Any]:
    """Return the annotation of each field, by the name under which it is published."""
    models: Mapping[str, Any] | None = getattr(shape, "model_fields", None)
    if models is not None and hasattr(shape, "model_validate"):
        return {field.alias or name: field.annotation for name, field in models.items()}
    hints = get_type_hints(shape)
    return {field.name: hints[field.name] for field in dataclasses.fields(shape) if field.init}


def _names(shape: Any) -> frozenset[str]:
    return frozenset(_hints(shape))


def _built(shape: Any, given: Mapping[str, object]) -> Any:
    """Build a dataclass or model from attributes. Raise ValueError or TypeError if they do not fit."""
    hints = _hints(shape)
    fields: dict[str, object] = {}
    nested: dict[str, dict[str, object]] = {}
    for name, value in given.items():
        head, dot, rest = name.partition(".")
        if dot and name not in hints and head in hints:
            nested.setdefault(head, {})[rest] = value
        else:
            fields[name] = value
    model = getattr(shape, "model_validate", None)
    for name, parts in nested.items():
        fields[name] = _nested(hints[name], parts)
    if model is not None:
        return model({name: _restored_bytes(hints.get(name), value) for name, value in fields.items()})
    values = {
        name: fields[name] if name in nested else _converted(name, fields[name], hint)
        for name, hint in hints.items()
        if name in fields
    }
    return shape(**values)  # raises TypeError for a missing field without a default


def _nested(hint: Any, parts: dict[str, object]) -> object:
    """Build the object of a field from the attributes below its name."""
    shapes = [kind for kind in _alternatives(hint) if _is_shape(kind)]
    if shapes:
        return _built(shapes[0], parts)
    tree: dict[str, object] = {}
    for name, value in parts.items():
        *path, last = name.split(".")
        inside: Any = tree
        for step in path:
            inside = inside.setdefault(step, {})
            if not isinstance(inside, dict):
                raise ValueError(f"{name} is below a value")
        inside[last] = value
    return tree


def _converted(name: str, value: object, hint: Any) -> object:
    """Convert a value to one of the types that a field accepts. A field of another annotation takes any value."""
    kinds = _alternatives(hint)
    if any(not _is_checked(kind) for kind in kinds) or type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        return float(value)
    for kind in kinds:
        if kind in RESTORE or issubclass(kind, Enum):
            try:
                return restore(kind, value)
            except ValueError:
                continue
    if any(_is_shape(kind) for kind in kinds) and value is not None:
        raise ValueError(f"{name} is a {type(value).__name__}, not attributes below {name}")
    raise ValueError(f"{name} is a {type(value).__name__}")


def _restored_bytes(hint: Any, value: object) -> object:
    """Return the bytes of a model's field that was published as hex digits. Models read all other types themselves."""
    kinds = _alternatives(hint)
    return restore(bytes, value) if bytes in kinds and str not in kinds and isinstance(value, str) else value


def _is_checked(kind: Any) -> bool:
    plain = (int, float, str, bool, list, NoneType)
    return kind in plain or kind in RESTORE or _is_shape(kind) or (isinstance(kind, type) and issubclass(kind, Enum))


@lru_cache(maxsize=1024)
def _alternatives(hint: Any) -> tuple[Any, ...]:
    """Return the types that an annotation names: those of a union, `list` for `list[int]`, else the annotation."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _alternatives(part))
    if origin is list:
        return (list,)
    return (NoneType,) if hint is None else (hint,)
