"""The objects that most parts of a broker share: its identity, settings and clock, and the records of each event."""

from __future__ import annotations

from dataclasses import dataclass

from .clients.confirmations import Confirmations
from .counters import Counters
from .pipeline.observer import EventObserver
from .settings import LiveSettings


@dataclass(frozen=True, slots=True)
class WallClock:
    """Calendar time, derived once from the monotonic clock at the broker's start. It never goes back while it runs."""

    offset_us: int

    def wall_us(self, now: float) -> int:
        """Return the calendar time in microseconds."""
        return self.offset_us + round(now * 1_000_000)


@dataclass(frozen=True, slots=True)
class BrokerContext:
    """One broker's."""

    id: int
    log: int
    """Identity of the broker's log; 0 without one."""
    settings: LiveSettings
    clock: WallClock
    counters: Counters
    confirmations: Confirmations
    observer: EventObserver
