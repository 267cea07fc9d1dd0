"""The matching index: which of many filters an event matches, and how a filter relates to them.

This is the *match* step of the pipeline. The Python index (`bit_table.py`, `postings.py`, `python_index.py`) is the
reference; the native kernel gives the same answers faster.
"""

from __future__ import annotations

from typing import Protocol

from ..filters import Filter
from ..values import Attributes


class Frame(Protocol):
    """What has attributes that may not be unpacked yet."""

    def attributes(self) -> Attributes: ...


class Index(Protocol):
    """Filters under ids (0 to 2**63 - 1). Answers are exact, free of duplicates, and ordered by past calls only."""

    def add(self, id: int, filter: Filter) -> None:
        """Keep `filter` under `id`; IndexMisuse when the id is taken, FilterTooComplex as the filter says."""
        ...

    def remove(self, id: int) -> None:
        """Forget `id`; IndexMisuse when it is not here."""
        ...

    def match(self, attributes: Attributes) -> list[int]:
        """The ids whose filters are true of plain attributes."""
        ...

    def match_frame(self, frame: Frame) -> list[int]:
        """As `match`, for what a frame from the network says; FrameError when its attributes are none."""
        ...

    def covering(self, filter: Filter) -> list[int]:
        """The ids whose filters cover `filter` (as `Filter.covers` decides)."""
        ...

    def covered(self, filter: Filter) -> list[int]:
        """The ids whose filters `filter` covers."""
        ...

    def intersecting(self, filter: Filter) -> list[int]:
        """The ids whose filters intersect `filter` (as `Filter.intersects` decides)."""
        ...

    def __len__(self) -> int: ...

    def __contains__(self, id: int) -> bool: ...
