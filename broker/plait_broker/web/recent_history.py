"""The overlay's activity of the last ten minutes in steps of two seconds: for the sparklines and the heat map."""

from __future__ import annotations

from typing import Final

from plait_core.values import Json

from .summary_reader import STAGES, CounterDelta, SummaryReading, number, percentile_ms

STEP_S: Final = 2.0
STEPS_MAX: Final = 300

RECENT_STEPS: Final = 5
"""Steps over which percentiles are computed: those of single steps would jump."""

_KEPT: Final = ("published_s", "delivered_s", "lost_s", "late_s", "pending", "slow_consumers")


class RecentHistory:
    """The history of all brokers together."""

    def __init__(self) -> None:
        self.shown: dict[str, Json] = {}
        """Entries by the number of their step."""
        self.percentiles: Json = {"p50_ms": None, "p99_ms": None, "p999_ms": None}
        """Percentiles of the latest deliveries."""
        self._times: dict[str, dict[str, float]] = {stage: {} for stage in (*STAGES, "links")}
        self._step = 0
        self._due = 0.0

    def add(self, change: CounterDelta, reading: SummaryReading) -> None:
        """Add the activity of one broker, and the delays of its links."""
        for stage in STAGES:
            times = self._times[stage]
            for bits, count in change.times[stage].items():
                times[bits] = times.get(bits, 0) + count
        links = self._times["links"]
        for link in reading.links:
            delay_us = int(number(link.get("delay_ms")) * 1000)
            if delay_us:
                bits = str(delay_us.bit_length())
                links[bits] = links.get(bits, 0) + 1

    def tick(self, now: float, wall_s: float, totals: Json) -> None:
        """End the step, when due."""
        if now < self._due:
            return
        self._due = now + STEP_S
        self._step += 1
        shown = {**self.shown, str(self._step): self._entry(wall_s, totals)}
        while len(shown) > STEPS_MAX:
            del shown[next(iter(shown))]
        self.shown = shown
        recent: dict[str, float] = {}
        for entry in list(shown.values())[-RECENT_STEPS:]:
            for bits, count in entry["delivery"].items():
                recent[bits] = recent.get(bits, 0) + count
        self.percentiles = {f"p{name}_ms": percentile_ms(recent, p) for name, p in _PERCENTILES.items()}

    def _entry(self, wall_s: float, totals: Json) -> Json:
        times, self._times = self._times, {stage: {} for stage in self._times}
        delays = times["delivery"]
        kept = {name: totals[name] for name in _KEPT}
        percentiles = {f"p{name}_ms": percentile_ms(delays, p) for name, p in _PERCENTILES.items()}
        return {"at": round(wall_s, 1), **kept, **percentiles, **times}


_PERCENTILES: Final = {"50": 0.5, "99": 0.99, "999": 0.999}
