"""Events and copies of them, as brokers pass them on."""

from __future__ import annotations

from collections.abc import Sequence

from plait_broker.overlay.transport.event_copy import EventCopy
from plait_core import Event
from plait_core.wire import Confirm, Destination, Forward, Publish, encode_block

PUBLISHER = 4711


def publish(sequence: int = 1, *, x: int = 1, lifetime_us: int = 0, payload: bytes = b"") -> Publish:
    """Return an event of a client."""
    event = Event({"x": x}, payload, publisher=PUBLISHER, sequence=sequence, lifetime_us=lifetime_us)
    return Publish(Confirm.NONE, encode_block(event))


def copy(link: int, sequence: int = 1, *, at: float = 0.0, delay_us: int = 0, payload: bytes = b"") -> EventCopy:
    """Return a copy that a broker with id 1 has ready for a link."""
    return EventCopy(link, publish(sequence, payload=payload), 0, delay_us, 0, (1,), [Destination(9, sequence, 0)], at)


def forward(
    path: tuple[int, ...], to: Sequence[int], *, tree: int = 0, delay_us: int = 0, lifetime_us: int = 0
) -> Forward:
    """Return a copy as it arrives over the last broker of the path."""
    destinations = tuple(Destination(broker, 1, 0) for broker in to)
    return Forward(tree, delay_us, 0, path, destinations, publish(lifetime_us=lifetime_us).block)
