"""One subscriber of a benchmark: counts events, and measures the delay of each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from plait_core.values import Json

from ..terminal.percentiles import percentile
from .load import STAMP

if TYPE_CHECKING:
    from ... import Client, Event, Subscription
    from .plan import Plan

WARM_UP: Final = 0.1
"""Share of a latency run that is not measured, while caches fill."""
SHARES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}


@dataclass(frozen=True, slots=True)
class Received:
    """Result of one subscriber. Processes exchange it as JSON."""

    received: int
    lost: int
    seconds: float
    latency_us: dict[str, float | None]

    def as_json(self) -> Json:
        rate = round((self.received - 1) / self.seconds) if self.seconds else None
        return {"received": self.received, "lost": self.lost, "seconds": round(self.seconds, 6), "events_per_s": rate,
                "latency_us": self.latency_us}  # fmt: skip


async def receive(client: Client, plan: Plan) -> Received:
    """Subscribe and count until the last event, or until no event has arrived for `wait_s`."""
    async with client.subscribe(f"bench == '{plan.run}' and price < 1000") as subscription:
        click.echo("subscribed", err=True)
        counter = _Counter(plan)
        counting = asyncio.create_task(counter.count(subscription))
        before = -1
        try:
            while before != counter.received and not counting.done():
                before = counter.received
                await asyncio.wait([counting], timeout=plan.wait_s)
        finally:
            if not counting.done():
                counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
        if not counting.cancelled():
            counting.result()
        return counter.result()


class _Counter:
    def __init__(self, plan: Plan) -> None:
        self.received = 0
        self._plan = plan
        self._measured_from = plan.count * WARM_UP if plan.rate else plan.count
        self._first = self._last = 0
        self._latencies_ns: list[int] = []

    async def count(self, subscription: Subscription[Event]) -> None:
        """Count events until the last one of the run."""
        measured_from, latencies_ns = self._measured_from, self._latencies_ns
        async for event in subscription:
            number = event["number"]
            if number == -1:
                return
            now = time.monotonic_ns()
            self._first = self._first or now
            self._last = now
            self.received += 1
            if isinstance(number, int) and number >= measured_from:
                latencies_ns.append(now - STAMP.unpack_from(event.payload)[0])

    def result(self) -> Received:
        """Return the counts and the latency percentiles."""
        ordered = sorted(self._latencies_ns)
        latency_us = {name: round(percentile(ordered, share) / 1000, 1) if ordered else None
                      for name, share in SHARES.items()}  # fmt: skip
        return Received(self.received, self._plan.count - self.received, (self._last - self._first) / 1e9, latency_us)
