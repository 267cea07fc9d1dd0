"""Filters as boxes: each conjunction of the normal form is one box, each constraint a range of one attribute.

A constraint that intervals cannot express (suffixes, infixes, very many holes) becomes a wider range, so a mapping
never misses an event. The result tells whether that happened.
"""

from __future__ import annotations

from typing import Final

from .. import filters
from ..filters import Filter, ValueSet
from .boxes import ANY, AllOf, AnyOf, Box, Interval, ValueRange

HOLES_MAX: Final = 16
"""Excluded values that one constraint cuts out; each may double the sub-spaces of a mapping."""


def boxes_of(filter: Filter) -> tuple[list[Box], bool]:
    """Return the boxes of a filter, and whether they match exactly the same events."""
    boxes: list[Box] = []
    exact = True
    for conjunction in filter.normal:
        box: dict[str, ValueRange] = {}
        for attr, constraint in conjunction.items():
            box[attr], constraint_exact = _allowed(constraint)
            exact = exact and constraint_exact
        boxes.append(box)
    return boxes, exact


def _allowed(constraint: filters.Constraint) -> tuple[ValueRange, bool]:
    if constraint.others and constraint.bools and constraint.numbers and constraint.texts:
        return ANY, True  # has(x): every event of a space has all of its attributes
    parts: list[ValueRange] = [Interval.point(flag) for flag in sorted(constraint.bools)]
    exact = True
    for span in (constraint.numbers, constraint.texts):
        if span is not None:
            part, part_exact = _of_span(span)
            parts.append(part)
            exact = exact and part_exact
    return (parts[0] if len(parts) == 1 else AnyOf(tuple(parts))), exact


def _of_span(span: ValueSet) -> tuple[ValueRange, bool]:
    if span.points is not None:
        points = tuple(Interval.point(point) for point in sorted(span.points))
        return (points[0] if len(points) == 1 else AnyOf(points)), True
    exact = not span.shapes and len(span.holes) <= HOLES_MAX
    parts: list[ValueRange] = [_between(span)]
    if len(span.holes) <= HOLES_MAX:
        parts += [
            AnyOf((Interval(hi=hole, hi_open=True), Interval(lo=hole, lo_open=True))) for hole in sorted(span.holes)
        ]
    return (parts[0] if len(parts) == 1 else AllOf(tuple(parts))), exact


def _between(span: ValueSet) -> Interval:
    if span.low is None and span.high is None:
        return ANY
    return Interval(span.low, span.high, span.low_open, span.high_open)
