"""Control frames and message bodies declared as dataclasses. A field's annotation is its check, compiled at import.

    @control(0x13)
    @dataclass(frozen=True, slots=True)
    class Ping(ControlFrame):
        nonce: U64

`@control` declares what a connection carries as a frame of its own. Its body is a msgpack map. A frame that a link
carries hundreds of times a second is `listed`: its body is a list of the fields in their order, without their names.
One that brokers decode thousands of times a second has a fixed `Layout` in place of msgpack.

`@body` declares what an envelope carries (`envelope_frames.py`): fields marked `FROM_ENVELOPE` are not in the body's
bytes, for the envelope has them.

A decoder ignores fields that it does not know, so that later versions may add some, in a list at its end. A field that
is missing without a default, or that holds what its annotation does not allow, is a FrameError. The same checks run
before sending. The number of a type is its name on the wire: the name of its class is in no byte, signature or MAC.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from ...errors import FrameError, FrameFault
from ...events import U64_MAX
from ...limits import WIRE_LIMITS, WireLimits
from ..frame_header import CONTROL_TYPES, HANDSHAKE_VERSION, PREFIX, PREFIX_BYTES, VERSION_MAX
from ..msgpack_codec import pack, unpack_fields, unpack_items

Check: TypeAlias = Callable[[Any], Any]
"""Return the value as the field's type, or raise a ValueError that names what it should have been."""


@dataclass(frozen=True, slots=True)
class Between:
    """Annotation of a number: its least and greatest value. NaN is never between."""

    least: float
    greatest: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """Annotation of a text (characters), bytes, tuple or dict (items): its maximum length."""

    length: int


@dataclass(frozen=True, slots=True)
class DistanceFrom:
    """Annotation of an unsigned number in a listed frame: the wire has its distance from another field, modulo 2^64.
    Positions are large and close to each other, and msgpack writes a small number in one to three bytes."""

    field: str


@dataclass(frozen=True, slots=True)
class FromEnvelope:
    """Mark of a field of a body that the envelope carries in its place."""


FROM_ENVELOPE: Final = FromEnvelope()

U64: TypeAlias = Annotated[int, Between(0, U64_MAX)]


class Body:
    """The base of everything that is declared here: a control frame, or what an envelope carries."""

    __slots__ = ()

    def problem(self) -> str:
        """Return what is wrong between fields that are each right; empty when nothing is."""
        return ""


class ControlFrame(Body):
    """The base of all control frames."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class UnknownFrame(ControlFrame):
    """A frame of a type that this version does not know. Its body was not decoded."""

    number: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Fixed bytes of a frame in place of a msgpack map. Its fields are fixed for ever."""

    encode: Callable[[Any], bytes]
    """Return the bytes of a frame, or raise ValueError for a field that it may not have."""
    decode: Callable[[bytes], Any]
    """Return the frame of these bytes, or raise FrameError. The checks are those of the annotations."""


@dataclass(frozen=True, slots=True)
class FrameSchema:
    """One type, compiled."""

    number: int
    frame: type[Any]
    checks: dict[str, Check]
    required: frozenset[str]
    opening: bool
    """True if the frame belongs to the handshake alone."""
    layout: Layout | None = None
    """None: the body is msgpack."""
    listed: bool = False
    """True if the body is a list of the fields."""
    distances: tuple[tuple[str, str], ...] = ()
    """The fields that are sent as distances, each with the field before it that it is a distance from."""
    defaults: tuple[Any, ...] = ()
    """Of a listed frame, the defaults of its last fields: the body ends before those that have them."""


FRAME_SCHEMAS: Final[dict[int, FrameSchema]] = {}
"""Control frames, by number."""
BODY_SCHEMAS: Final[dict[int, FrameSchema]] = {}
"""Bodies of envelopes, by number. One number never means two types, be it as a frame or as a body."""
_FRAME_SCHEMA_OF: Final[dict[type[Body], FrameSchema]] = {}
_REPEATED: Final[set[int]] = set()
"""Numbers of the control frames that come and go over several links, byte by byte the same."""
REPEATED_KEPT: Final = 4096
REPEATED_BYTES_MAX: Final = 1024
"""So many of these frames are kept, decoded and encoded, if they are no larger: 16 MB at most. With six neighbours a
broker gets each link state up to six times, and sends it up to five times."""
_BODY_SCHEMA_OF: Final[dict[type[Body], FrameSchema]] = {}
_F = TypeVar("_F", bound=ControlFrame)
_B = TypeVar("_B", bound=Body)


def control(
    number: int, *, opening: bool = False, listed: bool = False, layout: Layout | None = None, repeats: bool = False
) -> Callable[[type[_F]], type[_F]]:
    """Register a dataclass as the control frame of that type number. `repeats`: equal ones come and go over several
    links."""
    if number not in CONTROL_TYPES or number in FRAME_SCHEMAS:
        raise TypeError(f"frame type {number:#x} is taken, or outside the range of control frames")

    def register(frame: type[_F]) -> type[_F]:
        _refuse_second(number, frame, BODY_SCHEMAS)
        schema = replace(_schema(number, frame, in_envelope=False, opening=opening), layout=layout)
        FRAME_SCHEMAS[number] = _FRAME_SCHEMA_OF[frame] = _listed(schema) if listed else schema
        if repeats:
            _REPEATED.add(number)
        return frame

    return register


def body(number: int) -> Callable[[type[_B]], type[_B]]:
    """Register a dataclass as what envelopes of that kind carry. It may be a control frame of the same number, too."""
    if number not in CONTROL_TYPES or number in BODY_SCHEMAS:
        raise TypeError(f"kind {number:#x} is taken, or none for bodies")

    def register(kind: type[_B]) -> type[_B]:
        _refuse_second(number, kind, FRAME_SCHEMAS)
        BODY_SCHEMAS[number] = _BODY_SCHEMA_OF[kind] = _schema(number, kind, in_envelope=True)
        return kind

    return register


def _refuse_second(number: int, kind: type[Body], schemas: Mapping[int, FrameSchema]) -> None:
    known = schemas.get(number)
    if known is not None and known.frame is not kind:
        raise TypeError(f"{number:#x} is {known.frame.__name__} already")


def _schema(number: int, kind: type[Body], *, in_envelope: bool, opening: bool = False) -> FrameSchema:
    hints = get_type_hints(kind, include_extras=True)
    declared = [
        field
        for field in fields(kind)  # type: ignore[arg-type]  # a dataclass: fields() raises TypeError if it is none
        if not (in_envelope and FROM_ENVELOPE in getattr(hints[field.name], "__metadata__", ()))
    ]
    checks = {field.name: _compile(hints[field.name]) for field in declared}
    required = frozenset(f.name for f in declared if f.default is MISSING and f.default_factory is MISSING)
    return FrameSchema(number, kind, checks, required, opening)


def _listed(schema: FrameSchema) -> FrameSchema:
    """Return the schema of a frame whose body is a list."""
    hints = get_type_hints(schema.frame, include_extras=True)
    distances = [
        (name, mark.field)
        for name in schema.checks
        for mark in getattr(hints[name], "__metadata__", ())
        if isinstance(mark, DistanceFrom)
    ]
    names = list(schema.checks)
    if any(names.index(base) >= names.index(name) for name, base in distances):
        raise TypeError(f"{schema.frame.__name__}: a distance is from a field before")
    defaults = [field.default for field in fields(schema.frame) if field.name not in schema.required]
    return replace(schema, listed=True, distances=tuple(distances), defaults=tuple(defaults))


def kind_number(content: type[Body]) -> int:
    """Return the number of a body's type."""
    return _BODY_SCHEMA_OF[content].number


def decode_control(schema: FrameSchema, body: bytes, limits: WireLimits = WIRE_LIMITS) -> ControlFrame:
    """Return the control frame that these bytes hold, or raise FrameError."""
    if schema.number in _REPEATED and len(body) <= REPEATED_BYTES_MAX:
        return _decode_repeated(schema.number, body, limits)
    layout = schema.layout
    frame: ControlFrame = _decode(schema, body, {}, limits) if layout is None else layout.decode(body)
    return frame


def decode_body(schema: FrameSchema, body: bytes, given: Mapping[str, Any], limits: WireLimits = WIRE_LIMITS) -> Body:
    """Return what an envelope carries, or raise FrameError. `given` are the fields that the envelope has."""
    content: Body = _decode(schema, body, given, limits)
    return content


def _decode(schema: FrameSchema, body: bytes, given: Mapping[str, Any], limits: WireLimits) -> Any:
    if schema.listed:
        received = dict(zip(schema.checks, unpack_items(body, limits), strict=False))
    else:
        received = unpack_fields(body, limits)
    if missing := schema.required - received.keys():
        raise FrameError(FrameFault.FIELD, f"{schema.frame.__name__} without {', '.join(sorted(missing))}")
    try:
        checked = _checked(schema, received)
        for name, base in schema.distances:
            checked[name] = (checked[base] + checked[name]) & U64_MAX
        decoded = schema.frame(**checked, **given)
        _check_whole(decoded)
    except ValueError as error:
        raise FrameError(FrameFault.FIELD, f"{schema.frame.__name__}: {error}") from None
    return decoded


@lru_cache(maxsize=REPEATED_KEPT)
def _decode_repeated(number: int, body: bytes, limits: WireLimits) -> ControlFrame:
    frame: ControlFrame = _decode(FRAME_SCHEMAS[number], body, {}, limits)
    return frame


def encode_control(frame: ControlFrame, version: int = VERSION_MAX, limits: WireLimits = WIRE_LIMITS) -> bytes:
    """Return the bytes of a control frame, or raise ValueError when the other end would refuse them."""
    schema = _FRAME_SCHEMA_OF[type(frame)]
    if schema.number in _REPEATED and len(getattr(frame, "body", b"")) <= REPEATED_BYTES_MAX:
        return _encode_repeated(frame, version, limits)
    return _encode_frame(schema, frame, version, limits)


@lru_cache(maxsize=REPEATED_KEPT)
def _encode_repeated(frame: ControlFrame, version: int, limits: WireLimits) -> bytes:
    return _encode_frame(_FRAME_SCHEMA_OF[type(frame)], frame, version, limits)


def _encode_frame(schema: FrameSchema, frame: ControlFrame, version: int, limits: WireLimits) -> bytes:
    body = _encode(schema, frame)
    version = HANDSHAKE_VERSION if schema.opening else version
    bytes_max = limits.hello_bytes_max if version == HANDSHAKE_VERSION else limits.frame_bytes_max
    if PREFIX_BYTES + len(body) > bytes_max:
        raise ValueError(f"{type(frame).__name__}: {PREFIX_BYTES + len(body)} bytes, and {bytes_max} are allowed")
    return PREFIX.pack(len(body), version, schema.number, 0) + body


def encode_body(content: Body) -> bytes:
    """Return the bytes that an envelope carries, or raise ValueError when the other end would refuse them."""
    return _encode(_BODY_SCHEMA_OF[type(content)], content)


def _encode(schema: FrameSchema, content: Body) -> bytes:
    try:
        if schema.layout is not None:
            return schema.layout.encode(content)
        checked = _checked(schema, {name: getattr(content, name) for name in schema.checks})
        if schema.listed:
            packed = pack(_items(schema, checked))
        else:
            packed = pack({name: value for name, value in checked.items() if value is not None})
        _check_whole(content)
    except ValueError as error:
        raise ValueError(f"{schema.frame.__name__}: {error}") from error
    return bytes(packed)


def _items(schema: FrameSchema, checked: dict[str, Any]) -> list[Any]:
    """Return the list that is the body of a listed frame."""
    items = checked.copy()
    for name, base in schema.distances:
        items[name] = (checked[name] - checked[base]) & U64_MAX
    found = list(items.values())
    for default in reversed(schema.defaults):
        if found[-1] != default:
            break
        found.pop()
    return found


def _checked(schema: FrameSchema, values: dict[str, Any]) -> dict[str, Any]:
    checked = {}
    for name, check in schema.checks.items():
        if name in values:
            try:
                checked[name] = check(values[name])
            except ValueError as error:
                raise ValueError(f"{name} is not {error}") from None
    return checked


def _check_whole(content: Body) -> None:
    if problem := content.problem():
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
    """Check a dataclass within a frame. On the wire it is a list in the order of its fields, so it never gains one."""
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
        case FromEnvelope() | DistanceFrom():
            return check_kind
        case _:
            raise TypeError(f"{mark} is not a check")
