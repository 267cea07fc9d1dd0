"""Percentiles of measured times."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of the values do not exceed; NaN if there are none."""
    if not ordered:
        return math.nan
    assert 0 < share <= 1, "a share"
    return ordered[math.ceil(share * len(ordered)) - 1]
