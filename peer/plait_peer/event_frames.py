"""Events between peers as hot frames: a Forward whose one destination names the sub-space, encoded without msgpack.

The destination's three numbers are the upper half of the sub-space, round and hops, and the lower half. The sub-space
is a leading 1 and up to 127 bits. Publisher and number are those of the event block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import Final

from plait_core.errors import FrameError, FrameFault
from plait_core.wire import Forward, forward_head
from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, PeerEvent

_HOPS_BITS: Final = 8
_HALF: Final = (1 << 64) - 1
_ROUNDS_MAX: Final = 1 << 31
_US: Final = 1_000_000
_DELAY_US_MAX: Final = (1 << 63) - 1
_ROUTE: Final = attrgetter("tree", "publisher", "destinations", "path")


@lru_cache(maxsize=8192)
def first_destination(dz: str) -> tuple[int, int, int]:
    """Return the destination of an unconfirmed event at its publisher."""
    high, low = _code_of(dz)
    return high, 0, low


def runs_of(frames: Iterable[Forward]) -> Iterator[list[Forward]]:
    """Group consecutive events of one publisher in one sub-space. A check of the first event then holds for all."""
    for _, run in groupby(frames, _ROUTE):
        yield list(run)


def plain_dz(frame: Forward) -> str | None:
    """Return the sub-space of a valid unconfirmed event, or None for all other frames."""
    destinations = frame.destinations
    if len(destinations) != 1 or frame.path or frame.tree != frame.publisher:
        return None
    ((high, round_and_hops, low),) = destinations
    return _dz_of(high, low) if round_and_hops <= CHASE_HOPS_MAX and frame.publisher else None


def hops_of(frame: Forward) -> int:
    """Return the number of peers that an event of a valid frame has passed, including this one."""
    ((_, round_and_hops, _),) = frame.destinations
    return (round_and_hops & (1 << _HOPS_BITS) - 1) + 2


@lru_cache(maxsize=8192)
def _code_of(dz: str) -> tuple[int, int]:
    code = int("1" + dz, 2)
    assert code < 1 << 128, "a sub-space has at most 127 bits"
    return code >> 64, code & _HALF


@lru_cache(maxsize=8192)
def _dz_of(high: int, low: int) -> str:
    code = high << 64 | low
    if not code:
        raise FrameError(FrameFault.FIELD, "an event round_and_hops peers without a sub-space")
    return f"{code:b}"[1:]


def event_head(event: PeerEvent) -> bytes:
    """Return the bytes that precede the event's block on the way to the next peer."""
    high, low = _code_of(event.dz)
    round_and_hops = event.round << _HOPS_BITS | event.hops
    delay_us = min(int(event.delay * _US), _DELAY_US_MAX)
    return forward_head(event.block, event.publisher, delay_us, 0, (), ((high, round_and_hops, low),))


def event_of(frame: Forward) -> PeerEvent:
    """Return the event that a peer's frame carries, or raise FrameError."""
    if len(frame.destinations) != 1 or frame.path or frame.tree != frame.publisher or not frame.publisher:
        raise FrameError(FrameFault.FIELD, "a forward frame of brokers, round_and_hops peers")
    ((high, round_and_hops, low),) = frame.destinations
    hops, round = round_and_hops & (1 << _HOPS_BITS) - 1, round_and_hops >> _HOPS_BITS
    if hops > CHASE_HOPS_MAX or round > _ROUNDS_MAX:
        raise FrameError(FrameFault.FIELD, f"an event in round {round}, after {hops} hops")
    delay = frame.delay_us / _US
    return PeerEvent(frame.publisher, frame.sequence, _dz_of(high, low), delay, hops, frame.block, round)
