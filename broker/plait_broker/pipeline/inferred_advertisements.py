"""Advertisements that nobody made: what clients that publish without one seem to publish, told by their events.

Events with the same attribute names are of one shape. Of a shape, the texts and truth values that were seen narrow the
advertisement (`symbol in ['IBM', 'MSFT']`) as long as they are few; an event beyond it widens it. Numbers never narrow:
they would widen with nearly every event. A shape without anything that narrows it is an advertisement of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Final, TypeAlias, TypeGuard

from plait_core import Attributes, FilterError
from plait_core.filters import EVERYTHING, F, Filter

SHAPES_MAX: Final = 16
"""Beyond so many kinds of events a broker advertises everything: its clients publish whatever they like."""

VALUES_MAX: Final = 8
"""An attribute with more values than this narrows nothing that is worth a round trip for each new value."""

NARROWING_MAX: Final = 4
"""Of a shape's attributes, so many narrow it at most: their values are to fit into a short filter."""

TEXT_MAX: Final = 64
"""Longer texts are prose, not categories."""

FIRST: Final = 2**62
"""The number of the first; those of clients' own advertisements count from 1."""

ANYTHING: Final = FIRST - 1
"""The number of an advertisement of everything."""

Category: TypeAlias = str | bool


@dataclass(slots=True)
class Shape:
    """Events with the same attribute names."""

    number: int
    values: dict[str, list[Category]]
    """By attribute that narrows it, the values that were seen."""

    def widen(self, attributes: Attributes) -> None:
        for name, seen in list(self.values.items()):
            value = attributes[name]
            known = [other for other in seen if type(other) is type(value)]  # True is not 1, nor a text a flag
            if not _is_category(value, name) or len(seen) >= VALUES_MAX + (value in known):
                del self.values[name]
            elif value not in known:
                seen.append(value)

    @property
    def filter(self) -> Filter:
        if not self.values:
            return EVERYTHING
        return reduce(and_, (F[name].is_in(seen) for name, seen in self.values.items()))


class InferredAdvertisements:
    """All of one broker's clients."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._count = 0

    def widen(self, attributes: Attributes) -> tuple[int, Filter]:
        """An event is beyond all that is advertised: which advertisement has it from now on, and what that says."""
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
        """Nothing of it was published for long."""
        for names, shape in list(self._shapes.items()):
            if shape.number == number or number == ANYTHING:
                del self._shapes[names]


def _is_category(value: object, name: str) -> TypeGuard[Category]:
    if not isinstance(value, bool) and not (isinstance(value, str) and len(value) <= TEXT_MAX):
        return False
    try:
        F[name].is_in([value])
    except FilterError:  # no filter can speak of it
        return False
    return True
