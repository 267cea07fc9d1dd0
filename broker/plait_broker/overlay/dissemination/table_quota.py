"""Bounds on a table that neighbours fill: in total, for each origin, and for each neighbour.

A neighbour's message names any broker as its origin, and no signature covers it. So a hostile neighbour could fill a
table, and the entries of honest ones would be refused. It gets half of a table at most: a leaf learns everything over
one link, so a smaller share would refuse honest entries. This broker's own entries are not counted, because the limits
of its clients bound them.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from plait_core.filters import Filter

from .strategy import BrokerId

TEXT_CHARS: Final = 256
CONSTRAINTS: Final = 4
"""The size of a filter that counts as one entry: characters of its text, and constraints of its normal form. Ordinary
filters are smaller and take 2 KB. No filter takes more than some 4 KB for each entry that it counts for."""

NEIGHBOUR_SHARE: Final = 2
"""One neighbour fills at most one part in so many of a table."""


def filter_weight(filter: Filter) -> int:
    """Return for how many entries a filter counts. It is computed from what the entry keeps in memory."""
    return 1 + len(filter.text) // TEXT_CHARS + sum(map(len, filter.normal)) // CONSTRAINTS


class TableQuota:
    """The weights of the entries in one table, by the neighbour that sent them and by their origin."""

    def __init__(self, total_max: int, origin_max: int) -> None:
        self._total_max = total_max
        self._neighbour_max = total_max // NEIGHBOUR_SHARE
        self._origin_max = origin_max
        self._by_neighbour: Counter[BrokerId] = Counter()
        self._by_origin: Counter[BrokerId] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """The weight of all entries."""
        return self._total

    def add(self, neighbour: BrokerId, origin: BrokerId, weight: int) -> bool:
        """Count an entry. Return False, and count nothing, if it would exceed a bound."""
        if (
            self._total + weight > self._total_max
            or self._by_neighbour[neighbour] + weight > self._neighbour_max
            or self._by_origin[origin] + weight > self._origin_max
        ):
            return False
        self._change(neighbour, origin, weight)
        return True

    def remove(self, neighbour: BrokerId, origin: BrokerId, weight: int) -> None:
        """Stop counting an entry."""
        self._change(neighbour, origin, -weight)

    def _change(self, neighbour: BrokerId, origin: BrokerId, weight: int) -> None:
        self._total += weight
        for counted, key in ((self._by_neighbour, neighbour), (self._by_origin, origin)):
            counted[key] += weight
            assert counted[key] >= 0, "an entry is removed as it was added"
            if not counted[key]:
                del counted[key]
