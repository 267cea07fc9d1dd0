"""The matching index: the filters that an event matches, and the relations of a filter to them.

This is the *match* step of the pipeline. The Python index (`bit_table.py`, `postings.py`, `python_index.py`) is the
reference; the native kernel gives the same answers faster.
"""

from __future__ import annotations

from typing import Protocol

from ..filters import Filter
from ..values import Attributes


class Frame(Protocol):
    """A frame whose attributes may not be unpacked yet."""

    def attributes(self) -> Attributes: ...


class Index(Protocol):
    """Filters under ids (0 to 2**63 - 1).

    Results are exact, without duplicates, in an order set by past calls alone.
    """

    def add(self, id: int, filter: Filter) -> None:
        """Store `filter` under `id`. Raise IndexMisuse if the id is taken, FilterTooComplex if the filter is."""
        ...

    def remove(self, id: int) -> None:
        """Remove `id`; raise IndexMisuse if it is unknown."""
        ...

    def text(self, id: int) -> str:
        """Return the text of the filter under `id`, so that its owner need not keep it; raise IndexMisuse if the id is
        unknown."""
        ...

    def match(self, attributes: Attributes) -> list[int]:
        """Return the ids whose filters are true of plain attributes."""
        ...

    def match_frame(self, frame: Frame) -> list[int]:
        """Match the attributes of a received frame, as `match` does. Raise FrameError if they are invalid."""
        ...

    def covering(self, filter: Filter) -> list[int]:
        """Return the ids whose filters cover `filter` (as `Filter.covers` decides)."""
        ...

    def covered(self, filter: Filter) -> list[int]:
        """Return the ids whose filters `filter` covers."""
        ...

    def intersecting(self, filter: Filter) -> list[int]:
        """Return the ids whose filters intersect `filter` (as `Filter.intersects` decides)."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, id: int) -> bool: ...
