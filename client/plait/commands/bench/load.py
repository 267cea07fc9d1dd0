"""The publisher of a benchmark: events as fast as possible, or at a fixed rate that does not wait for delays."""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ... import Client
    from .plan import Plan

STAMP: Final = struct.Struct("<q")
"""Start of each payload: when it was due, in nanoseconds of the clock that all processes of a machine share."""
_EARLY_NS: Final = 2_000_000
"""Timers of the event loop are a millisecond coarse. Below this remainder the process sleeps by itself."""


@dataclass(frozen=True, slots=True)
class Load:
    """Result of the publisher."""

    published: int
    seconds: float
    """Time until the broker had processed all events."""


async def publish(client: Client, plan: Plan) -> Load:
    """Publish the planned events, and then one with number -1 that marks the end."""
    padding = bytes(plan.size - STAMP.size)
    began = time.monotonic_ns()
    for number in range(plan.count):
        due = time.monotonic_ns()
        if plan.rate is not None:
            due = began + round(number * 1e9 / plan.rate)
            await _until(due)
        event = {"bench": plan.run, "number": number, "price": number % 1000 + 0.5}
        await client.publish(event, STAMP.pack(due) + padding)
    await client.flush(timeout=60)
    seconds = (time.monotonic_ns() - began) / 1e9
    await client.publish({"bench": plan.run, "number": -1, "price": 0.5}, confirm="broker")
    return Load(plan.count, seconds)


async def _until(due: int) -> None:
    """Sleep until an event is due. The process does nothing else, so it may block the loop for the last part."""
    if (left := due - time.monotonic_ns()) > _EARLY_NS:
        await asyncio.sleep((left - _EARLY_NS) / 1e9)
    await asyncio.sleep(0)  # let the loop write what was published before
    await asyncio.sleep(0)
    if (left := due - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)  # noqa: ASYNC251
