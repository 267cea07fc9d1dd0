"""Event rates of sub-spaces: measured in the peer's own and finer ones, estimated in coarser ones (thesis 2.5.1).

Estimates combine the rates that other peers report. Counts decay, so that a rate is that of about the last ten periods.
With few observations a rate is close to that of evenly spread events.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.wire.frame_types.peer_frames import Profile

FADING = 0.9
"""The share of a count that remains after a period."""
PRIOR_PERIODS = 2.0
"""The weight of the even-spread assumption, in periods of measurement."""
FINER_BITS = 2
"""Bits by which a sub-space is divided for counting: enough to know its halves and quarters."""


class Rates:
    """The decaying event counts of one peer."""

    __slots__ = ("_counts", "_most", "_period_s", "_weight", "false_count", "total")

    def __init__(self, period_s: float, rates_max: int) -> None:
        self._period_s = period_s
        self._most = rates_max
        self._counts: dict[str, float] = {}
        self._weight = 0.0
        self.false_count = 0.0
        self.total = 0.0

    def count(self, dz: str, member: str, *, matched: bool, events: int = 1) -> None:
        """Count received events in a sub-space of the member `member`."""
        part = dz[: len(member) + FINER_BITS]
        self._counts[part] = self._counts.get(part, 0.0) + events
        self.total += events
        if not matched:
            self.false_count += events
        if len(self._counts) > self._most:
            del self._counts[min(self._counts, key=self._counts.__getitem__)]

    def fade(self) -> None:
        """Decay all counts; called once a period."""
        self._weight = self._weight * FADING + 1.0
        if self._counts:
            self._counts = {dz: left for dz, count in self._counts.items() if (left := count * FADING) > 0.01}
        self.false_count *= FADING
        self.total *= FADING

    def per_s(self, count: float) -> float:
        """Convert a decayed count into events per second."""
        return count / (self._weight * self._period_s) if self._weight else 0.0

    def of(self, dz: str) -> float:
        """Return the events per second in a sub-space of this peer, or in a part of one."""
        return self.per_s(sum(count for part, count in self._counts.items() if part.startswith(dz)))

    def with_prior(self, dz: str, overall: float) -> float:
        """Return the rate of a sub-space, weighted with the rate that an even spread of `overall` gives."""
        measured = self._weight * self.of(dz)
        return (measured + PRIOR_PERIODS * overall * 0.5 ** len(dz)) / (self._weight + PRIOR_PERIODS)


def reports(profiles: Iterable[Profile], dz: str) -> dict[str, float]:
    """Return the rates that other peers report within a sub-space; of several reports for one sub-space, the
    greatest."""
    found: dict[str, float] = {}
    for profile in profiles:
        if profile.rates:
            for each, rate in zip(profile.dz, profile.rates, strict=True):
                if each.startswith(dz):
                    found[each] = max(rate, found.get(each, 0.0))
    return found


def aggregated(known: dict[str, float], dz: str, overall: float, depth: int = 12) -> float:
    """Return the rate of a sub-space from the rates of its parts. A part without a report gets the average rate."""
    if dz in known:
        return known[dz]
    if depth == 0 or not known:
        return overall * 0.5 ** len(dz)
    return sum(
        aggregated({part: rate for part, rate in known.items() if part.startswith(half)}, half, overall, depth - 1)
        for half in (dz + "0", dz + "1")
    )
