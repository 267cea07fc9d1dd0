"""The hot frames: a route, which directs an event, followed by one event block.

Publish goes from a client to its home broker, Forward from broker to broker, Deliver from a home broker to its client.
A broker that forwards an event writes a new head (prefix and route) and the same block: `[forward_head(...), block]`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from ..errors import FrameError, FrameFault
from ..events import Event
from ..limits import EVENT_LIMITS, WIRE_LIMITS, EventLimits, WireLimits
from ..native import kernel
from .attributes import AttributeReader, reader_for
from .event_block import DEFAULT_READER, encode_block, encode_plain_block
from .event_block import EventFrame as EventFrame
from .frame_header import DELIVER, FORWARD, PREFIX, PUBLISH, VERSION_MAX

_PUBLISH_ROUTE: Final = Struct(">BB")
_FORWARD_ROUTE: Final = Struct(">QQBBH")
_DELIVER_ROUTE: Final = Struct(">QBBH")
_DESTINATION: Final = Struct(">QQQ")
_DELIVERY: Final = Struct(">IIQ")


class Confirm(IntEnum):
    """The confirmation that a publisher waits for."""

    NONE = 0
    BROKER = 1  # its home broker is responsible for the event
    SUBSCRIBERS = 2  # every subscriber that matched has received it


CONFIRMS: Final = tuple(Confirm)


Delivery: TypeAlias = tuple[int, int, int]
"""One subscription that an event is delivered to: its number, flags, and the event's position in its durable log (0 if
it has none). A plain tuple, like `Destination`: every event has one, and a class would cost more than decoding does."""

Destination: TypeAlias = tuple[int, int, int]
"""One home broker that a copy of an event must reach: its id, the event's position in the stream from its root to this
broker (consecutive, so order and loss are visible), and the root's MAC for this broker (0 without authentication)."""


class Publish(EventFrame):
    """An event from its publisher."""

    __slots__ = ("confirm",)

    def __init__(self, confirm: Confirm, block: bytes, reader: AttributeReader = DEFAULT_READER) -> None:
        super().__init__(block, reader)
        self.confirm = confirm

    def _route(self) -> tuple[object, ...]:
        return (self.confirm,)


class Forward(EventFrame):
    """A copy of an event on its way between brokers."""

    __slots__ = ("delay_us", "destinations", "flags", "path", "tree")

    def __init__(
        self,
        tree: int,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        destinations: tuple[Destination, ...],
        block: bytes,
        reader: AttributeReader = DEFAULT_READER,
    ) -> None:
        super().__init__(block, reader)
        self.tree = tree  # the tree that this copy travels on
        self.delay_us = delay_us  # measured so far, hop by hop
        self.flags = flags
        self.path = path  # brokers that it has passed
        self.destinations = destinations  # this copy, and no other, is responsible for them

    def _route(self) -> tuple[object, ...]:
        return (self.tree, self.delay_us, self.flags, self.path, self.destinations)


class Deliver(EventFrame):
    """An event for subscriptions of one client."""

    __slots__ = ("delay_us", "deliveries", "flags", "path")

    def __init__(
        self,
        delay_us: int,
        flags: int,
        path: tuple[int, ...],
        deliveries: tuple[Delivery, ...],
        block: bytes,
        reader: AttributeReader = DEFAULT_READER,
    ) -> None:
        super().__init__(block, reader)
        self.delay_us = delay_us
        self.flags = flags
        self.path = path
        self.deliveries = deliveries

    def _route(self) -> tuple[object, ...]:
        return (self.delay_us, self.flags, self.path, self.deliveries)


_IN_PYTHON: Final = (Publish, Forward, Deliver)

if not TYPE_CHECKING and kernel is not None:  # the same interface, four times as fast
    EventFrame, Publish, Forward, Deliver = kernel.EventFrame, kernel.Publish, kernel.Forward, kernel.Deliver


# --- writing ----------------------------------------------------------------------------------------------------------


def publish_head(block: bytes, confirm: Confirm, version: int = VERSION_MAX) -> bytes:
    """Return the bytes before `block` that publish it."""
    return PREFIX.pack(2 + len(block), version, PUBLISH, 2) + _PUBLISH_ROUTE.pack(confirm, 0)


def forward_head(
    block: bytes,
    tree: int,
    delay_us: int,
    flags: int,
    path: Sequence[int],
    destinations: Sequence[tuple[int, int, int]],
    version: int = VERSION_MAX,
) -> bytes:
    """Return the bytes before `block` that send it to the next broker.

    The caller keeps the counts within WireLimits.
    """
    route = _FORWARD_ROUTE.pack(tree, delay_us, len(path), flags, len(destinations))
    route += struct.pack(f">{len(path) + 3 * len(destinations)}Q", *path, *chain.from_iterable(destinations))
    return PREFIX.pack(len(route) + len(block), version, FORWARD, len(route)) + route


def deliver_head(
    block: bytes,
    delay_us: int,
    flags: int,
    path: Sequence[int],
    deliveries: Sequence[tuple[int, int, int]],
    version: int = VERSION_MAX,
) -> bytes:
    """Return the bytes before `block` that deliver it to a client. The caller keeps the counts within WireLimits."""
    head = _deliver_struct(len(path), len(deliveries))
    named = deliveries[0] if len(deliveries) == 1 else chain.from_iterable(deliveries)
    return head.pack(
        head.size - PREFIX.size + len(block),
        version,
        DELIVER,
        head.size - PREFIX.size,
        delay_us,
        len(path),
        flags,
        len(deliveries),
        *path,
        *named,
    )


@lru_cache(maxsize=256)
def _deliver_struct(path: int, deliveries: int) -> Struct:
    """Return the combined layout of prefix and route of a deliver frame: brokers write one for every delivery."""
    return Struct(f"{PREFIX.format}{_DELIVER_ROUTE.format[1:]}{path}Q{_DELIVERY.format[1:] * deliveries}")


def encode_publish(
    event: Event, confirm: Confirm = Confirm.NONE, version: int = VERSION_MAX, limits: EventLimits = EVENT_LIMITS
) -> bytes:
    """Encode an event as a publish frame; raise EventInvalid if it is too large to send."""
    block = encode_block(event, limits)
    return publish_head(block, confirm, version) + block


def encode_plain_publish(
    attributes: object, payload: object, publisher: int, sequence: int, published_us: int, version: int = VERSION_MAX
) -> bytes | None:
    """Encode a publish frame of unchecked parts, if they are plain.

    Plain parts are bytes and a dict of scalars within the default limits. Return None otherwise; the caller then checks
    the parts and uses `encode_publish`.
    """
    if kernel is None:
        block = encode_plain_block(attributes, payload, publisher, sequence, published_us)
        if block is None:
            return None
        return PREFIX.pack(2 + len(block), version, PUBLISH, 2) + _PUBLISH_ROUTE.pack(Confirm.NONE, 0) + block
    native = DEFAULT_READER.native
    frame: bytes | None = kernel.encode_publish(native, attributes, payload, publisher, sequence, published_us, version)
    return frame


def encode_event_frame(frame: EventFrame, version: int = VERSION_MAX) -> bytes:
    """Encode a hot frame. Brokers write head and block separately instead, which saves the copy."""
    block = frame.block
    if isinstance(frame, Publish):
        head = publish_head(block, frame.confirm, version)
    elif isinstance(frame, Forward):
        head = forward_head(block, frame.tree, frame.delay_us, frame.flags, frame.path, frame.destinations, version)
    elif isinstance(frame, Deliver):
        head = deliver_head(block, frame.delay_us, frame.flags, frame.path, frame.deliveries, version)
    else:
        raise TypeError(f"{type(frame).__name__} is not a hot frame")
    return head + block


# --- reading ----------------------------------------------------------------------------------------------------------


class EventFrameReader:
    """Decode hot frames from a read.

    Each method takes the offsets of the route, of the block and of the frame's end.
    """

    __slots__ = ("_deliver", "_forward", "_limits", "_publish", "_reader")

    def __init__(self, limits: WireLimits = WIRE_LIMITS, *, native: bool = True) -> None:
        """`native=False` disables the kernel, to compare it with this class."""
        self._limits = limits
        self._reader = reader_for(limits.event) if native else AttributeReader(limits.event, native=False)
        self._publish, self._forward, self._deliver = (Publish, Forward, Deliver) if native else _IN_PYTHON

    def publish(self, read: bytes, route: int, block: int, end: int) -> Publish:
        if block - route != 2 or block > end:
            _check_route_holds(_PUBLISH_ROUTE, route, block, end)
            raise FrameError(FrameFault.FIELD, f"a publish frame's route is 2 bytes, not {block - route}")
        level, reserved = read[route], read[route + 1]
        if level >= len(CONFIRMS) or reserved:
            raise FrameError(FrameFault.FIELD, f"confirm level {level}, reserved {reserved}")
        return self._publish(CONFIRMS[level], read[block:end], self._reader)

    def forward(self, read: bytes, route: int, block: int, end: int) -> Forward:
        _check_route_holds(_FORWARD_ROUTE, route, block, end)
        tree, delay_us, path_count, flags, count = _FORWARD_ROUTE.unpack_from(read, route)
        _check_counts(path_count, self._limits.path_max, count, self._limits.destinations_max)
        _check_route_length(block - route, _FORWARD_ROUTE.size + 8 * path_count + _DESTINATION.size * count)
        path_start = route + _FORWARD_ROUTE.size
        path = struct.unpack_from(f">{path_count}Q", read, path_start)
        destinations = tuple(_DESTINATION.iter_unpack(read[path_start + 8 * path_count : block]))
        return self._forward(tree, delay_us, flags, path, destinations, read[block:end], self._reader)

    def deliver(self, read: bytes, route: int, block: int, end: int) -> Deliver:
        _check_route_holds(_DELIVER_ROUTE, route, block, end)
        delay_us, path_count, flags, count = _DELIVER_ROUTE.unpack_from(read, route)
        _check_counts(path_count, self._limits.path_max, count, self._limits.deliveries_max)
        _check_route_length(block - route, _DELIVER_ROUTE.size + 8 * path_count + _DELIVERY.size * count)
        path_start = route + _DELIVER_ROUTE.size
        path = struct.unpack_from(f">{path_count}Q", read, path_start)
        deliveries = tuple(_DELIVERY.iter_unpack(read[path_start + 8 * path_count : block]))
        return self._deliver(delay_us, flags, path, deliveries, read[block:end], self._reader)


def _check_route_holds(fixed: Struct, route: int, block: int, end: int) -> None:
    if block > end or block - route < fixed.size:
        raise FrameError(FrameFault.TRUNCATED, f"a route of {block - route} bytes in a frame of {end - route}")


def _check_counts(path: int, path_max: int, named: int, named_max: int) -> None:
    if path > path_max or named > named_max:
        raise FrameError(FrameFault.OVERSIZE, f"a path of {path} and {named} destinations or deliveries")


def _check_route_length(route_bytes: int, declared_bytes: int) -> None:
    if route_bytes < declared_bytes:
        raise FrameError(FrameFault.TRUNCATED, f"a route of {route_bytes} bytes whose counts promise {declared_bytes}")
    if route_bytes > declared_bytes:
        raise FrameError(FrameFault.FIELD, f"a route of {route_bytes} bytes whose counts need only {declared_bytes}")
