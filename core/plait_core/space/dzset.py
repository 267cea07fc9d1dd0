"""Sets of dz-expressions in canonical form: the peer-level subscription DZ(p) of thesis 2.3.1.

No member covers another and no two are siblings, so two sets of the same points are always equal. Members are sorted by
text, which is the order of the sub-spaces along the Z-curve.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from operator import attrgetter

from ..errors import SpaceInvalid
from ..limits import DZ_SET_MAX
from .coarsening import Strategy, cover
from .dz import Dz
from .dz_text import canonical

_text = attrgetter("text")


@dataclass(frozen=True, slots=True)
class DzSet:
    """A canonical set of plain dz-expressions. Make one with `DzSet.of`; the constructor trusts its argument."""

    members: tuple[Dz, ...] = ()

    @classmethod
    def of(cls, given: Iterable[Dz | str], set_max: int = DZ_SET_MAX) -> DzSet:
        """Return the canonical set of all points of `given`. Wildcards are expanded, as far as `set_max` allows."""
        texts: list[str] = []
        for dz in given:
            texts.extend(_spelt_out(dz if isinstance(dz, Dz) else Dz(dz), set_max))
        members = tuple(map(Dz, canonical(texts)))
        if len(members) > set_max:
            raise SpaceInvalid(f"{len(members)} dz-expressions, and {set_max} (DZ_SET_MAX) are allowed")
        return cls(members)

    def __iter__(self) -> Iterator[Dz]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.members)) + "}"

    @property
    def volume(self) -> Fraction:
        """Its share of the event space."""
        return sum((dz.volume for dz in self.members), Fraction(0))

    def covers(self, other: Dz | DzSet) -> bool:
        """Return whether this set contains every point of `other`.

        For the dz of an event: whether it contains the event.
        """
        if isinstance(other, Dz):
            return self._covers_plain(other) if other.plain else self.covers(DzSet.of([other]))
        return all(map(self._covers_plain, other.members))

    def overlaps(self, other: Dz | DzSet) -> bool:
        """Return whether the two share a point."""
        if isinstance(other, DzSet):
            few, many = sorted((self, other), key=len)
            return any(map(many._overlaps_plain, few.members))
        return self._overlaps_plain(other) if other.plain else any(dz.overlaps(other) for dz in self.members)

    def union(self, *others: DzSet) -> DzSet:
        """Return the points of any of the sets."""
        return DzSet.of(dz for each in (self, *others) for dz in each.members)

    def intersection(self, other: DzSet) -> DzSet:
        """Return the points of both sets."""
        ours = [dz for dz in self.members if other._covers_plain(dz)]
        theirs = [dz for dz in other.members if self._covers_plain(dz)]
        return DzSet.of(ours + theirs)

    def difference(self, other: DzSet, set_max: int = DZ_SET_MAX) -> DzSet:
        """Return the points of this set that are not in `other`."""
        kept: list[Dz] = []
        rest = list(self.members)
        while rest:
            dz = rest.pop()
            if not other._overlaps_plain(dz):
                kept.append(dz)
            elif not other._covers_plain(dz):
                rest.extend(dz.children())
            if len(kept) > set_max:
                raise SpaceInvalid(f"a difference of over {set_max} (DZ_SET_MAX) dz-expressions")
        return DzSet.of(kept)

    def at_most(self, theta: int, strategy: Strategy = Strategy.LEAST_FALSE) -> DzSet:
        """Return whether a member covers `dz`. Such a member is the last one up to `dz` in order."""
        if len(self.members) <= theta:
            return self
        return DzSet.of(cover(_Slice.of(self), theta, strategy))

    def _covers_plain(self, dz: Dz) -> bool:
        """Return whether a member covers `dz`. Such a member is the last one up to `dz` in sorted order."""
        place = bisect_right(self.members, dz.text, key=_text)
        return place > 0 and dz.text.startswith(self.members[place - 1].text)

    def _overlaps_plain(self, dz: Dz) -> bool:
        place = bisect_left(self.members, dz.text, key=_text)
        within = place < len(self.members) and self.members[place].text.startswith(dz.text)
        return within or self._covers_plain(dz)


def _spelt_out(dz: Dz, set_max: int) -> list[str]:
    """Expand the wildcards of a dz-expression. Trailing wildcards need no expansion."""
    text = dz.text.rstrip("*")
    wild = text.count("*")
    if wild >= set_max.bit_length():
        raise SpaceInvalid(
            f"{wild} wildcards stand for 2^{wild} dz-expressions, and {set_max} (DZ_SET_MAX) are allowed",
            hint="keep the wildcards, or map with less depth",
        )
    first, *others = text.split("*")
    texts = [first]
    for part in others:
        texts = [f"{before}{bit}{part}" for before in texts for bit in "01"]
    return texts


@dataclass(frozen=True, slots=True)
class _Slice:
    """The members of a set below one node of the tree, as a `Node` of coarsening."""

    texts: list[str]
    filled: list[int]
    """filled[i]: finest cells in the first i members."""
    depth: int
    first: int
    end: int
    dz: str = ""

    @classmethod
    def of(cls, whole: DzSet) -> _Slice:
        texts = [dz.text for dz in whole.members]
        depth = max(map(len, texts))
        filled = list(accumulate((1 << (depth - len(text)) for text in texts), initial=0))
        return cls(texts, filled, depth, 0, len(texts))

    @property
    def whole(self) -> bool:
        return self.texts[self.first] == self.dz

    @property
    def false_volume(self) -> int:
        return (1 << (self.depth - len(self.dz))) - (self.filled[self.end] - self.filled[self.first])

    def halves(self) -> tuple[_Slice, ...]:
        middle = bisect_left(self.texts, self.dz + "1", self.first, self.end)
        spans = ((self.first, middle, "0"), (middle, self.end, "1"))
        return tuple(
            _Slice(self.texts, self.filled, self.depth, first, end, self.dz + bit)
            for first, end, bit in spans
            if first < end
        )
