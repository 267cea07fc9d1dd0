"""The window of a lane: how many bytes of events may be on their way to the neighbour at once.

A control frame overtakes the events that wait in the lane's own queue. It cannot overtake those that are on their way:
in the buffers of the kernel, of relays and of routers, or unread at the neighbour. So the window follows the lane's
bandwidth-delay product. It keeps the queueing that a lane adds to its round trip at 10 to 20 ms (`QUEUE_S`), as FAST
TCP does:

    window = window * (base round trip + queueing) / round trip

- The round trip is the least of an epoch, so that single stalls do not count.
- A new window doubles in each epoch, until its lane queues. So does one whose lane carries more with every epoch, and
  one whose path has become longer.
- The window is never less than what the lane has carried lately in a base round trip.
- After a window has doubled or halved (at most once a second) and every ten seconds, it is small for one round trip. So
  the queue empties, and the base can be seen: the round trip without a queue.
"""

from __future__ import annotations

from math import inf
from typing import Final

QUEUE_S: Final = 0.020
QUEUE_S_MIN: Final = 0.010
PACKETS_BYTES: Final = 12_000
"""Queueing delay that the window aims at, less the time of eight packets, but at least the minimum. It bounds the delay
of a control frame. Less would leave a fast lane idle between two turns of a busy neighbour, and would wake both brokers
more often."""

START_BYTES: Final = 16 << 10
"""A new lane may be slow: at 1 Mbit/s this takes an eighth of a second. A fast lane needs a few epochs to grow."""

WINDOW_BYTES_MIN: Final = 3_000
"""Two packets of a common network: with fewer, a lane would wait for each echo."""

WINDOW_BYTES_MAX: Final = 32 << 20
"""The bytes on a lane of ten gigabits with a round trip of 25 ms."""

GROWTH: Final = 2.0
"""Most that the window grows by in one epoch."""

EPOCH_S: Final = 0.030
"""Least length of an epoch; it also lasts for a round trip at least."""

FASTER: Final = 1.1
FASTER_EPOCHS: Final = 3
"""A lane that carries more by this ratio, in so many epochs in a row, has become faster: its window doubles again."""

RATE_S: Final = 2.0
"""The capacity is the greatest rate of one to two such spans."""

BASE_S: Final = 10.0
"""The base is the least round trip of one to two such spans. At the end of each, the queue is emptied once."""

EMPTY: Final = 1
"""Bytes that let one event pass once nothing is on its way. Its round trip is the base."""

DRAINED: Final = 0.75
"""Share of the bandwidth-delay product that may be on its way while the queue empties."""

VAIN: Final = 0.5
"""When the window has shrunk to this share, the queue is emptied: perhaps the path has become longer instead."""

EMPTY_AGAIN_S: Final = 1.0
"""Least time after which a shrinking window empties its queue again. The lane carries nothing meanwhile, and on a busy
machine round trips vary a hundredfold."""

LONGER: Final = 1.5
"""A path whose base has grown by this ratio is another path, and its window doubles again."""


class Extreme:
    """The least value (`sign` 1) or the greatest (-1) of one to two spans of time."""

    __slots__ = ("_before", "_now", "_sign", "_since", "_span_s")

    def __init__(self, sign: int, span_s: float, now: float) -> None:
        self._sign = sign
        self._span_s = span_s
        self._since = now
        self._now = self._before = inf

    @property
    def value(self) -> float:
        """The extreme; infinite (or minus infinite) before the first value."""
        return self._sign * min(self._now, self._before)

    def add(self, value: float, now: float) -> bool:
        """Add a value. Return whether it begins a new span."""
        begins = now - self._since >= self._span_s
        if begins:
            self._since, self._before, self._now = now, self._now, inf
        self._now = min(self._sign * value, self._now)
        return begins

    def reset(self, value: float, now: float) -> None:
        """Forget all values but this one."""
        self._since, self._before, self._now = now, inf, self._sign * value


class LaneWindow:
    """The window of one lane."""

    __slots__ = (
        "_arrived", "_base", "_capacity", "_drain_limit", "_draining_since", "_emptied_at", "_epoch_since",
        "_faster_epochs", "_least_s", "_limited", "_shrunk_from", "rate", "size",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.size = START_BYTES
        """Bytes, while the queue is not being emptied."""
        self.rate = 0.0
        """Bytes/s that have arrived in the last epoch."""
        self._base = Extreme(1, BASE_S, now)
        self._capacity = Extreme(-1, RATE_S, now)
        self._epoch_since = now
        self._arrived = 0
        """Bytes that have arrived in this epoch."""
        self._least_s = inf
        """The least round trip of this epoch."""
        self._limited = False
        """Whether events have waited for the window in this epoch."""
        self._faster_epochs = FASTER_EPOCHS
        """Epochs in a row in which the lane carried more than in the one before. A new window doubles at once."""
        self._shrunk_from = 0
        """The window before it began to shrink; 0 while it does not."""
        self._draining_since = inf
        self._emptied_at = -inf
        self._drain_limit = 0

    @property
    def base_s(self) -> float:
        """The round trip without queueing, as far as known; infinite before the first echo."""
        return self._base.value

    @property
    def capacity(self) -> float:
        """The greatest rate of the last seconds in bytes/s; 0 before the first epoch."""
        return max(self._capacity.value, 0.0)

    @property
    def limit(self) -> int:
        """Bytes that may be on their way now."""
        return self.size if self._draining_since == inf else self._drain_limit

    @property
    def doubles(self) -> bool:
        """Whether the window still doubles, since its path has not queued yet. So the window limits the lane, not the
        path."""
        return self._faster_epochs >= FASTER_EPOCHS

    def limited(self) -> None:
        """Note that events wait for the window."""
        self._limited = True

    def sample(self, written_at: float, now: float, size: int) -> None:
        """Note that `size` bytes have arrived, the last of which were written at `written_at`."""
        round_trip_s = max(now - written_at, 1e-6)
        if self._draining_since < inf:
            self._drained(written_at, round_trip_s, now)
            return
        if self._base.add(round_trip_s, now) and self._limited:
            base_s = self.base_s
            self._drain(max(EMPTY, int(self.size * DRAINED * base_s / (base_s + self._queue_s))), now)
            return
        if now >= self._epoch_since:
            self._arrived += size
        if written_at < self._epoch_since:
            return
        self._least_s = min(round_trip_s, self._least_s)
        if now - self._epoch_since >= EPOCH_S:
            self._end_epoch(now)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _queue_s(self) -> float:
        """The queueing delay that this lane aims at."""
        capacity = self.capacity
        return max(QUEUE_S_MIN, QUEUE_S - PACKETS_BYTES / capacity) if capacity else QUEUE_S_MIN

    def _begin_epoch(self, at: float) -> None:
        self._epoch_since, self._arrived, self._least_s, self._limited = at, 0, inf, False

    def _end_epoch(self, now: float) -> None:
        rate = self._arrived / (now - self._epoch_since)
        if self._faster_epochs < FASTER_EPOCHS:
            self._faster_epochs = self._faster_epochs + 1 if rate > FASTER * self.rate else 0
        self.rate = rate
        self._capacity.add(rate, now)
        aim_s = self.base_s + self._queue_s
        if self._least_s > aim_s:
            self._shrink(aim_s, now)
        elif self._limited:
            self._shrunk_from = 0
            factor = GROWTH if self.doubles else min(GROWTH, aim_s / self._least_s)
            self.size = min(WINDOW_BYTES_MAX, int(self.size * factor))
        self._begin_epoch(now)

    def _shrink(self, aim_s: float, now: float) -> None:
        doubled, self._faster_epochs = self.doubles, 0
        self._shrunk_from = self._shrunk_from or self.size
        least = max(WINDOW_BYTES_MIN, int(self.capacity * self.base_s))
        self.size = max(least, int(self.size / GROWTH if doubled else self.size * aim_s / self._least_s))
        if doubled or self.size <= VAIN * self._shrunk_from:
            self._shrunk_from = 0
            if now >= self._emptied_at + EMPTY_AGAIN_S:
                self._drain(EMPTY, now)

    def _drain(self, limit: int, now: float) -> None:
        self._emptied_at = now
        self._draining_since, self._drain_limit = now, limit

    def _drained(self, written_at: float, round_trip_s: float, now: float) -> None:
        """Take a round trip while the queue empties. That of an event which was written since then ends it."""
        if written_at > self._draining_since:
            if self._drain_limit == EMPTY:
                if round_trip_s > LONGER * self.base_s:
                    self._faster_epochs = FASTER_EPOCHS
                self._base.reset(round_trip_s, now)
            else:
                self._base.add(round_trip_s, now)
            self._draining_since = inf
            self._begin_epoch(now + round_trip_s)  # until then the lane fills again
