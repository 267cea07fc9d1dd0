"""Numbers (thesis 5.4.1, third possibility): each attribute's domain is halved by itself, down to its granularity.

A credential is a dz-expression on that tree. A value of depth n matches n + 1; a range of 2**n cells needs at most
2n - 2. All values without absence are the two halves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from plait_core import SpaceInvalid
from plait_core.filters import Constraint, ValueSet
from plait_core.space import AllOf, AnyOf, FloatRange, Interval, IntRange
from plait_core.space.domains import side_of
from plait_core.space.dz_text import bits_text

from ..errors import SealInvalid
from ..limits import HOLES_MAX, NUMBER_BITS_MAX
from .credentials import ABSENT, WHOLE, Credential, absent_path, too_wide


@dataclass(frozen=True, slots=True)
class Numbers:
    """A number from a domain of the event space."""

    domain: IntRange | FloatRange
    type_name: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        if not 1 <= self.domain.bits <= NUMBER_BITS_MAX:
            raise SealInvalid(
                f"numbers of {self.domain.bits} bits",
                hint=f"1 to {NUMBER_BITS_MAX} (NUMBER_BITS_MAX); two values at least",
            )

    @property
    def places(self) -> int:
        return self.domain.bits + 1

    def leaf(self, value: object) -> object:
        return None if value is None else self._cell(value)

    def path(self, value: object) -> tuple[bytes, ...]:
        if value is None:
            return absent_path(self.places)
        return prefixes(bits_text(self._cell(value), self.domain.bits))

    def cover(self, constraint: Constraint, widen: bool) -> tuple[Credential, ...]:
        if constraint.numbers is None:
            return (ABSENT,) if constraint.absent else ()
        side = side_of(self.domain, _allowed(constraint.numbers, widen))
        if not side.exact and not widen:
            raise too_wide("a range that ends within a cell", f"end it where a cell of {self.domain!r} does")
        pieces = side.pieces(self.domain.bits)
        if constraint.absent and pieces == [""]:
            return (WHOLE,)
        found = [dz_credential(text) for piece in pieces for text in ([piece] if piece else ["0", "1"])]
        return (ABSENT, *found) if constraint.absent else tuple(found)

    def wider(self, credential: Credential, levels: int) -> Credential:
        return wider_dz(credential, levels)

    def fields(self) -> Mapping[str, object]:
        return {"domain": self.domain.type_name, **self.domain.fields()}

    def _cell(self, value: object) -> int:
        try:
            return self.domain.cell(value)
        except SpaceInvalid as error:
            raise SealInvalid(error.message, hint=error.hint) from None


def dz_credential(text: str) -> Credential:
    """Return the credential of a dz-expression on one attribute's own tree."""
    return Credential(len(text), b"dz" + text.encode()) if text else WHOLE


def wider_dz(credential: Credential, levels: int) -> Credential:
    """Return the credential of a dz-expression that is shorter by this many bits."""
    if credential == ABSENT or credential.place <= levels:
        return WHOLE
    return Credential(credential.place - levels, credential.label[:-levels])


def prefixes(text: str) -> tuple[bytes, ...]:
    """Return the labels of the dz-expressions that cover the leaf `text`."""
    return tuple(dz_credential(text[:end]).label for end in range(len(text) + 1))


def _allowed(span: ValueSet, widen: bool) -> Interval | AllOf | AnyOf:
    if span.points is not None:
        return AnyOf(tuple(Interval.point(point) for point in sorted(span.points)))
    holes = sorted(span.holes)
    if len(holes) > HOLES_MAX:
        if not widen:
            raise too_wide(f"a range with {len(holes)} holes", f"{HOLES_MAX} (HOLES_MAX) are allowed")
        holes = []
    cuts = [AnyOf((Interval(hi=hole, hi_open=True), Interval(lo=hole, lo_open=True))) for hole in holes]
    return AllOf((Interval(span.low, span.high, span.low_open, span.high_open), *cuts))
