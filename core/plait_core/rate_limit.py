"""Rate limits by token buckets: one bucket, and one for each of a bounded number of keys. No I/O.

Rates are per unit of the caller's clock: per second for monotonic seconds, per microsecond for calendar times.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from math import inf
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class TokenBucket:
    """A bucket that holds up to `burst` tokens and refills at `rate` tokens per unit of time."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        assert rate > 0, "an empty bucket would never refill"
        assert burst >= 1, "the bucket would never hold a token"
        self._rate = rate
        self._burst = self._tokens = float(burst)
        self._at = now

    def take(self, now: float, cost: float = 1.0) -> bool:
        """Take `cost` tokens and return True. Return False, and take none, if there are fewer."""
        self._refill(now)
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True

    def wait(self, now: float, cost: float = 1.0) -> float:
        """Return the time until `cost` tokens are there. A cost above the burst waits for ever."""
        self._refill(now)
        if cost > self._burst:
            return inf
        return max(0.0, (cost - self._tokens) / self._rate)

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self._rate)
        self._at = now


class TokenBuckets(Generic[K]):
    """A token bucket for each key. Beyond `keys_max` keys the least recently used one is evicted; it restarts full."""

    __slots__ = ("_buckets", "_burst", "_keys_max", "_rate")

    def __init__(self, rate: float, burst: float, keys_max: int) -> None:
        assert keys_max >= 1
        self._rate = rate
        self._burst = burst
        self._keys_max = keys_max
        self._buckets: OrderedDict[K, TokenBucket] = OrderedDict()

    def take(self, key: K, now: float, cost: float = 1.0) -> bool:
        """Take tokens from the key's bucket. Return False, and take none, if there are fewer."""
        return self._bucket(key, now).take(now, cost)

    def wait(self, key: K, now: float, cost: float = 1.0) -> float:
        """Return the time until the key's bucket holds `cost` tokens."""
        return self._bucket(key, now).wait(now, cost)

    def _bucket(self, key: K, now: float) -> TokenBucket:
        bucket = self._buckets.pop(key, None) or TokenBucket(self._rate, self._burst, now)
        self._buckets[key] = bucket
        if len(self._buckets) > self._keys_max:
            self._buckets.popitem(last=False)
        return bucket
