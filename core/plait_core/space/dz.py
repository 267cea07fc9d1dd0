"""Dz-expressions: bit strings that name the sub-spaces made by halving the dimensions in turn (thesis 2.3.1).

The empty string is the whole event space; each further bit keeps the lower (0) or upper (1) half of the next dimension.
So a prefix covers all of its extensions. The wildcard `*` keeps both halves (thesis 2.6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from ..errors import SpaceInvalid
from ..limits import DZ_BITS_MAX
from .dz_text import sibling_text


@dataclass(frozen=True, slots=True, order=True)
class Dz:
    """One dz-expression. `text` is its form on the wire; `str` writes ε for the empty one, for people.

    Two are equal if their texts are. `0` and `0*` name the same points and are not equal; compare points with `DzSet`.
    They sort by text, so a prefix comes directly before its extensions.
    """

    text: str = ""

    def __post_init__(self) -> None:
        if type(self.text) is not str or self.text.strip("01*"):
            raise SpaceInvalid(f"{str(self.text)[:80]!r} is no dz-expression", hint="0, 1 and * only")
        if len(self.text) > DZ_BITS_MAX:
            raise SpaceInvalid(f"a dz-expression of {len(self.text)} bits, and {DZ_BITS_MAX} (DZ_BITS_MAX) are allowed")

    def __str__(self) -> str:
        return self.text or "ε"

    @property
    def depth(self) -> int:
        """Number of halvings of the event space."""
        return len(self.text)

    @property
    def plain(self) -> bool:
        """True if it has no wildcard."""
        return "*" not in self.text

    @property
    def volume(self) -> Fraction:
        """Its share of the event space."""
        return Fraction(1, 1 << (len(self.text) - self.text.count("*")))

    def covers(self, other: Dz) -> bool:
        """Return whether this sub-space contains every point of `other`: the thesis' `other ≺ self`."""
        if self.plain:
            return other.text.startswith(self.text)
        beyond = self.text[len(other.text) :]
        return not beyond.strip("*") and all(a in ("*", b) for a, b in zip(self.text, other.text, strict=False))

    def overlaps(self, other: Dz) -> bool:
        """Return whether the two share a point. Without wildcards: whether one covers the other."""
        return all(a == b or a == "*" or b == "*" for a, b in zip(self.text, other.text, strict=False))

    def parent(self) -> Dz:
        """Return the sub-space whose half this is."""
        if not self.text:
            raise SpaceInvalid("the whole event space has no parent")
        return Dz(self.text[:-1])

    def children(self) -> tuple[Dz, Dz]:
        """Return its lower and its upper half."""
        return Dz(self.text + "0"), Dz(self.text + "1")

    def sibling(self) -> Dz:
        """Return the other half of its parent."""
        if self.text[-1:] not in ("0", "1"):
            raise SpaceInvalid(f"{self} has no sibling", hint="only a half of something has one")
        return Dz(sibling_text(self.text))

    def prefixes(self) -> Iterator[Dz]:
        """Yield all prefixes, from ε to itself: depth + 1 of them, the credentials that it matches (5.4.1)."""
        return (Dz(self.text[:end]) for end in range(len(self.text) + 1))

    def merged(self, other: Dz) -> Dz | None:
        """Return one dz-expression for both if they differ in a single place (thesis 2.6), else None."""
        if len(self.text) != len(other.text):
            return None
        places = [k for k, (a, b) in enumerate(zip(self.text, other.text, strict=True)) if a != b]
        if len(places) != 1 or "*" in (self.text[places[0]], other.text[places[0]]):
            return None
        return Dz(f"{self.text[: places[0]]}*{self.text[places[0] + 1 :]}")


WHOLE = Dz("")
"""The undivided event space, ε."""
