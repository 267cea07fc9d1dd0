"""The round-trip time to the home broker: a smoothed minimum over the pings."""

from __future__ import annotations

from typing import Final

_RISE: Final = 1 / 16
"""Share of a higher sample that the estimate takes over. A sample that waited in a queue is no measure of the path,
so the estimate falls at once and rises slowly."""


class RttEstimator:
    """The round-trip estimate of one connection; 0.0 before the first sample."""

    __slots__ = ("half_s", "measured_s")

    def __init__(self) -> None:
        self.measured_s = 0.0
        self.half_s = 0.0

    def sample(self, round_trip_s: float) -> None:
        """Add a sample."""
        assert round_trip_s >= 0, "time does not run backwards"
        known = self.measured_s
        self.measured_s = round_trip_s if not known or round_trip_s < known else known + (round_trip_s - known) * _RISE
        self.half_s = self.measured_s / 2
