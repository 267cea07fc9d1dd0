"""A matching index whose results are sorted.

The order of results depends on past calls and on the native kernel, and it decides who gets an event first. With this
index a history is independent of the kernel.
"""

from __future__ import annotations

from plait_core import Attributes
from plait_core.filters import Filter
from plait_core.matching import new_index
from plait_core.matching.index import Frame


class SortedIndex:
    """Implements `plait_core.matching.Index`."""

    def __init__(self) -> None:
        self._index = new_index()

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, id: int) -> bool:
        return id in self._index

    def add(self, id: int, filter: Filter) -> None:
        self._index.add(id, filter)

    def remove(self, id: int) -> None:
        self._index.remove(id)

    def text(self, id: int) -> str:
        return self._index.text(id)

    def match(self, attributes: Attributes) -> list[int]:
        return sorted(self._index.match(attributes))

    def match_frame(self, frame: Frame) -> list[int]:
        return sorted(self._index.match_frame(frame))

    def covering(self, filter: Filter) -> list[int]:
        return sorted(self._index.covering(filter))

    def covered(self, filter: Filter) -> list[int]:
        return sorted(self._index.covered(filter))

    def intersecting(self, filter: Filter) -> list[int]:
        return sorted(self._index.intersecting(filter))
