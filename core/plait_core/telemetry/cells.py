"""Cells: parts of an event space by which a publisher's events are counted.

A cell is a dz-expression of few bits, written as a number: a leading 1, then its bits. 0 means that the space is
unknown or that the event lies outside.
"""

from __future__ import annotations

from typing import Final

CELL_BITS: Final = 12
"""Bits of a cell: 4,096 cells bound the rows of one publisher and window."""


def cell_of(dz: str) -> int:
    """Return the cell that contains a sub-space."""
    return int("1" + dz[:CELL_BITS], 2)
