"""Delays as logarithmic buckets, eight for each doubling: floor(8 log2 µs).

Counts of buckets can be added over windows, links and brokers; percentiles cannot. A bucket is 9% wide, so its middle
is within 4.4% of every delay in it.
"""

from __future__ import annotations

import math
from typing import Final

PER_DOUBLING: Final = 8

BUCKETS: Final = 32 * PER_DOUBLING
"""Number of buckets for 32-bit delays. Bucket 0 also counts delays of 0."""


def bucket_of(delay_us: int) -> int:
    """Return the bucket of a delay.

    The logarithm is exact for powers of two. No other whole number lies on a boundary: those are roots of two.
    """
    assert 0 <= delay_us < 1 << 32
    return math.floor(PER_DOUBLING * math.log2(delay_us)) if delay_us else 0


def bucket_bounds_us(bucket: int) -> tuple[float, float]:
    """Return the lower and upper bound of a bucket."""
    assert 0 <= bucket < BUCKETS
    return 2.0 ** (bucket / PER_DOUBLING), 2.0 ** ((bucket + 1) / PER_DOUBLING)
