"""The constraint of a conjunction on one attribute: the set of satisfying states, one value set per kind of value.

The states of an attribute are: absent (missing or null), a number, a text, a boolean, or a value that no atom compares
(NaN, a list). Sets of states can be intersected, compared for inclusion and tested for emptiness. Indexing, covering
and intersection need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..values import Literal, Value, ValueKind, kind_of
from .ast import Atom, Compare, Flag, Member, Presence, Text
from .value_sets import NO_POINTS, Point, ValueSet, text_set

FULL = ValueSet()
BOTH = frozenset((False, True))
NEITHER: frozenset[bool] = frozenset()


class Constraint(NamedTuple):
    """A set of states of one attribute. A kind whose part is None (or empty) is excluded."""

    numbers: ValueSet | None = None
    texts: ValueSet | None = None
    bools: frozenset[bool] = NEITHER
    others: bool = False
    absent: bool = False

    def accepts(self, value: Value) -> bool:
        """Return whether an attribute with this value (None: absent) satisfies the constraint."""
        if value is None:
            return self.absent
        kind = kind_of(value)
        if kind is None:
            return self.others
        if kind is ValueKind.BOOL:
            return value in self.bools
        span = self.numbers if kind is ValueKind.NUMBER else self.texts
        return span is not None and span.accepts(value)  # type: ignore[arg-type]

    def intersect(self, other: Constraint) -> Constraint | None:
        """Return the states in both, or None if there are certainly none."""
        numbers, texts, bools, others, absent = self
        numbers = numbers.intersect(other.numbers) if numbers and other.numbers else None
        texts = texts.intersect(other.texts) if texts and other.texts else None
        bools = bools & other.bools if bools and other.bools else NEITHER
        others = others and other.others
        absent = absent and other.absent
        if numbers is None and texts is None and not (bools or others or absent):
            return None
        return Constraint(numbers, texts, bools, others, absent)

    def includes(self, other: Constraint) -> bool:
        """Return whether this contains every state of `other`. Return False if that cannot be decided cheaply."""
        if (other.absent and not self.absent) or (other.others and not self.others):
            return False
        if not other.bools <= self.bools:
            return False
        if other.numbers is not None and (self.numbers is None or not self.numbers.includes(other.numbers)):
            return False
        return other.texts is None or (self.texts is not None and self.texts.includes(other.texts))

    def points(self) -> list[Literal] | None:
        """Return the only values that satisfy, in a fixed order.

        Return None if they are infinitely many or absence satisfies.
        """
        if self.others or self.absent:
            return None
        values: list[Literal] = sorted(self.bools)
        for span in (self.numbers, self.texts):
            if span is not None:
                if span.points is None:
                    return None
                values.extend(sorted(span.points))
        return values


def union_of_points(constraints: Sequence[Constraint]) -> Constraint:
    """Return the states in any of the constraints. All of them are finite sets."""
    return Constraint(
        _merged(constraint.numbers for constraint in constraints),
        _merged(constraint.texts for constraint in constraints),
        NEITHER.union(*(constraint.bools for constraint in constraints)),
    )


PRESENT = Constraint(FULL, FULL, BOTH, True, False)
ABSENT = Constraint(absent=True)


def constraint_of(atom: Atom) -> Constraint | None:
    """Return the states that make an atom true, or None if there are certainly none."""
    if isinstance(atom, Compare):  # most atoms are comparisons, and every subscription pays for its own
        span = _compare_span(atom.op, atom.literal)
        if span is None:
            return None
        return Constraint(None, span) if isinstance(atom.literal, str) else Constraint(span)
    match atom:
        case Text(_, "startswith" | "endswith" | "contains", "", True) | Member(_, (False, True), True):
            return None
        case Flag(_, value):
            return Constraint(bools=frozenset((value,)))
        case Presence(_, present):
            return PRESENT if present else ABSENT
        case Text():
            return Constraint(texts=text_set(atom))
        case Member():
            return _member_constraint(atom)


def _compare_span(op: str, literal: Point) -> ValueSet | None:
    if literal == "":  # no text is below the empty one
        return _LEAST_TEXT[op]
    if op in ("<", "<="):
        return ValueSet(None, literal, False, op == "<")
    if op in (">", ">="):
        return ValueSet(literal, None, op == ">")
    alone = frozenset((literal,))
    return ValueSet(points=alone) if op == "==" else ValueSet(holes=alone)


_EMPTY: frozenset[Point] = frozenset(("",))
_LEAST_TEXT: dict[str, ValueSet | None] = {
    "<": None,
    "<=": ValueSet(points=_EMPTY),
    "==": ValueSet(points=_EMPTY),
    "!=": ValueSet(holes=_EMPTY),
    ">": ValueSet(low="", low_open=True),
    ">=": FULL,
}


def _member_constraint(atom: Member) -> Constraint:
    numbers = _of_kind(atom, ValueKind.NUMBER)
    texts = _of_kind(atom, ValueKind.TEXT)
    bools = frozenset(literal for literal in atom.literals if isinstance(literal, bool))
    if atom.negated:
        return Constraint(
            ValueSet(holes=numbers) if numbers else None,
            ValueSet(holes=texts) if texts else None,
            BOTH - bools if bools else NEITHER,
        )
    return Constraint(ValueSet(points=numbers) if numbers else None, ValueSet(points=texts) if texts else None, bools)


def _of_kind(atom: Member, kind: ValueKind) -> frozenset[Point]:
    return frozenset(literal for literal in atom.literals if kind_of(literal) is kind)


def _merged(spans: Iterable[ValueSet | None]) -> ValueSet | None:
    points = NO_POINTS.union(*(span.points for span in spans if span is not None and span.points is not None))
    return ValueSet(points=points) if points else None
