"""How often something may be done: so many times at once, so many a second in the long run. No I/O."""

from __future__ import annotations


class TokenBucket:
    """A bucket of tokens."""

    __slots__ = ("_at", "_burst", "_per_s", "_tokens")

    def __init__(self, per_s: float, burst: float, now: float) -> None:
        assert per_s > 0, "or it could never be done again"
        assert burst >= 1, "or it could never be done at all"
        self._per_s = per_s
        self._burst = self._tokens = burst
        self._at = now

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Whether it may be done once more, now; if not, nothing was taken."""
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True
