"""Access by hash: conjunctions filed under one attribute's value, or under an attribute that few conjunctions
constrain.

A conjunction that admits only a few values of some attribute is filed under those values. The attribute with the
shortest posting lists wins, so selective values (a symbol) are preferred to common ones (a side, an exchange).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from typing import TypeAlias

from ..filters import Conjunction
from ..values import Attributes

POINTS_MAX = 8
"""Values that one conjunction may be filed under."""

Bucket: TypeAlias = dict[int, None]
"""Positions, in the order of filing."""

Place: TypeAlias = tuple[str, tuple[Hashable, ...] | None]
"""An attribute with the values to file under, or with None to file under the attribute itself."""


class Postings:
    """Posting lists of positions by attribute and value."""

    def __init__(self) -> None:
        self._by_value: dict[str, dict[Hashable, Bucket]] = {}
        self._by_attr: dict[str, Bucket] = {}

    def place(self, conjunction: Conjunction, columns: Container[str]) -> Place | None:
        """Return the place to file under, or None if only a scan of the table can find the conjunction.

        It is a few values of an attribute, or else an attribute that must be present and that the table has no column
        for, by which it could not exclude.
        """
        best: Place | None = None
        rare: Place | None = None
        least = 0
        for attr, constraint in conjunction.items():
            points = constraint.points()
            if rare is None and not constraint.absent and attr not in columns:
                rare = (attr, None)
            if points is None or len(points) > POINTS_MAX:
                continue
            drawers = self._by_value.get(attr, {})
            crowd = sum(len(drawers.get(point, ())) for point in points)
            if best is None or crowd < least:
                best, least = (attr, tuple(points)), crowd
        return best or rare

    def file(self, at: int, place: Place) -> None:
        """File a position."""
        for drawer in self._buckets(place):
            drawer[at] = None

    def remove(self, at: int, place: Place) -> None:
        """Remove a position, and posting lists that are empty then."""
        attr, points = place
        for drawer in self._buckets(place):
            drawer.pop(at, None)
        if points is None:
            if not self._by_attr[attr]:
                del self._by_attr[attr]
            return
        drawers = self._by_value[attr]
        for point in points:
            if not drawers.get(point, True):
                del drawers[point]
        if not drawers:
            del self._by_value[attr]

    def look_up(self, attributes: Attributes) -> list[Bucket]:
        """Return the posting lists that an event's attributes and values select."""
        found: list[Bucket] = []
        by_value, by_attr = self._by_value, self._by_attr
        for attr, value in attributes.items():
            drawers = by_value.get(attr)
            if drawers is not None and value.__class__ is not list:
                drawer = drawers.get(value)  # type: ignore[arg-type]
                if drawer is not None:
                    found.append(drawer)
            if by_attr:
                drawer = by_attr.get(attr)
                if drawer is not None:
                    found.append(drawer)
        return found

    def _buckets(self, place: Place) -> Iterator[Bucket]:
        attr, points = place
        if points is None:
            yield self._by_attr.setdefault(attr, {})
            return
        drawers = self._by_value.setdefault(attr, {})
        for point in points:
            yield drawers.setdefault(point, {})
