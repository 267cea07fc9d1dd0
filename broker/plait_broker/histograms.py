"""Histograms of times in buckets that double: cheap enough for every event, exact enough for percentiles.

A bucket is the number of bits of the time in whole microseconds, so that counting costs one `bit_length`, one
increment and one addition, and no search. The caller measures the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

FIRST_BITS: Final = 5
"""Bits of the smallest bucket that is shown, 32 µs: the clock and the loop themselves take less."""

LAST_BITS: Final = 27
"""Bits of the largest bucket with a bound, 134 s: a longer time is an outage."""

_BITS_MAX: Final = 64
"""Bits of the largest count of microseconds: 292,000 years."""


class DelayHistogram:
    """Counts of durations, by power of two of their microseconds."""

    __slots__ = ("counts", "sum_us")

    def __init__(self) -> None:
        self.counts = [0] * (_BITS_MAX + 1)
        """Counts by bits of the microseconds. Hot paths may update them in place: `counts[us.bit_length()] += 1`, and
        `sum_us += us`."""
        self.sum_us = 0

    def observe(self, delay_us: int, times: int = 1) -> None:
        """Count a time, `times` times."""
        assert delay_us >= 0
        self.counts[delay_us.bit_length()] += times
        self.sum_us += delay_us * times

    def __len__(self) -> int:
        return sum(self.counts)

    def percentile_us(self, fraction: float) -> float | None:
        """Return the percentile, interpolated within its bucket. None: nothing was counted."""
        assert 0 < fraction <= 1
        rank, below = fraction * len(self), 0
        for bits, count in enumerate(self.counts):
            if count and below + count >= rank:
                least = (1 << bits) >> 1
                return least + (rank - below) / count * ((1 << bits) - least)
            below += count
        return None

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield bounds in seconds with the number of times below each. The last bound is infinite.

        Microseconds are truncated, so that a time is below 2**n µs exactly if it has at most n bits.
        """
        below = sum(self.counts[:FIRST_BITS])
        for bits in range(FIRST_BITS, LAST_BITS + 1):
            below += self.counts[bits]
            yield (1 << bits) / 1_000_000, below
        yield float("inf"), below + sum(self.counts[LAST_BITS + 1 :])
