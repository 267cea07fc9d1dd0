"""Filters as boxes: each conjunction of the normal form is one box, each constraint what it allows of one attribute.

What no interval can say (suffixes, infixes, very many holes) is let in, so a mapping never misses an event; whether
anything was let in is told beside.
"""

from __future__ import annotations

from typing import Final

from .. import filters
from ..filters import Filter, ValueSet
from .boxes import ANY, AllOf, AnyOf, Box, Constraint, Interval

HOLES_MAX: Final = 16
"""Excluded values that one constraint cuts out; each may double the sub-spaces of a mapping."""


def boxes_of(filter: Filter) -> tuple[list[Box], bool]:
    """The boxes of a filter, and whether they say exactly what the filter says."""
    boxes: list[Box] = []
    exact = True
    for conjunction in filter.normal:
        box: dict[str, Constraint] = {}
        for attr, constraint in conjunction.items():
            box[attr], told = _allowed(constraint)
            exact = exact and told
        boxes.append(box)
    return boxes, exact


def _allowed(constraint: filters.Constraint) -> tuple[Constraint, bool]:
    if constraint.others and constraint.bools and constraint.numbers and constraint.texts:
        return ANY, True  # has(x): every event of a space has all of its attributes
    parts: list[Constraint] = [Interval.point(flag) for flag in sorted(constraint.bools)]
    exact = True
    for span in (constraint.numbers, constraint.texts):
        if span is not None:
            part, told = _of_span(span)
            parts.append(part)
            exact = exact and told
    return (parts[0] if len(parts) == 1 else AnyOf(tuple(parts))), exact


def _of_span(span: ValueSet) -> tuple[Constraint, bool]:
    if span.points is not None:
        points = tuple(Interval.point(point) for point in sorted(span.points))
        return (points[0] if len(points) == 1 else AnyOf(points)), True
    exact = not span.shapes and len(span.holes) <= HOLES_MAX
    parts: list[Constraint] = [_between(span)]
    if len(span.holes) <= HOLES_MAX:
        parts += [
            AnyOf((Interval(hi=hole, hi_open=True), Interval(lo=hole, lo_open=True))) for hole in sorted(span.holes)
        ]
    return (parts[0] if len(parts) == 1 else AllOf(tuple(parts))), exact


def _between(span: ValueSet) -> Interval:
    if span.low is None and span.high is None:
        return ANY
    return Interval(span.low, span.high, span.low_open, span.high_open)
