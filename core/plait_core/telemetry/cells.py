"""Cells: parts of an event space, by which it is counted what a publisher's events are about.

A cell is a dz-expression of few bits, as a number: a leading 1, then its bits. 0 is none: the space is not known, or
the event lies outside.
"""

from __future__ import annotations

from typing import Final

CELL_BITS: Final = 12
"""4,096 cells: as many rows as a publisher and a window may have of them."""


def cell_of(dz: str) -> int:
    """The cell that a sub-space lies in."""
    return int("1" + dz[:CELL_BITS], 2)
