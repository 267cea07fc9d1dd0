"""How long things take, counted in buckets that double: cheap enough for every event, exact enough for percentiles.

A bucket is the number of bits of the time in whole microseconds, so that counting costs one `bit_length`, one
increment and one addition, and no search. No I/O; whoever measures gives the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FIRST_BITS: Final = 5
"""Of the smallest bucket that is shown, 32 µs: below lies only what the clock and the loop themselves take."""

LAST_BITS: Final = 27
"""Of the largest with a bound, 134 s: whatever takes longer is no delay but an outage."""

_BITS_MAX: Final = 64
"""As many as a count of microseconds has; 292,000 years."""


class DelayHistogram:
    """Times, by power of two of their microseconds."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (_BITS_MAX + 1)
        """By bits of the microseconds. Hot paths may count here by themselves: `counts[us.bit_length()] += 1`, and
        `sum_us += us`."""
        self.sum_us = 0

    def observe(self, delay_us: int, times: int = 1) -> None:
        """Count a time, that many times."""
        assert delay_us >= 0
        self.counts[delay_us.bit_length()] += times
        self.sum_us += delay_us * times

    def __len__(self) -> int:
        return sum(self.counts)

    def percentile_us(self, fraction: float) -> float | None:
        """What that fraction of the times is not above, read off within its bucket as if times were even there; None
        while there are none."""
        assert 0 < fraction <= 1
        wanted, below = fraction * len(self), 0
        for bits, count in enumerate(self.counts):
            if count and below + count >= wanted:
                least = (1 << bits) >> 1
                return least + (wanted - below) / count * ((1 << bits) - least)
            below += count
        return None

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Bounds in seconds, and how many times were below each; the last bound is infinite.

        Microseconds are cut off, never rounded, so that a time is below 2**n µs just if it has at most n bits.
        """
        below = sum(self.counts[:FIRST_BITS])
        for bits in range(FIRST_BITS, LAST_BITS + 1):
            below += self.counts[bits]
            yield (1 << bits) / 1_000_000, below
        yield float("inf"), below + sum(self.counts[LAST_BITS + 1 :])
