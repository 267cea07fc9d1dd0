"""The figures of a lane, for people and for predictions: what it carries, what waits, and the delay of its events.

Nothing here changes what a lane does. Figures are noted once for each write, echo or run of events, never for each
event.
"""

from __future__ import annotations

from collections import deque
from math import inf, log2
from typing import Final, NamedTuple

from plait_core.telemetry import bucket_bounds_us
from plait_core.telemetry.buckets import PER_DOUBLING

DELAYS_S: Final = 60.0
"""Counts of delays are those of one to two such spans."""

MEASURE_S: Final = 0.25
"""Time over which a delivery rate is measured: several epochs of the window, so that bunched echoes do not count."""

CAPACITY_HALF_S: Final = 60.0
"""Time of full load in which a measured capacity halves unless it is measured again, since a path can become slower."""

SENT_S: Final = 2.0
"""The rate of a lane is that of the last one to two such spans."""

PEAKS: Final = 10
"""Seconds for which the greatest backlog is kept."""

FULL_S: Final = 1.0
"""A lane is full when events have waited in it for so long without a pause. It is free after as long without one that
waits."""


class LaneBacklog(NamedTuple):
    """Events that wait in a lane."""

    events: int
    bytes: int


class ExcessDelays:
    """Delays as a base, which is the least, and counts of the excess over it.

    Counts are in logarithmic buckets, eight a doubling. Buckets of whole delays would be as wide as the jitter of a
    link with a long base.
    """

    __slots__ = ("_before", "_counts", "_since", "base_us")

    def __init__(self, now: float) -> None:
        self.base_us = inf
        """The latest base; infinite before the first delay."""
        self._counts: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._since = now

    def add(self, base_us: float, excess_us: float, count: int, now: float) -> None:
        """Add a delay that `count` events had."""
        if now - self._since >= DELAYS_S:
            self._before = self._counts if now - self._since < 2 * DELAYS_S else {}
            self._counts, self._since = {}, now
        self.base_us = base_us
        bucket = int(PER_DOUBLING * log2(excess_us)) if excess_us > 1.0 else 0
        self._counts[bucket] = self._counts.get(bucket, 0) + count

    @property
    def counts(self) -> dict[int, int]:
        """The counts by bucket, in order."""
        return {
            bucket: self._counts.get(bucket, 0) + self._before.get(bucket, 0)
            for bucket in sorted(self._counts.keys() | self._before.keys())
        }

    def percentile_us(self, share: float) -> float | None:
        """Return the delay that this share of the events did not exceed, or None before the first one. The excess
        counts as the upper bound of its bucket."""
        counts = self.counts
        left = share * sum(counts.values())
        for bucket, count in counts.items():
            left -= count
            if left <= 0:
                return self.base_us + (bucket_bounds_us(bucket)[1] if bucket else 0.0)
        return None


class Capacity:
    """The greatest rate at which a lane has delivered events while others waited for it.

    The value halves in `CAPACITY_HALF_S` of full load, so it follows a path that has become slower.
    """

    __slots__ = ("_bytes", "_since", "bytes_per_s", "measured_s")

    def __init__(self) -> None:
        self.bytes_per_s = 0.0
        """0 while it is unknown."""
        self.measured_s = 0.0
        """Time in which it was measured."""
        self._bytes = 0
        self._since: float | None = None
        """The first of the echoes that are measured."""

    def delivered(self, size: int, now: float) -> None:
        """Note that bytes have arrived at the neighbour, and that events have waited since the last time they did."""
        if self._since is None:
            self._since, self._bytes = now, 0
            return
        self._bytes += size
        elapsed_s = now - self._since
        if elapsed_s >= MEASURE_S:
            decayed = self.bytes_per_s * 0.5 ** (elapsed_s / CAPACITY_HALF_S)
            self.bytes_per_s = max(self._bytes / elapsed_s, decayed)
            self.measured_s += elapsed_s
            self._since, self._bytes = now, 0

    def interrupt(self) -> None:
        """Note that nothing waits, or that something else than the path limits the lane."""
        self._since = None


class LaneFigures:
    """The figures of one lane."""

    __slots__ = (
        "_delayed", "_empty_since", "_full", "_marks", "_peaks", "_waits_since",
        "arrivals", "bytes", "capacity", "events", "round_trips", "waits",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.capacity = Capacity()
        self.arrivals = Capacity()
        """Of the opposite lane: what has arrived here while the neighbour's events waited. Its echoes are not involved,
        so the two ends of a lane measure it independently."""
        self.round_trips = ExcessDelays(now)
        """From the write of events to their echo."""
        self.waits = ExcessDelays(now)
        """In the lane's queue. Their base is 0."""
        self.events = self.bytes = 0
        """What was written to the neighbour."""
        self._delayed = 0
        """Events that have waited, and are written in this turn."""
        self._marks = ((now, 0), (now, 0))
        """Two times, and the bytes that were written before."""
        self._peaks: deque[tuple[int, LaneBacklog]] = deque(maxlen=PEAKS)
        """The greatest backlogs, by second."""
        self._waits_since = now
        self._empty_since: float | None = now
        self._full = False

    def wrote(self, size: int, events: int, now: float) -> None:
        """Note what was written in one turn."""
        self._roll(now)
        self.events += events
        self.bytes += size
        self.waits.add(0.0, 0.0, events - self._delayed, now)
        self._delayed = 0

    def waited(self, waited_us: float, events: int, now: float) -> None:
        """Note how long the last of some events has waited that leave the queue."""
        self.waits.add(0.0, waited_us, events, now)
        self._delayed += events

    def arrived(self, size: int, events: int, round_trip_s: float, base_s: float, *, limited: bool, now: float) -> None:
        """Note the echo of events. `limited`: others wait, and it is the path that limits the lane."""
        self.round_trips.add(base_s * 1e6, (round_trip_s - base_s) * 1e6, events, now)
        if limited:
            self.capacity.delivered(size, now)
        else:
            self.capacity.interrupt()

    def backlog_is(self, events: int, bytes: int, now: float) -> None:
        """Note what waits in the queue now."""
        if events:
            backlog, second = LaneBacklog(events, bytes), int(now)
            if self._peaks and self._peaks[-1][0] == second:
                known = self._peaks[-1][1]
                if bytes > known.bytes or events > known.events:
                    self._peaks[-1] = (second, LaneBacklog(max(events, known.events), max(bytes, known.bytes)))
            else:
                self._peaks.append((second, backlog))
        else:
            self.capacity.interrupt()
        self._follow(waits=events > 0, now=now)

    def peak(self, last_s: int, now: float) -> LaneBacklog:
        """Return the greatest backlog of this second and of the `last_s` before, at most `PEAKS`."""
        found = [backlog for second, backlog in self._peaks if second >= int(now) - last_s]
        return LaneBacklog(max((b.events for b in found), default=0), max((b.bytes for b in found), default=0))

    def bytes_per_s(self, now: float) -> float:
        """Return the rate of the last seconds."""
        self._roll(now)
        since, before = self._marks[0]
        return (self.bytes - before) / max(now - since, SENT_S)

    def utilisation(self, now: float) -> float | None:
        """Return the share of the capacity that was used in the last seconds, or None while the capacity is unknown."""
        capacity = self.capacity.bytes_per_s
        return min(1.0, self.bytes_per_s(now) / capacity) if capacity else None

    def is_full(self, now: float) -> bool:
        """Return whether events have waited for `FULL_S`, and no such time has passed since in which none did."""
        self._follow(waits=self._empty_since is None, now=now)
        return self._full

    def _roll(self, now: float) -> None:
        """Begin a new span of the rate if it is time."""
        age_s = now - self._marks[1][0]
        if age_s >= SENT_S:
            mark = (now, self.bytes)
            self._marks = (self._marks[1] if age_s < 2 * SENT_S else mark, mark)

    def _follow(self, *, waits: bool, now: float) -> None:
        empty_since = self._empty_since
        self._full = self._full and (empty_since is None or now - empty_since < FULL_S)
        if not waits:
            self._empty_since = now if empty_since is None else empty_since
            return
        if empty_since is not None and not self._full:
            self._waits_since = now
        self._empty_since = None
        self._full = self._full or now - self._waits_since >= FULL_S
