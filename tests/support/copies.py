"""Events and copies of them, as brokers pass them on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from plait_broker.overlay.transport.event_copy import CopyRun, EventCopy
from plait_core import Event
from plait_core.wire import Confirm, Destination, EventFrame, Forward, Publish, encode_block

PUBLISHER = 4711


def publish(sequence: int = 1, *, x: int = 1, lifetime_us: int = 0, payload: bytes = b"", priority: int = 0) -> Publish:
    """Return an event of a client."""
    event = Event({"x": x}, payload, PUBLISHER, sequence, lifetime_us=lifetime_us, priority=priority)
    return Publish(Confirm.NONE, encode_block(event))


class LinkCopy(NamedTuple):
    """A copy of an event with the names of its fields, and its link."""

    link: int
    frame: EventFrame
    tree: int
    delay_us: int
    flags: int
    path: tuple[int, ...]
    destinations: Sequence[Destination]


def copies_in(runs: Iterable[CopyRun]) -> list[LinkCopy]:
    """Return the copies of some runs."""
    return [LinkCopy(run.link, *copy) for run in runs for copy in run.copies]


def copy(sequence: int = 1, *, delay_us: int = 0, payload: bytes = b"") -> EventCopy:
    """Return a copy that a broker with id 1 has ready for a link."""
    return publish(sequence, payload=payload), 0, delay_us, 0, (1,), [(9, sequence, 0)]


def run_of(link: int, *copies: EventCopy, at: float) -> CopyRun:
    """Return copies as the overlay outputs them."""
    run = CopyRun(link, at)
    run.copies += copies
    for _, _, _, flags, _, _ in copies:
        run.flags |= flags
    return run


def forward(
    path: tuple[int, ...], to: Sequence[int], *, tree: int = 0, delay_us: int = 0, lifetime_us: int = 0
) -> Forward:
    """Return a copy as it arrives over the last broker of the path."""
    destinations = tuple((broker, 1, 0) for broker in to)
    return Forward(tree, delay_us, 0, path, destinations, publish(lifetime_us=lifetime_us).block)
