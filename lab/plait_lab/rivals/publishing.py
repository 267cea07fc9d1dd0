"""How a publisher publishes: as fast as the contender sustains, or on a schedule, and the same for all of them.

The argument tuples of the contender's own publish call are made beforehand, so that it is called and nothing else.
A faithful schedule needs better than the millisecond of an event loop's timer: between two events a publisher has
nothing to do, so it blocks until just before the next is due, and spins for the rest.
"""

# ruff: noqa: ASYNC110 - the board is memory shared with other processes: there is no event to wait for
from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, Literal, TypeAlias

from .board import DONE, EXPECTED, LAG_NS, PHASE, READY, SENT, STOP, Board, Window
from .quotes import Quote, quotes, stamp

Arguments: TypeAlias = tuple[Any, ...]
MakeArguments: TypeAlias = Callable[[Quote, bytes], Arguments]
"""The contender's publish arguments for an event that carries this stamp."""

BATCH: Final = 256
"""Events between two looks at the clock and the window; the event loop gets a turn with each look."""
SPIN_NS: Final = 150_000
"""Waking from a sleep takes up to this long."""
POLL_S: Final = 0.002
"""Between two looks at a full window: less than a millisecond is a busy loop to some event loops."""
TURNS: Final = 4
"""Turns of the event loop that a library needs to write what was published."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of publishing; the parent measures between two of them."""

    kind: Literal["flood", "paced"]
    seconds: float
    rate: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a publisher is told."""

    seed: int
    window: int
    phases: tuple[Phase, ...]
    batch: int = BATCH


class Stream:
    """The events of a plan as ready argument tuples, in batches, and the count of what was sent."""

    def __init__(self, plan: Plan, board: Board, make: MakeArguments, weights: Sequence[int] = ()) -> None:
        """`weights`: how many deliveries each event of the cycle makes; one each when empty."""
        self.plan = plan
        self.board = board
        self.make = make
        self.events = quotes(plan.seed)
        self.window = Window(board, plan.window)
        self._expected = 0
        self._sent = 0
        self._weights = weights or (1,) * len(self.events)
        self._batches = cycle(self._batched())
        self._paced = cycle(zip(self.events, self._weights, strict=True))

    def _batched(self) -> list[tuple[list[Arguments], int]]:
        size = self.plan.batch
        arguments = [self.make(event, stamp(0)) for event in self.events]
        starts = range(0, len(arguments), size)
        return [(arguments[at : at + size], sum(self._weights[at : at + size])) for at in starts]

    def next_batch(self) -> list[Arguments]:
        """Counted as sent when it is taken."""
        batch, weight = next(self._batches)
        self._count(len(batch), weight)
        return batch

    def full(self) -> bool:
        """Whether to wait before the next batch."""
        return self.window.full(self._expected)

    def schedule(self, phase: Phase) -> Iterator[tuple[int, Arguments]]:
        """Moments and the events that are due then, each stamped with its moment."""
        period_ns = 1_000_000_000 // phase.rate
        first_ns = time.monotonic_ns() + 1_000_000
        for number in range(round(phase.seconds * phase.rate)):
            event, weight = next(self._paced)
            due_ns = first_ns + number * period_ns
            self._count(1, weight)
            yield due_ns, self.make(event, stamp(due_ns))

    def _count(self, events: int, weight: int) -> None:
        self._sent += events
        self._expected += weight
        self.board.cells[SENT] = self._sent
        self.board.cells[EXPECTED] = self._expected

    def phases(self) -> Iterator[tuple[int, Phase]]:
        """The phases with their numbers, from 1."""
        self.board.cells[READY] = 1
        yield from enumerate(self.plan.phases, 1)

    def may_begin(self, number: int) -> bool:
        """Whether the parent has called for this phase."""
        called = self.board.cells[PHASE]
        if called == STOP:
            raise SystemExit(0)
        return called >= number

    def finish(self, number: int) -> None:
        """Everything of this phase is handed over."""
        self.board.cells[DONE] = number

    def note_lag(self, due_ns: int) -> None:
        """The event that was due then is out now."""
        cells = self.board.cells
        cells[LAG_NS] = max(cells[LAG_NS], time.monotonic_ns() - due_ns)


async def publish_all(stream: Stream, publish: Callable[..., Awaitable[object]]) -> None:
    """Carry out a plan with a contender whose publish call is awaited."""
    for number, phase in stream.phases():
        while not stream.may_begin(number):
            await asyncio.sleep(0.002)
        if phase.kind == "flood":
            await _flood(stream, publish, phase.seconds)
        else:
            await _pace(stream, publish, phase)
        stream.finish(number)
    while not stream.may_begin(len(stream.plan.phases) + 1):
        await asyncio.sleep(0.01)


async def _flood(stream: Stream, publish: Callable[..., Awaitable[object]], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for arguments in stream.next_batch():
            await publish(*arguments)
        await asyncio.sleep(0)
        while stream.full():
            await asyncio.sleep(POLL_S)


async def _pace(stream: Stream, publish: Callable[..., Awaitable[object]], phase: Phase) -> None:
    for due_ns, arguments in stream.schedule(phase):
        _sleep_until(due_ns)
        await publish(*arguments)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        stream.note_lag(due_ns)


def publish_all_blocking(stream: Stream, publish: Callable[..., object]) -> None:
    """Carry out a plan with a contender whose publish call blocks, and which writes on threads of its own."""
    for number, phase in stream.phases():
        while not stream.may_begin(number):
            time.sleep(0.002)
        if phase.kind == "flood":
            _flood_blocking(stream, publish, phase.seconds)
        else:
            for due_ns, arguments in stream.schedule(phase):
                _sleep_until(due_ns)
                publish(*arguments)
                stream.note_lag(due_ns)
        stream.finish(number)
    while not stream.may_begin(len(stream.plan.phases) + 1):
        time.sleep(0.01)


def _flood_blocking(stream: Stream, publish: Callable[..., object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for arguments in stream.next_batch():
            publish(*arguments)
        while stream.full():
            time.sleep(POLL_S)


def _sleep_until(due_ns: int) -> None:
    wait_ns = due_ns - time.monotonic_ns() - SPIN_NS
    if wait_ns > 0:
        time.sleep(wait_ns / 1e9)
    while time.monotonic_ns() < due_ns:
        pass
