"""Time as a parameter. Protocols take `now` (seconds, monotonic); only a face reads a real clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two readings: one that never goes back, for every decision; one of the calendar, for people."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970, which may jump."""
        ...


class ManualClock:
    """A clock that moves when told: for simulators and tests."""

    def __init__(self, now: float = 0.0, wall_us: int = 1_700_000_000_000_000) -> None:
        self._now = now
        self._wall_us = wall_us

    def now(self) -> float:
        return self._now

    def wall_us(self) -> int:
        return self._wall_us

    def advance(self, seconds: float) -> None:
        """Let time pass on both readings."""
        assert seconds >= 0, "time does not go back; use jump_wall for a calendar that does"
        self._now += seconds
        self._wall_us += round(seconds * 1_000_000)

    def jump_wall(self, seconds: float) -> None:
        """Set the calendar forward or back, as an operator or NTP would."""
        self._wall_us += round(seconds * 1_000_000)
