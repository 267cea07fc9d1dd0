"""How often each caller may ask: so many times at once, so many a second in the long run. Bounded in callers."""

from __future__ import annotations

from collections import OrderedDict

from .limits import CALLERS_KEPT


class TokenBuckets:
    """A bucket of tokens for each caller. Who is forgotten for the sake of others begins with a full one."""

    def __init__(self, per_s: float, burst: float) -> None:
        assert per_s > 0, "or nobody could ever ask again"
        assert burst >= 1, "or nobody could ever ask"
        self._per_us = per_s / 1_000_000
        self._burst = float(burst)
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, caller: str, now_us: int) -> bool:
        """Whether the caller may ask once more, now."""
        left, at_us = self._left.pop(caller, (self._burst, now_us))
        left = min(self._burst, left + max(0, now_us - at_us) * self._per_us)
        taken = left >= 1
        self._left[caller] = (left - 1 if taken else left, now_us)
        if len(self._left) > CALLERS_KEPT:
            self._left.popitem(last=False)
        return taken
