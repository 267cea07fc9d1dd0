"""A set of deadlines by key. Its owner reads the earliest one as an attribute."""

from __future__ import annotations

import heapq
import math
from typing import Generic, TypeVar

K = TypeVar("K", bound=int)


class Deadlines(Generic[K]):
    """Deadlines by key. Discarded entries stay in the heap until they come up or outnumber the others."""

    def __init__(self) -> None:
        self._at: dict[K, float] = {}
        self._heap: list[tuple[float, K]] = []
        self.next_at = math.inf
        """The earliest deadline; inf when there is none."""

    def __len__(self) -> int:
        return len(self._at)

    def set(self, key: K, at: float) -> None:
        """Set or move the deadline of a key."""
        self._at[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._at) + 64:
            self._heap = [(at, key) for key, at in self._at.items()]
            heapq.heapify(self._heap)
        self._find_next()

    def discard(self, key: K) -> None:
        """Remove the deadline of a key, if it has one."""
        if self._at.pop(key, math.inf) == self.next_at:
            self._find_next()

    def due(self, now: float) -> list[K]:
        """Remove and return the keys whose deadline has passed, earliest first."""
        found: list[K] = []
        while self.next_at <= now:
            _, key = heapq.heappop(self._heap)
            del self._at[key]
            found.append(key)
            self._find_next()
        return found

    def _find_next(self) -> None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        self.next_at = self._heap[0][0] if self._heap else math.inf
