"""A subscriber's counting: events by phase, with missing, repeated and reordered events detected."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeAlias

from .shared_counters import SharedCounters
from .stamps import LAST, MARK, MEASURED, age_ns, first_mark, phase_of, phase_of_mark

Receive: TypeAlias = Callable[[bytes], None]

SLOW_S: Final = 0.005
"""Seconds that a slow subscriber takes for each event."""


class Listener:
    """One subscriber's part of the shared counters."""

    def __init__(self, counters: SharedCounters, slot: int, *, measure: bool) -> None:
        self._counters = counters
        self._slot = slot
        self._due: dict[int, int] = {}
        """The next expected mark, by phase other than the current one."""
        self._counts: dict[int, int] = {}
        self.receive: Receive = self._measure() if measure else self._count()
        """Called with the bytes of every event, beginning with its stamp."""

    def subscribed(self) -> None:
        """Report that the subscription is active."""
        self._counters.ready[self._slot] = 1

    def _count(self) -> Receive:
        slot, read = self._slot, MARK.unpack_from
        phase, due, count, counts = 0, 0, 0, self._counters.received[0]

        def receive(data: bytes) -> None:
            nonlocal phase, due, count, counts
            (mark,) = read(data)
            if mark != due:
                phase, count = self._turn(phase, mark, due, count)
                counts = self._counters.received[phase]
            due = mark + 1 if mark & LAST != LAST else mark - LAST  # numbers wrap after the last
            count += 1
            counts[slot] = count

        return receive

    def _turn(self, phase: int, mark: int, due: int, count: int) -> tuple[int, int]:
        """Handle an event that was not the expected one: another phase, or a break in this one. Return phase and
        count."""
        found = phase_of_mark(mark)
        if found != phase:
            self._due[phase], self._counts[phase] = due, count
            due, count = self._due.get(found, first_mark(found)), self._counts.get(found, 0)
        if mark != due:
            self._counters.breaks[found][self._slot] += 1
        return found, count

    def _measure(self) -> Receive:
        counted, slot = self._count(), self._slot
        delays, received = self._counters.delays(slot), self._counters.received[MEASURED]
        room = len(delays)

        def receive(data: bytes) -> None:
            if phase_of(data) == MEASURED and received[slot] < room:
                delays[received[slot]] = age_ns(data)
            counted(data)

        return receive


class SlowListener(Listener):
    """A subscriber that blocks its process for each event, as an application with slow code does. It only counts."""

    def __init__(self, counters: SharedCounters, slot: int) -> None:
        super().__init__(counters, slot, measure=False)
        received = counters.received[0]
        received[slot] = 0

        def receive(data: bytes) -> None:
            time.sleep(SLOW_S)
            received[slot] += 1

        self.receive = receive
