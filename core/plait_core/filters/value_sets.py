r"""Sets of comparable values of one kind: an interval with holes, or a finite set of points.

Numbers and texts are both treated as dense orders. So an interval may count as inhabited although no value lies in it
(between 'a' and 'a\\0'); every relation then errs on its safe side. A text prefix is an interval: [p, p with its last
character raised). Text tests that are no interval (suffix, infix, like) are kept as `shapes`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from .ast import Text
from .like import LikePattern

Point: TypeAlias = int | float | str
Shape: TypeAlias = tuple[str, str, bool]
"""A text operator, its text, and whether it is negated."""

NO_POINTS: frozenset[Point] = frozenset()


class ValueSet(NamedTuple):
    """Values v with low <= v <= high, without the holes, of all shapes. An open end is excluded; a None end is no
    bound.

    If `points` is set, the set is exactly those points, and bounds, holes and shapes are unused.
    """

    low: Point | None = None
    high: Point | None = None
    low_open: bool = False
    high_open: bool = False
    points: frozenset[Point] | None = None
    holes: frozenset[Point] = NO_POINTS
    shapes: frozenset[Shape] = frozenset()

    def accepts(self, value: Point) -> bool:
        """Return whether a value of this set's kind lies in it."""
        if self.points is not None:
            return value in self.points
        low, high = self.low, self.high
        if low is not None and (value <= low if self.low_open else value < low):  # type: ignore[operator]
            return False
        if high is not None and (value >= high if self.high_open else value > high):  # type: ignore[operator]
            return False
        return value not in self.holes and all(_has_shape(shape, value) for shape in self.shapes)

    def intersect(self, other: ValueSet) -> ValueSet | None:
        """Return the intersection, or None if it is certainly empty."""
        if self.points is not None or other.points is not None:
            few, many = (self, other) if self.points is not None else (other, self)
            assert few.points is not None
            kept = frozenset(point for point in few.points if many.accepts(point))
            return ValueSet(points=kept) if kept else None
        low, low_open = _higher(self.low, self.low_open, other.low, other.low_open)
        high, high_open = _lower(self.high, self.high_open, other.high, other.high_open)
        holes = self.holes | other.holes if self.holes or other.holes else NO_POINTS
        shapes = self.shapes | other.shapes
        if low is not None and high is not None and low >= high:  # type: ignore[operator]
            alone = ValueSet(holes=holes, shapes=shapes)
            if low == high and not low_open and not high_open and alone.accepts(low):
                return ValueSet(points=frozenset((low,)))
            return None
        if self.shapes and other.shapes and _contradict(self.shapes, other.shapes):
            return None
        return ValueSet(low, high, low_open, high_open, None, holes, shapes)

    def includes(self, other: ValueSet) -> bool:
        """Return whether every value of `other` lies here. Return False if that cannot be decided cheaply."""
        if other.points is not None:
            return all(self.accepts(point) for point in other.points)
        if self.points is not None:
            return False
        if self.low is not None and not _bounded(self.low, self.low_open, other.low, other.low_open, 1):
            return False
        if self.high is not None and not _bounded(self.high, self.high_open, other.high, other.high_open, -1):
            return False
        if any(other.accepts(hole) for hole in self.holes):
            return False
        return all(_implied(shape, other) for shape in self.shapes)


def prefix_set(prefix: str) -> ValueSet:
    """Return the set of texts that start with `prefix`."""
    return ValueSet(low=prefix, high=_after_prefix(prefix), high_open=True)


def _after_prefix(prefix: str) -> str | None:
    """Return the least text above all that start with `prefix`, or None if there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    code = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if code == 0xD800 else code)  # surrogates are not characters


def _higher(a: Point | None, a_open: bool, b: Point | None, b_open: bool) -> tuple[Point | None, bool]:
    if a is None or b is None:
        return (b, b_open) if a is None else (a, a_open)
    if a == b:
        return a, a_open or b_open
    return (a, a_open) if a > b else (b, b_open)  # type: ignore[operator]


def _lower(a: Point | None, a_open: bool, b: Point | None, b_open: bool) -> tuple[Point | None, bool]:
    if a is None or b is None:
        return (b, b_open) if a is None else (a, a_open)
    if a == b:
        return a, a_open or b_open
    return (a, a_open) if a < b else (b, b_open)  # type: ignore[operator]


def _bounded(bound: Point, is_open: bool, inner: Point | None, inner_open: bool, sign: int) -> bool:
    """Return whether the inner set's end lies inside the outer `bound` (sign 1: the low end, -1: the high end)."""
    if inner is None:
        return False
    if inner == bound:
        return inner_open or not is_open
    return (inner > bound) is (sign > 0)  # type: ignore[operator]


@lru_cache(maxsize=1024)
def _like_pattern(pattern: str) -> LikePattern:
    return LikePattern(pattern)


def _has_shape(shape: Shape, value: Point) -> bool:
    op, text, negated = shape
    if not isinstance(value, str):
        return False
    if op == "startswith":
        found = value.startswith(text)
    elif op == "endswith":
        found = value.endswith(text)
    elif op == "contains":
        found = text in value
    else:
        found = _like_pattern(text).matches(value)
    return found is not negated


def _contradict(some: frozenset[Shape], more: frozenset[Shape]) -> bool:
    """Return whether a shape of one set excludes a shape of the other: its negation, or an incompatible suffix."""
    few, many = (some, more) if len(some) <= len(more) else (more, some)
    for op, text, negated in few:
        if (op, text, not negated) in many:
            return True
        if op == "endswith" and not negated:
            suffixes = (other for o, other, n in many if o == op and not n)
            if any(not text.endswith(other) and not other.endswith(text) for other in suffixes):
                return True
    return False


def _implied(shape: Shape, span: ValueSet) -> bool:
    """Return whether every text in `span` certainly has `shape`."""
    op, text, negated = shape
    if shape in span.shapes:
        return True
    if negated:
        if (
            op == "startswith"
            and prefix_set(text).intersect(ValueSet(span.low, span.high, span.low_open, span.high_open)) is None
        ):
            return True
        return any(n and o == op and _inside(op, t, text) for o, t, n in span.shapes)
    if op == "endswith":
        return any(not n and o == "endswith" and t.endswith(text) for o, t, n in span.shapes)
    if op == "contains":
        known = [t for o, t, n in span.shapes if not n and o in ("contains", "endswith")]
        return any(text in t for t in [*known, _common_prefix(span)])
    return False


def _inside(op: str, shorter: str, longer: str) -> bool:
    """Return whether a text without `shorter` is certainly without `longer`."""
    if op == "startswith":
        return longer.startswith(shorter)
    return longer.endswith(shorter) if op == "endswith" else op == "contains" and shorter in longer


def _common_prefix(span: ValueSet) -> str:
    """Return a text that every text of the set starts with."""
    low, high = span.low, span.high
    if not isinstance(low, str) or not isinstance(high, str):
        return ""
    same = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    longer = low[: same + 1]
    return longer if prefix_set(longer).includes(ValueSet(low, high, span.low_open, span.high_open)) else low[:same]


def text_set(atom: Text) -> ValueSet:
    """Return the value set of a text atom."""
    if atom.text == "" and atom.op != "like":  # every text starts with, ends with and contains the empty text
        return ValueSet()
    if atom.op == "startswith" and not atom.negated:
        return prefix_set(atom.text)
    return ValueSet(shapes=frozenset({(atom.op, atom.text, atom.negated)}))
