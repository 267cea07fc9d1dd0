"""Inferred advertisements: filters that cover the events of clients that do not advertise.

Events with the same attribute names have one shape. The texts and flags seen in a shape narrow its advertisement
(`symbol in ['IBM', 'MSFT']`) while they are few. An event that it does not cover widens it. Numbers never narrow, since
nearly every event would widen them. A shape with nothing that narrows it is an advertisement of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final, TypeAlias, TypeGuard

from plait_core import Attributes, FilterError
from plait_core.filters import EVERYTHING, F, Filter

SHAPES_MAX: Final = 16
"""Beyond this number of shapes a broker advertises everything."""

VALUES_MAX: Final = 8
"""An attribute with more values than this narrows nothing that is worth a round trip for each new value."""

NARROWING_MAX: Final = 4
"""Attributes of a shape that narrow it, at most: their values have to fit into a short filter."""

TEXT_MAX: Final = 64
"""Longer texts are prose, not categories."""

FIRST: Final = 2**62
"""Number of the first inferred advertisement; those of clients count from 1."""

ANYTHING: Final = FIRST - 1
"""Number of the advertisement of everything."""

Category: TypeAlias = str | bool


@dataclass(slots=True)
class Shape:
    """Events with the same attribute names."""

    number: int
    values: dict[str, list[Category]]
    """Seen values, by attribute that narrows the shape."""

    def widen(self, attributes: Attributes) -> None:
        """Cover an event as well."""
        for name, seen in list(self.values.items()):
            value = attributes[name]
            known = [other for other in seen if type(other) is type(value)]  # True is not 1, nor a text a flag
            if not _is_category(value, name) or len(seen) >= VALUES_MAX + (value in known):
                del self.values[name]
            elif value not in known:
                seen.append(value)

    @property
    def filter(self) -> Filter:
        """The advertisement."""
        if not self.values:
            return EVERYTHING
        return reduce(and_, (F[name].is_in(seen) for name, seen in self.values.items()))


class InferredAdvertisements:
    """One broker's, for all its clients."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._count = 0

    def widen(self, attributes: Attributes) -> tuple[int, Filter]:
        """Return the number and filter of an advertisement that covers an event from now on."""
        names = tuple(sorted(attributes))
        shape = self._shapes.get(names)
        if shape is None:
            if len(self._shapes) >= SHAPES_MAX:
                return ANYTHING, EVERYTHING
            narrowing = [name for name in names if _is_category(attributes[name], name)][:NARROWING_MAX]
            shape = self._shapes[names] = Shape(FIRST + self._count, {name: [] for name in narrowing})
            self._count += 1
        shape.widen(attributes)
        return (shape.number, shape.filter) if shape.values else (ANYTHING, EVERYTHING)

    def forget(self, number: int) -> None:
        """Forget the shape of an advertisement that was withdrawn."""
        for names, shape in list(self._shapes.items()):
            if shape.number == number or number == ANYTHING:
                del self._shapes[names]


def _is_category(value: object, name: str) -> TypeGuard[Category]:
    if not isinstance(value, bool) and not (isinstance(value, str) and len(value) <= TEXT_MAX):
        return False
    try:
        F[name].is_in([value])
    except FilterError:  # no filter can contain it
        return False
    return True
