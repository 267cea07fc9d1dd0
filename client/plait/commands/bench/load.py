"""The publishing side: a number of events, flat out or at a rate that does not wait for anyone."""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ... import Client
    from . import Plan

STAMP: Final = struct.Struct("<q")
"""At the start of each payload: when it was due, in nanoseconds of the clock that all processes of a machine share."""
_EARLY_NS: Final = 2_000_000
"""Timers of the event loop are a millisecond coarse: what is nearer is slept out without them."""


@dataclass(frozen=True, slots=True)
class Load:
    """What was published."""

    published: int
    seconds: float
    """Until the broker had processed all of it."""


async def publish(client: Client, plan: Plan) -> Load:
    """Publishes what is planned, and a last event that says so."""
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
    """The moment to publish. Nothing else goes on in this process, so the last bit may be slept without the loop."""
    if (left := due - time.monotonic_ns()) > _EARLY_NS:
        await asyncio.sleep((left - _EARLY_NS) / 1e9)
    await asyncio.sleep(0)  # what was published before is written out
    await asyncio.sleep(0)
    if (left := due - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)  # noqa: ASYNC251
