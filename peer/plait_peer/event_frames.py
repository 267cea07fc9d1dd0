"""Events between peers as hot frames: a Forward whose one destination names the sub-space, and no msgpack on the way.

The destination's three numbers are the sub-space (a leading 1, then its bits: up to 127 of them, in two halves) around
the round of custody and the hops so far. Publisher and number are those of the event block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.wire import Forward, forward_head
from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, Happening

_HOPS_BITS: Final = 8
_HALF: Final = (1 << 64) - 1
_ROUNDS_MAX: Final = 1 << 31
_US: Final = 1_000_000
_DELAY_US_MAX: Final = (1 << 63) - 1
_WAY: Final = attrgetter("tree", "publisher", "destinations", "path")


@lru_cache(maxsize=8192)
def first_of(dz: str) -> tuple[int, int, int]:
    """The destination of an event that has just been published in this sub-space, not in custody."""
    high, low = _code_of(dz)
    return high, 0, low


def runs_of(frames: Iterable[Forward]) -> Iterator[list[Forward]]:
    """Events that follow each other on one way: of one publisher, in one sub-space. What is found out about the first
    of them goes for all."""
    for _, run in groupby(frames, _WAY):
        yield list(run)


def plain_dz(frame: Forward) -> str | None:
    """The sub-space of an event in no custody, from a frame that is as it should be; None otherwise."""
    destinations = frame.destinations
    if len(destinations) != 1 or frame.path or frame.tree != frame.publisher:
        return None
    ((high, between, low),) = destinations
    return _dz_of(high, low) if between <= CHASE_HOPS_MAX and frame.publisher else None


def hops_of(frame: Forward) -> int:
    """Peers that an event has passed when it has come in this frame, which is as it should be: the last included."""
    ((_, between, _),) = frame.destinations
    return (between & (1 << _HOPS_BITS) - 1) + 2


@lru_cache(maxsize=8192)
def _code_of(dz: str) -> tuple[int, int]:
    code = int("1" + dz, 2)
    assert code < 1 << 128, "events are located less deep"
    return code >> 64, code & _HALF


@lru_cache(maxsize=8192)
def _dz_of(high: int, low: int) -> str:
    code = high << 64 | low
    if not code:
        raise FrameError(FrameFault.FIELD, "an event between peers without a sub-space")
    return f"{code:b}"[1:]


def head_of(event: Happening) -> bytes:
    """What goes before the event's block to bring it to the next peer."""
    high, low = _code_of(event.dz)
    between = event.round << _HOPS_BITS | event.hops
    delay_us = min(int(event.delay * _US), _DELAY_US_MAX)
    return forward_head(event.block, event.publisher, delay_us, 0, (), ((high, between, low),))


def event_of(frame: Forward) -> Happening:
    """The event that a frame from a peer carries, or FrameError."""
    if len(frame.destinations) != 1 or frame.path or frame.tree != frame.publisher or not frame.publisher:
        raise FrameError(FrameFault.FIELD, "a forward frame of brokers, between peers")
    ((high, between, low),) = frame.destinations
    hops, round = between & (1 << _HOPS_BITS) - 1, between >> _HOPS_BITS
    if hops > CHASE_HOPS_MAX or round > _ROUNDS_MAX:
        raise FrameError(FrameFault.FIELD, f"an event in round {round}, after {hops} hops")
    delay = frame.delay_us / _US
    return Happening(frame.publisher, frame.sequence, _dz_of(high, low), delay, hops, frame.block, round)
