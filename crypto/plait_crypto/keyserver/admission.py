"""Admission: the first decision about a line, before any of it is parsed. No I/O."""

from __future__ import annotations

from plait_core.rate_limit import TokenBuckets

from .limits import (
    CALLERS_KEPT,
    REQUESTS_BURST,
    REQUESTS_PER_S,
    STRANGER_REQUESTS_BURST,
    STRANGER_REQUESTS_PER_S,
)
from .messages import Refusal, retry_after_s
from .records import Caller


class Admission:
    """The budgets of lines: one for each holder, and one for each address without a certificate."""

    def __init__(self) -> None:
        self._holders = TokenBuckets[str](REQUESTS_PER_S / 1_000_000, REQUESTS_BURST, CALLERS_KEPT)
        self._strangers = TokenBuckets[str](STRANGER_REQUESTS_PER_S / 1_000_000, STRANGER_REQUESTS_BURST, CALLERS_KEPT)

    def admit(self, caller: Caller, now_us: int) -> Refusal | None:
        """Take one line from the caller's budget. Return the refusal if the budget is used up."""
        buckets = self._holders if caller.holder else self._strangers
        if buckets.take(caller.key, now_us):
            return None
        retry_s = retry_after_s(buckets.wait(caller.key, now_us))
        return Refusal("too_often", "too many requests", hint=f"try again in {retry_s} s", retry_s=retry_s)
