"""Time as a parameter. Protocols take `now` (monotonic seconds); only servers and clients read a real clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks: a monotonic one for every decision, and the calendar for times shown to people."""

    def now(self) -> float:
        """Return monotonic seconds."""
        ...

    def wall_us(self) -> int:
        """Return microseconds since 1970. This clock may jump."""
        ...


class ManualClock:
    """A clock that moves only when `advance` or `jump_wall` is called; for simulators and tests."""

    def __init__(self, now: float = 0.0, wall_us: int = 1_700_000_000_000_000) -> None:
        self._now = now
        self._wall_us = wall_us

    def now(self) -> float:
        return self._now

    def wall_us(self) -> int:
        return self._wall_us

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        assert seconds >= 0, "monotonic time does not go back; jump_wall moves the calendar alone"
        self._now += seconds
        self._wall_us += round(seconds * 1_000_000)

    def jump_wall(self, seconds: float) -> None:
        """Move the calendar forward or back, as an operator or NTP would."""
        self._wall_us += round(seconds * 1_000_000)
