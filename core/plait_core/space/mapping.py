"""Map filters to dz-expressions: exactly, coarsely, with wildcards (thesis 2.3.1, 2.5.1, 2.6).

    region = Region.of(schema, [{"pressure": Interval(25, 50, hi_open=True)}])
    region.exact()           the fewest dz-expressions that make up its cells, refused beyond DZ_SET_MAX
    region.at_most(4)        at most four that cover it (Algorithm 4)
    region.wildcards()       its cells again, in fewer dz-expressions with `*`

For an event in a box, each of these mappings covers its `schema.locate`, at any depth. So no mapping ever loses an
event; a shorter mapping only includes more events outside the boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ..errors import SpaceInvalid
from ..limits import CONJUNCTIONS_MAX, DZ_SET_MAX
from .boxes import ANY, Box
from .cells import Side
from .coarsening import Strategy, cover
from .domains import side_of
from .dz import Dz
from .dzset import DzSet
from .grid import CellBox, Grid, SubSpace, grid_of
from .schema import Schema


@dataclass(frozen=True, slots=True)
class Region:
    """A filter as a union of boxes of cells, down to one depth of the tree."""

    grid: Grid
    boxes: tuple[CellBox, ...]
    faithful: bool
    """True if an event lies in its cells only if it lies in a box.

    False if a box has attributes that the schema lacks, or ends within a cell. Receivers by dz-expressions must then
    still filter.
    """

    @classmethod
    def of(cls, schema: Schema, boxes: Sequence[Box], depth: int | None = None) -> Region:
        """Return the cells of `depth` bits, by default the finest, that the boxes intersect."""
        if len(boxes) > CONJUNCTIONS_MAX:
            raise SpaceInvalid(f"{len(boxes)} boxes, and {CONJUNCTIONS_MAX} (CONJUNCTIONS_MAX) are allowed")
        grid = grid_of(tuple(domain.bits for domain in schema.domains), schema.check_depth(depth))
        sides = [_sides(schema, box, grid) for box in boxes]
        kept = [(each, box) for each, box in zip(sides, boxes, strict=True) if all(side.runs for side in each)]
        exact = all(side.exact for each, _ in kept for side in each)
        known = all(name in schema.names for _, box in kept for name in box)
        return cls(grid, tuple(CellBox(each) for each, _ in kept), exact and known)

    def count(self) -> int:
        """Return the fewest dz-expressions that make up its cells.

        Raise SpaceInvalid, before any work, if they may be too many.
        """
        return sum(box.count(self.grid) for box in self.boxes)

    def exact(self, set_max: int = DZ_SET_MAX) -> DzSet:
        """Return the fewest dz-expressions that make up its cells; raise SpaceInvalid, before any work, if they may be
        too many.
        """
        _check_count(self.count(), set_max, "at_most(theta), wildcards() or a mapping of less depth")
        done: list[str] = []
        nodes = [self._root()] if self.boxes else []
        while nodes:
            node = nodes.pop()
            if node.whole:
                done.append(node.dz)
            else:
                nodes.extend(node.halves())
        return DzSet.of(done, set_max)

    def at_most(self, theta: int, strategy: Strategy = Strategy.LEAST_FALSE) -> DzSet:
        """Return at most `theta` dz-expressions that cover it, computed without the exact mapping (thesis 2.5.1)."""
        return DzSet.of(cover(self._root(), theta, strategy)) if self.boxes else DzSet()

    def wildcards(self, set_max: int = DZ_SET_MAX) -> tuple[Dz, ...]:
        """Return its cells, in order, in dz-expressions with `*` (thesis 2.6). Those of different boxes may overlap."""
        _check_count(sum(box.wildcards_count(self.grid) for box in self.boxes), set_max, "a mapping of less depth")
        return tuple(sorted({Dz(text) for box in self.boxes for text in box.wildcards(self.grid)}))

    def finer(self, dz: Dz) -> DzSet:
        """Return the part of `dz` in the region, after each dimension is halved once more: DZ+1 of thesis 2.5.1."""
        found = self._below(dz)
        if found is None:
            return DzSet()
        end = self.grid.next_round(dz.depth) if dz.depth < self.grid.depth else dz.depth
        nodes = [found]
        done: list[str] = []
        while nodes:
            node = nodes.pop()
            if node.whole or len(node.dz) >= end:
                done.append(node.dz)
            else:
                nodes.extend(node.halves())
            _check_count(len(done), DZ_SET_MAX, "wildcards()")
        return DzSet.of(done)

    def coarser(self, dz: Dz) -> Dz:
        """Return the sub-space around `dz` in which each dimension is halved once less: DZ-1 of thesis 2.5.1."""
        return Dz(dz.text[: self.grid.last_round(dz.depth)]) if dz.depth else dz

    def volume(self) -> Fraction:
        """Return its share of the event space."""
        if len(self.boxes) == 1:
            return Fraction(self.boxes[0].volume(), 1 << self.grid.depth)
        return self.exact().volume

    def false_volume(self, approximation: DzSet) -> Fraction:
        """Return the share of the event space that a covering approximation adds to the region."""
        return approximation.volume - self.volume()

    def _root(self) -> SubSpace:
        return SubSpace.root(self.grid, self.boxes)

    def _below(self, dz: Dz) -> SubSpace | None:
        """Return the node of `dz`, or None if the region does not intersect it."""
        if not dz.plain or dz.depth > self.grid.depth:
            raise SpaceInvalid(f"{dz} is no sub-space of this tree", hint=f"0 and 1 only, up to {self.grid.depth} bits")
        if not self.boxes:
            return None
        node = self._root()
        for bit in dz.text:
            node = node.half(int(bit))
        return node if node.reaching else None


def _sides(schema: Schema, box: Box, grid: Grid) -> tuple[Side, ...]:
    """Return the cells that a box allows in each dimension.

    Attributes outside the schema are ignored, so the box widens.
    """
    pairs = zip(schema.names, schema.domains, grid.bits, strict=True)
    return tuple(side_of(domain, box.get(name, ANY)).coarsened(domain.bits - bits) for name, domain, bits in pairs)


def _check_count(count: int, set_max: int, hint: str) -> None:
    if count > set_max:
        shown = str(count) if count < 10**9 else f"over 2^{count.bit_length() - 1}"
        raise SpaceInvalid(
            f"a mapping into {shown} dz-expressions, and {set_max} (DZ_SET_MAX) are allowed",
            hint=hint,
        )
