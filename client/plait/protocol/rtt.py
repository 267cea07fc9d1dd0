"""How far the home broker is: a smoothed minimum of the heartbeat's round trips."""

from __future__ import annotations

from typing import Final

_RISE: Final = 1 / 16
"""A round trip that waited behind other work says little: the estimate falls at once and rises slowly."""


class RttEstimator:
    """The estimate for one connection; 0.0 until something was measured."""

    __slots__ = ("half_s", "measured_s")

    def __init__(self) -> None:
        self.measured_s = 0.0
        self.half_s = 0.0

    def sample(self, round_trip_s: float) -> None:
        """Takes one measurement."""
        assert round_trip_s >= 0, "time does not go back"
        known = self.measured_s
        self.measured_s = round_trip_s if not known or round_trip_s < known else known + (round_trip_s - known) * _RISE
        self.half_s = self.measured_s / 2
