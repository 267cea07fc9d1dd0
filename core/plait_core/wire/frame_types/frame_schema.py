"""Control frames declared as dataclasses. A field's annotation is its check, compiled once at import.

    @control(0x13)
    @dataclass(frozen=True, slots=True)
    class Ping(ControlFrame):
        nonce: U64

Unknown fields are ignored, so that later versions may add some. A field that is missing without a default, or whose
value its annotation does not allow, is a FrameError. The same checks run before sending.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from ...errors import FrameError, FrameFault
from ...events import U64_MAX
from ...limits import WIRE_LIMITS, WireLimits
from ..frame_header import CONTROL_TYPES, HANDSHAKE_VERSION, PREFIX, PREFIX_BYTES, VERSION_MAX
from ..msgpack_codec import pack, unpack_fields

Check: TypeAlias = Callable[[Any], Any]
"""Return the value in the field's type, or raise ValueError with a description of the expected value."""


@dataclass(frozen=True, slots=True)
class Between:
    """Annotation of a number: its least and greatest value. NaN is never between."""

    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """Annotation of a text (characters), bytes, tuple or dict (items): its maximum length."""

    length: int


U64: TypeAlias = Annotated[int, Between(0, U64_MAX)]


class ControlFrame:
    """The base class of all control frames."""

    __slots__ = ()

    def problem(self) -> str:
        """Describe an inconsistency between fields that are each valid. Empty if there is none."""
        return ""


@dataclass(frozen=True, slots=True)
class FrameSchema:
    """One control frame, compiled."""

    number: int
    frame: type[ControlFrame]
    checks: dict[str, Check]
    required: frozenset[str]
    opening: bool
    """True if the frame belongs to the handshake alone."""


FRAME_SCHEMAS: Final[dict[int, FrameSchema]] = {}
_SCHEMA_OF: Final[dict[type[ControlFrame], FrameSchema]] = {}
_F = TypeVar("_F", bound=ControlFrame)


def control(number: int, *, opening: bool = False) -> Callable[[type[_F]], type[_F]]:
    """Register a dataclass as the control frame of that type number."""
    if number not in CONTROL_TYPES or number in FRAME_SCHEMAS:
        raise TypeError(f"frame type {number:#x} is taken, or outside the range of control frames")

    def register(frame: type[_F]) -> type[_F]:
        hints = get_type_hints(frame, include_extras=True)
        declared = fields(frame)  # type: ignore[arg-type]  # a dataclass: fields() says so if it is none
        checks = {field.name: _compile(hints[field.name]) for field in declared}
        required = frozenset(f.name for f in declared if f.default is MISSING and f.default_factory is MISSING)
        FRAME_SCHEMAS[number] = _SCHEMA_OF[frame] = FrameSchema(number, frame, checks, required, opening)
        return frame

    return register


def decode_control(schema: FrameSchema, body: bytes, limits: WireLimits = WIRE_LIMITS) -> ControlFrame:
    """Decode the body of a control frame; raise FrameError if it is invalid."""
    received = unpack_fields(body, limits)
    if missing := schema.required - received.keys():
        raise FrameError(FrameFault.FIELD, f"{schema.frame.__name__} without {', '.join(sorted(missing))}")
    try:
        frame = schema.frame(**_checked(schema, received))
        _check_whole(frame)
    except ValueError as error:
        raise FrameError(FrameFault.FIELD, f"{schema.frame.__name__}: {error}") from None
    return frame


def encode_control(frame: ControlFrame, version: int = VERSION_MAX, limits: WireLimits = WIRE_LIMITS) -> bytes:
    """Encode a control frame; raise ValueError if the receiver would refuse it."""
    schema = _SCHEMA_OF[type(frame)]
    values = {name: getattr(frame, name) for name in schema.checks}
    try:
        body = pack({name: value for name, value in _checked(schema, values).items() if value is not None})
        _check_whole(frame)
    except ValueError as error:
        raise ValueError(f"{type(frame).__name__}: {error}") from error
    version = HANDSHAKE_VERSION if schema.opening else version
    bytes_max = limits.hello_bytes_max if version == HANDSHAKE_VERSION else limits.frame_bytes_max
    if PREFIX_BYTES + len(body) > bytes_max:
        raise ValueError(f"{type(frame).__name__}: {PREFIX_BYTES + len(body)} bytes, and {bytes_max} are allowed")
    return PREFIX.pack(len(body), version, schema.number, 0) + bytes(body)


def _checked(schema: FrameSchema, values: dict[str, Any]) -> dict[str, Any]:
    checked = {}
    for name, check in schema.checks.items():
        if name in values:
            try:
                checked[name] = check(values[name])
            except ValueError as error:
                raise ValueError(f"{name} is not {error}") from None
    return checked


def _check_whole(frame: ControlFrame) -> None:
    if problem := frame.problem():
        raise ValueError(problem)


# --- annotations into checks ------------------------------------------------------------------------------------------


def _compile(hint: Any) -> Check:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _one_of(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        check = _compile(inner[0])
        for mark in inner[1:]:
            check = _marked(check, mark)
        return check
    if origin in (Union, types.UnionType) and len(inner) == 2 and inner[1] is type(None):
        return _optional(_compile(inner[0]))
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _tuple_of(_compile(inner[0]))
    if hint == dict[str, str]:
        return _texts
    raise TypeError(f"no control frame may have a field of type {hint}")


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("a text")
    return str(value)  # of a StrEnum: its plain value


def _exactly(kind: type, called: str) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise ValueError(called)
        return value

    return check


def _integer(value: Any) -> Any:
    if type(value) is not int or not -(2**63) <= value < 2**64:
        raise ValueError("an integer of 64 bits")
    return value


def _number(value: Any) -> Any:
    if type(value) is not int and type(value) is not float:
        raise ValueError("a number")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number that a float can hold") from None


def _texts(value: Any) -> Any:
    if type(value) is not dict or not all(type(k) is str and type(v) is str for k, v in value.items()):
        raise ValueError("a map of texts")
    return value


_PLAIN: Final[dict[Any, Check]] = {
    int: _integer,
    float: _number,
    str: _text,
    bool: _exactly(bool, "true or false"),
    bytes: _exactly(bytes, "bytes"),
}


def _one_of(kind: type[StrEnum]) -> Check:
    def check(value: Any) -> Any:
        try:
            return kind(value)
        except ValueError:
            raise ValueError(f"one of {', '.join(kind)}") from None

    return check


def _record(kind: type[Any]) -> Check:
    """Check a dataclass within a frame.

    On the wire it is a list, in the order of its fields, so no field can be added.
    """
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]
    checks = [_compile(hints[name]) for name in names]

    def check(value: Any) -> Any:
        if type(value) is kind:
            return [check_field(getattr(value, name)) for name, check_field in zip(names, checks, strict=True)]
        if type(value) is not list or len(value) != len(checks):
            raise ValueError(f"a list of {', '.join(names)}")
        return kind(*[check_field(item) for check_field, item in zip(checks, value, strict=True)])

    return check


def _optional(check_some: Check) -> Check:
    def check(value: Any) -> Any:
        return None if value is None else check_some(value)

    return check


def _tuple_of(check_item: Check) -> Check:
    def check(value: Any) -> Any:
        if type(value) is not list and type(value) is not tuple:
            raise ValueError("a list")
        try:
            return tuple([check_item(item) for item in value])
        except ValueError as error:
            raise ValueError(f"a list of {error}") from None

    return check


def _marked(check_kind: Check, mark: object) -> Check:
    def check_between(value: Any) -> Any:
        value = check_kind(value)
        if not least <= value <= greatest:
            raise ValueError(f"between {least} and {greatest}")
        return value

    def check_at_most(value: Any) -> Any:
        value = check_kind(value)
        if len(value) > length:
            raise ValueError(f"of at most {length} characters, bytes or items")
        return value

    match mark:
        case Between(least, greatest):
            return check_between
        case AtMost(length):
            return check_at_most
        case _:
            raise TypeError(f"{mark} is not a check")
