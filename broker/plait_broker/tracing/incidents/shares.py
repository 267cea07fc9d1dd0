"""Fair shares of a bounded list: which entry to drop so that no kind, or no broker, displaces the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


def surplus_key(entries: Mapping[_K, _V], share_of: Callable[[_V], str]) -> _K:
    """Return the key of the first entry of the largest share.

    With a limit of n entries and k shares, a share with at most n / k entries is never the largest alone.
    """
    sizes = Counter(share_of(entry) for entry in entries.values())
    largest = max(sizes.values())
    return next(key for key, entry in entries.items() if sizes[share_of(entry)] == largest)
