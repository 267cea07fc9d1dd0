"""Publishing: as fast as the contender sustains, or on a schedule, the same for all.

The arguments of the contender's publish call are prepared beforehand, so that the loop does nothing but call it.
Between two events of a schedule the publisher is idle, as an application is: its event loop waits for input, and
whatever its library still has to do is done then. An accurate schedule needs better than an event loop's millisecond
timer. So the publisher wakes up just before the next event is due and spins for the rest.
"""

# ruff: noqa: ASYNC110 - the counters are memory shared with other processes: there is no event to wait for
from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from struct import Struct
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from .listening import Listener
from .quotes import EVENT_BYTES, Quote, quotes
from .shared_counters import DONE, LAG_NS, PHASE, READY, STOP, SharedCounters, Window
from .stamps import restamp, stamp

Arguments: TypeAlias = tuple[Any, ...]
MakeArguments: TypeAlias = Callable[[Quote, bytes], Arguments]
"""Returns the contender's publish arguments for an event that carries this stamp."""

BATCH: Final = 256
"""Events between two checks of the clock and the window. The event loop runs at each check."""
SPIN_NS: Final = 150_000
"""The longest time that waking from a sleep takes."""
POLL_S: Final = 0.002
"""Seconds between two checks of a full window: less than a millisecond busy-waits in some event loops."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A period of publishing. The parent measures between two of them."""

    kind: Literal["flood", "paced"]
    seconds: float
    rate: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """The complete plan of a publisher."""

    seed: int
    window: int
    phases: tuple[Phase, ...]
    batch: int = BATCH
    event_bytes: int = EVENT_BYTES


class PublishedStream:
    """The events of a plan as prepared argument tuples, in batches, and the count of those sent."""

    def __init__(self, plan: Plan, counters: SharedCounters, make: MakeArguments, weights: Sequence[int] = ()) -> None:
        """`weights`: the deliveries of each event of the cycle; empty for one each."""
        self.plan = plan
        self.counters = counters
        self.make = make
        self.events = quotes(plan.seed, event_bytes=plan.event_bytes)
        self._weights = weights or (1,) * len(self.events)

    def batches(self, phase: int) -> Iterator[list[Arguments]]:
        """Yield the events of a phase in an endless cycle. A batch counts as sent when it is taken."""
        size = self.plan.batch
        arguments = [self.make(event, stamp(phase, number)) for number, event in enumerate(self.events)]
        starts = range(0, len(arguments), size)
        ready = [(arguments[at : at + size], sum(self._weights[at : at + size])) for at in starts]
        return self._counted(ready, phase)

    def _counted(self, ready: list[tuple[list[Arguments], int]], phase: int) -> Iterator[list[Arguments]]:
        sent, expected = self.counters.sent, self.counters.expected
        for batch, weight in cycle(ready):
            sent[phase] += len(batch)
            expected[phase] += weight
            yield batch

    def window(self, phase: int) -> Window:
        """Return the window that decides whether to wait before the next batch."""
        return Window(self.counters, phase, self.plan.window)

    def schedule(self, number: int, phase: Phase) -> Iterator[tuple[int, Arguments]]:
        """Yield due times and the events that are due then, each stamped with its time."""
        period_ns = 1_000_000_000 // phase.rate
        self.counters.cells[LAG_NS] = 0
        first_ns = time.monotonic_ns() + 1_000_000
        chosen = cycle(zip(self.events, self._weights, strict=True))
        for count, (event, weight) in enumerate(islice(chosen, round(phase.seconds * phase.rate))):
            due_ns = first_ns + count * period_ns
            self.counters.sent[number] += 1
            self.counters.expected[number] += weight
            yield due_ns, self.make(event, stamp(number, count, due_ns))

    def phases(self) -> Iterator[tuple[int, Phase]]:
        """Yield the phases with their numbers, from 1."""
        self.counters.cells[READY] = 1
        yield from enumerate(self.plan.phases, 1)

    def may_begin(self, number: int) -> bool:
        """Return whether the parent has started this phase."""
        called = self.counters.cells[PHASE]
        if called == STOP:
            raise SystemExit(0)
        return called >= number

    def finish(self, number: int) -> None:
        """Report that all events of this phase were passed to the library."""
        self.counters.cells[DONE] = number

    def note_lag(self, due_ns: int) -> None:
        """Record the lag of an event that was just published."""
        cells = self.counters.cells
        cells[LAG_NS] = max(cells[LAG_NS], time.monotonic_ns() - due_ns)


async def publish_all(stream: PublishedStream, publish: Callable[..., Awaitable[object]]) -> None:
    """Execute a plan with a contender whose publish call is awaited."""
    for number, phase in stream.phases():
        batches = stream.batches(number)
        while not stream.may_begin(number):
            await asyncio.sleep(0.002)
        if phase.kind == "flood":
            await _flood(batches, stream.window(number), publish, phase.seconds)
        else:
            await _pace(stream, publish, number, phase)
        stream.finish(number)
    while not stream.may_begin(len(stream.plan.phases) + 1):
        await asyncio.sleep(0.01)


async def publish_confirmed(stream: PublishedStream, publish: Callable[..., Awaitable[object]]) -> None:
    """Execute a plan with a contender whose publish call returns when the event is confirmed.

    The confirmations are counted in the first slot of the counters. The delays are from the call to the confirmation.
    The last argument of the call is the event's payload.
    """
    confirmed, going = Listener(stream.counters, 0, measure=True), set[asyncio.Task[None]]()

    async def confirm(*arguments: Any) -> None:
        published_ns = time.monotonic_ns()
        await publish(*arguments)
        confirmed.receive(restamp(arguments[-1], published_ns))

    async def begin(*arguments: Any) -> None:
        task = asyncio.create_task(confirm(*arguments))
        going.add(task)
        task.add_done_callback(going.discard)

    await publish_all(stream, begin)


async def _flood(
    batches: Iterator[list[Arguments]], window: Window, publish: Callable[..., Awaitable[object]], seconds: float
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for arguments in next(batches):
            await publish(*arguments)
        await asyncio.sleep(0)
        while window.full():
            await asyncio.sleep(POLL_S)


async def _pace(stream: PublishedStream, publish: Callable[..., Awaitable[object]], number: int, phase: Phase) -> None:
    with IdleTimer() as timer:
        for due_ns, arguments in stream.schedule(number, phase):
            await timer.idle_until(due_ns)
            await publish(*arguments)
            stream.note_lag(due_ns)
        await timer.idle_until(time.monotonic_ns() + SPIN_NS)


def publish_all_blocking(stream: PublishedStream, publish: Callable[..., object]) -> None:
    """Execute a plan with a contender whose publish call blocks and which writes in its own threads."""
    for number, phase in stream.phases():
        batches = stream.batches(number)
        while not stream.may_begin(number):
            time.sleep(0.002)
        if phase.kind == "flood":
            _flood_blocking(batches, stream.window(number), publish, phase.seconds)
        else:
            for due_ns, arguments in stream.schedule(number, phase):
                sleep_until(due_ns)
                publish(*arguments)
                stream.note_lag(due_ns)
        stream.finish(number)
    while not stream.may_begin(len(stream.plan.phases) + 1):
        time.sleep(0.01)


def _flood_blocking(
    batches: Iterator[list[Arguments]], window: Window, publish: Callable[..., object], seconds: float
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for arguments in next(batches):
            publish(*arguments)
        while window.full():
            time.sleep(POLL_S)


def sleep_until(due_ns: int) -> None:
    """Block until a time, accurate to the microsecond."""
    wait_ns = due_ns - time.monotonic_ns() - SPIN_NS
    if wait_ns > 0:
        time.sleep(wait_ns / 1e9)
    while time.monotonic_ns() < due_ns:
        pass


class IdleTimer:
    """Lets the event loop wait for input until a time, accurate to the microsecond. Event loops round to milliseconds,
    so this is a timer of the kernel, as a file descriptor (Linux)."""

    _SPEC: Final = Struct("=qqqq")
    """Seconds and nanoseconds of the interval, and of the time."""
    _ABSOLUTE: Final = 1

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._loop = asyncio.get_running_loop()
        self._fired: asyncio.Future[None] | None = None
        self._fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")

    def __enter__(self) -> IdleTimer:
        self._loop.add_reader(self._fd, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    async def idle_until(self, due_ns: int) -> None:
        """Wait until a time. The loop runs at least once, and waits for input until just before."""
        wake_ns = due_ns - SPIN_NS
        if wake_ns > time.monotonic_ns():
            self._fired = self._loop.create_future()
            spec = self._SPEC.pack(0, 0, *divmod(wake_ns, 1_000_000_000))
            self._libc.timerfd_settime(self._fd, self._ABSOLUTE, spec, None)
            await self._fired
        else:
            await asyncio.sleep(0)
        sleep_until(due_ns)

    def _fire(self) -> None:
        os.read(self._fd, 8)
        if self._fired is not None and not self._fired.done():
            self._fired.set_result(None)
