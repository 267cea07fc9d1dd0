"""The tree of sub-spaces down to one depth, and a filter's boxes in it (thesis 2.3.1).

A node of the tree has, for each box that intersects it, the dimensions in which the box does not fill it. So halving a
sub-space costs one comparison per box, for any number of dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import TypeAlias

from .cells import Reach, Side
from .dz_text import interleave


@dataclass(frozen=True, slots=True)
class Grid:
    """The order in which dimensions are halved, down to `depth` bits."""

    depth: int
    turns: tuple[int, ...]
    """turns[k]: the dimension that bit k halves."""
    extents: tuple[tuple[int, ...], ...]
    """extents[k][i]: number of cells of dimension i in a sub-space of k bits."""

    @property
    def bits(self) -> tuple[int, ...]:
        """Halvings of each dimension."""
        return tuple(extent.bit_length() - 1 for extent in self.extents[0])

    def next_round(self, depth: int) -> int:
        """Return the depth at which each dimension of a sub-space of `depth` bits is halved once more."""
        return next((k for k in range(depth + 1, self.depth) if self.turns[k] == self.turns[depth]), self.depth)

    def last_round(self, depth: int) -> int:
        """Return the depth at which each dimension of a sub-space of `depth` bits was halved once less."""
        back = range(depth - 2, -1, -1)
        return next((k + 1 for k in back if self.turns[k] == self.turns[depth - 1]), 0)


@lru_cache(maxsize=32)
def grid_of(bits: tuple[int, ...], depth: int) -> Grid:
    """Return the grid of dimensions with these maximum halvings, down to `depth` halvings in all."""
    rounds = range(max(bits))
    turns = tuple(i for level in rounds for i, most in enumerate(bits) if level < most)[:depth]
    extent = [1 << turns.count(i) for i in range(len(bits))]
    extents = [tuple(extent)]
    for turn in turns:
        extent[turn] >>= 1
        extents.append(tuple(extent))
    return Grid(depth, turns, tuple(extents))


@dataclass(frozen=True, slots=True)
class CellBox:
    """One box of a filter: a side in each dimension, in cells of the grid. None of its sides is empty."""

    sides: tuple[Side, ...]

    def count(self, grid: Grid) -> int:
        """Return the number of dz-expressions that map it exactly, without computing them.

        A sub-space is in the exact mapping if it lies inside the box and its parent does not. The number inside, at
        each depth, is the product over the dimensions. Each sub-space inside has two children that are inside.
        """
        inside = [
            prod(side.blocks_inside(size) for side, size in zip(self.sides, extent, strict=True))
            for extent in grid.extents
        ]
        return inside[-1] - sum(inside[:-1])

    def volume(self) -> int:
        """Return the volume in finest cells of the grid."""
        return prod(sum(end - first for first, end in side.runs) for side in self.sides)

    def wildcards(self, grid: Grid) -> Iterable[str]:
        """Map the box with wildcards (thesis 2.6): a `*` wherever the box fills the sub-space in the dimension to
        divide.

        The recursion of the thesis yields every combination of one piece from each dimension's own tree.
        """
        padded = (
            [piece.ljust(bits, "*") for piece in side.pieces(bits)]
            for side, bits in zip(self.sides, grid.bits, strict=True)
        )
        return (interleave(pieces).rstrip("*") for pieces in product(*padded))

    def wildcards_count(self, grid: Grid) -> int:
        """Return the number of dz-expressions that `wildcards` yields."""
        return prod(len(side.pieces(bits)) for side, bits in zip(self.sides, grid.bits, strict=True))


Reaching: TypeAlias = tuple[CellBox, int]
"""A box that intersects a sub-space, and as a bit set the dimensions in which it does not fill it."""


@dataclass(frozen=True, slots=True)
class SubSpace:
    """A node of the tree, as a `Node` of coarsening. Make the root with `SubSpace.root`."""

    grid: Grid
    dz: str
    corner: tuple[int, ...]
    reaching: tuple[Reaching, ...]

    @classmethod
    def root(cls, grid: Grid, boxes: Iterable[CellBox]) -> SubSpace:
        """Return the whole event space. At least one box is needed."""
        reaching = tuple((box, _cut(box, grid)) for box in boxes)
        assert reaching, "a filter that matches nothing has no sub-space"
        return cls(grid, "", (0,) * len(grid.bits), reaching)

    @property
    def whole(self) -> bool:
        return any(not cut for _, cut in self.reaching)

    @property
    def false_volume(self) -> int:
        """Measured against the fullest box alone, so an upper bound if several boxes fill the sub-space together."""
        extent = self.grid.extents[len(self.dz)]
        ends = tuple(first + size for first, size in zip(self.corner, extent, strict=True))
        fullest = max(
            prod(side.common(a, b) for side, a, b in zip(box.sides, self.corner, ends, strict=True))
            for box, _ in self.reaching
        )
        return prod(extent) - fullest

    def halves(self) -> tuple[SubSpace, ...]:
        return tuple(half for half in (self.half(0), self.half(1)) if half.reaching)

    def half(self, bit: int) -> SubSpace:
        """Return the lower or upper half, even if no box intersects it."""
        turn = self.grid.turns[len(self.dz)]
        size = self.grid.extents[len(self.dz) + 1][turn]
        first = self.corner[turn] + bit * size
        corner = (*self.corner[:turn], first, *self.corner[turn + 1 :])
        narrowed = (_narrowed(pair, turn, first, first + size) for pair in self.reaching)
        return SubSpace(self.grid, f"{self.dz}{bit}", corner, tuple(pair for pair in narrowed if pair))


def _cut(box: CellBox, grid: Grid) -> int:
    sides = enumerate(zip(box.sides, grid.extents[0], strict=True))
    return sum(1 << i for i, (side, size) in sides if side.reach(0, size) is not Reach.INSIDE)


def _narrowed(pair: Reaching, turn: int, first: int, end: int) -> Reaching | None:
    box, cut = pair
    if not cut >> turn & 1:
        return pair
    reach = box.sides[turn].reach(first, end)
    if reach is Reach.OUTSIDE:
        return None
    return (box, cut & ~(1 << turn)) if reach is Reach.INSIDE else pair
