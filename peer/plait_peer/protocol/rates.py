"""Event rates of sub-spaces: measured in our own and finer ones, estimated in coarser ones from what others measure.

Thesis 2.5.1. Counts fade, so that a rate is that of the last ten periods or so; what was seen too little of leans on
the assumption that events are spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.wire.frame_types.peer_frames import Profile

FADING = 0.9
"""What is left of a count after a period."""
PRIOR_PERIODS = 2.0
"""How many periods of measuring the assumption is worth."""
FINER_BITS = 2
"""Each sub-space is counted in parts halved so often more: enough to know its halves, and theirs."""


class Rates:
    """What one peer has counted."""

    __slots__ = ("_counts", "_most", "_period_s", "_weight", "false_count", "total")

    def __init__(self, period_s: float, rates_max: int) -> None:
        self._period_s = period_s
        self._most = rates_max
        self._counts: dict[str, float] = {}
        self._weight = 0.0
        self.false_count = 0.0
        self.total = 0.0

    def count(self, dz: str, member: str, *, wanted: bool, events: int = 1) -> None:
        """Events have come, in this sub-space of ours."""
        part = dz[: len(member) + FINER_BITS]
        self._counts[part] = self._counts.get(part, 0.0) + events
        self.total += events
        if not wanted:
            self.false_count += events
        if len(self._counts) > self._most:
            del self._counts[min(self._counts, key=self._counts.__getitem__)]

    def fade(self) -> None:
        """A period has passed."""
        self._weight = self._weight * FADING + 1.0
        if self._counts:
            self._counts = {dz: left for dz, count in self._counts.items() if (left := count * FADING) > 0.01}
        self.false_count *= FADING
        self.total *= FADING

    def per_s(self, count: float) -> float:
        """A faded count as a rate."""
        return count / (self._weight * self._period_s) if self._weight else 0.0

    def of(self, dz: str) -> float:
        """Events a second in a sub-space of ours, or one of its halves."""
        return self.per_s(sum(count for part, count in self._counts.items() if part.startswith(dz)))

    def leaning(self, dz: str, overall: float) -> float:
        """The same, where little was seen nearer to what an even spread would give."""
        measured = self._weight * self.of(dz)
        return (measured + PRIOR_PERIODS * overall * 0.5 ** len(dz)) / (self._weight + PRIOR_PERIODS)


def reports(profiles: Iterable[Profile], dz: str) -> dict[str, float]:
    """What others have measured within a sub-space; of several measurements, the greatest."""
    found: dict[str, float] = {}
    for profile in profiles:
        if profile.rates:
            for each, rate in zip(profile.dz, profile.rates, strict=True):
                if each.startswith(dz):
                    found[each] = max(rate, found.get(each, 0.0))
    return found


def aggregated(known: dict[str, float], dz: str, overall: float, depth: int = 12) -> float:
    """The rate of a sub-space from those of its parts; parts that nobody has measured are taken to be average."""
    if dz in known:
        return known[dz]
    if depth == 0 or not known:
        return overall * 0.5 ** len(dz)
    return sum(
        aggregated({part: rate for part, rate in known.items() if part.startswith(half)}, half, overall, depth - 1)
        for half in (dz + "0", dz + "1")
    )
