"""The cost of faults to events: a broker killed or stopped, a link that becomes slow, two noisy links.

The processes and sockets are real; a slow link is a relay. Times are those of arrivals at the subscriber.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeVar

from plait.commands.brokers.local_overlay import LocalOverlay
from plait.commands.brokers.topologies import Graph

from ....competitors.contender import loop_factory
from .running import RATE, Seen, Traffic, linked_overlay, traffic

T = TypeVar("T")

RING: Final = Graph.of_pairs([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("a", "e")])
"""Five brokers: a reaches c through b, or through e and d."""

SQUARE: Final = Graph.of_pairs([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
"""Four brokers: a reaches d through b or through c."""

CALM_S: Final = 0.5
"""Seconds of undisturbed events before the fault."""

AFTER_S: Final = 1.0
"""Seconds of events after the gap."""

DETECT_S: Final = 3.0
"""The brokers' default."""


@dataclass(frozen=True, slots=True)
class FaultCost:
    """The effect of one fault."""

    longest_ms: float
    """The greatest time between two consecutive arrivals."""
    wrong: int
    """Events lost, repeated or out of order."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The effect of noisy links."""

    changes: int
    within_ten_s: int
    """The most path changes in any ten seconds."""
    wrong: int


def killed() -> FaultCost:
    """Kill the broker on the path: its sockets close."""
    return _run(_fault(signal.SIGKILL))


def stopped() -> FaultCost:
    """Stop the broker on the path: its sockets stay open and silent."""
    return _run(_fault(signal.SIGSTOP))


def slowed(delay_s: float = 0.002, other_s: float = 0.005) -> tuple[float, int]:
    """Slow a link tenfold. Return the seconds until events take the other path, and the events that went wrong."""
    return _run(_slowed(delay_s, other_s))


def noisy(seconds: float, delay_s: float = 0.010) -> Noise:
    """Run two equal paths whose delays vary by half. Return how often events change between them."""
    return _run(_noisy(seconds, delay_s))


async def _fault(number: signal.Signals) -> FaultCost:
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as home:
        async with linked_overlay(RING, Path(home)) as overlay, traffic(overlay, "a", "c") as flow:
            await flow.settle("abc")
            await asyncio.sleep(CALM_S)
            victim, since = overlay.brokers["b"], time.monotonic()
            victim.signal(number)
            await flow.settle("aedc")
            await flow.until(lambda: False, AFTER_S)
            await flow.stop()
            victim.signal(signal.SIGCONT)
            return FaultCost(1000 * _longest_gap(flow.seen, since), flow.missing_or_wrong)


@asynccontextmanager
async def _square(near_s: float, far_s: float, jitter_s: float = 0.0) -> AsyncIterator[tuple[LocalOverlay, Traffic]]:
    """Run the square with relays on its links at a: `near_s` delays the link to b, `far_s` the link to c."""
    with tempfile.TemporaryDirectory(prefix="plait-bench-") as home:
        async with linked_overlay(SQUARE, Path(home), relayed=SQUARE.named_links[:2]) as overlay:
            overlay.shape(("a", "b"), delay_s=near_s, jitter_s=jitter_s)
            overlay.shape(("a", "c"), delay_s=far_s, jitter_s=jitter_s)
            async with traffic(overlay, "a", "d") as flow:
                yield overlay, flow


async def _slowed(delay_s: float, other_s: float) -> tuple[float, int]:
    async with _square(delay_s, other_s) as (overlay, flow):
        await flow.settle("abd")
        await flow.until(lambda: False, 2.0)  # delays are measured
        since = time.monotonic()
        overlay.shape(("a", "b"), delay_s=10 * delay_s)
        await flow.settle("acd")
        took = flow.seen[-1].at - since
        await flow.stop()
        return took, flow.missing_or_wrong


async def _noisy(seconds: float, delay_s: float) -> Noise:
    async with _square(delay_s, delay_s, delay_s / 2) as (_, flow):
        await flow.until(lambda: len(flow.seen) > 2 * RATE)  # delays are measured
        first = len(flow.seen)
        await flow.until(lambda: False, seconds)
        last = len(flow.seen)
        await flow.stop()
        changes = [after.at for before, after in pairwise(flow.seen[first:last]) if before.path != after.path]
        return Noise(len(changes), _most_within(changes, 10.0), flow.missing_or_wrong)


def _longest_gap(seen: Sequence[Seen], since: float) -> float:
    """Return the longest gap, from the last event before `since`."""
    times = [event.at for event in seen]
    first = max(0, sum(at < since for at in times) - 1)
    return max(after - before for before, after in pairwise(times[first:]))


def _most_within(times: Sequence[float], seconds: float) -> int:
    return max((sum(first <= at < first + seconds for at in times) for first in times), default=0)


def _run(main: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
