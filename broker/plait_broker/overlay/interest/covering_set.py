"""The filters that a broker announces to others for its clients: those that no other of its filters covers.

An event that matches a covered filter also matches the covering one, so other brokers do not need the covered one. When
a covering filter is removed, the filters that it alone covered are announced first. A filter with routing tokens
matches fewer events than its text: it covers only filters with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable

from plait_core.filters import Filter
from plait_core.matching import Index


class CoveringSet:
    """All filters of a broker's clients, and the exported ones among them."""

    def __init__(self, new_index: Callable[[], Index]) -> None:
        self._filters: dict[int, Filter] = {}
        self._deposits: dict[int, bytes] = {}
        self._under: dict[int, int] = {}
        """By filter that is not exported, one that covers it. Stored, since the covering test may not find it again."""
        self._over: dict[int, dict[int, None]] = {}
        self.exported = new_index()
        self.system: dict[int, None] = {}
        """Filters for system events, the records of brokers. They go to every broker, and no filter covers them."""

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, number: int) -> bool:
        return number in self._filters

    def __getitem__(self, number: int) -> Filter:
        return self._filters[number]

    def covering_filters(self) -> dict[int, Filter]:
        """Return the exported filters by number, without those about system events."""
        return {
            number: filter
            for number, filter in self._filters.items()
            if number not in self._under and number not in self.system
        }

    def deposit(self, number: int) -> bytes:
        """Return the routing tokens of a filter, or b"" if it has none."""
        return self._deposits.get(number, b"")

    def coverer(self, number: int) -> int:
        """Return the exported filter whose events include those of this one: itself, or one that covers it."""
        while number in self._under:
            number = self._under[number]
        return number

    def add(self, number: int, filter: Filter, deposit: bytes = b"") -> tuple[list[int], list[int]]:
        """Add a filter, or replace the one with this number. Return the filters to export, and those that are exported
        no longer. A filter in both is exported with another text or other routing tokens."""
        if number not in self._filters:
            return self._add(number, filter, deposit)
        exposed, hidden = self.remove(number)
        added, removed = self._add(number, filter, deposit)
        passing = (set(exposed) & set(removed)) - {number}  # exported for a moment, between the two filters
        return (
            [one for one in [*exposed, *added] if one not in passing],
            [one for one in [*hidden, *removed] if one not in passing],
        )

    def _add(self, number: int, filter: Filter, deposit: bytes) -> tuple[list[int], list[int]]:
        self._filters[number] = filter
        if filter.system:
            self.system[number] = None
            return [number], []
        if deposit:
            self._deposits[number] = deposit
        added: list[int] = []
        removed: list[int] = []
        self._place(number, added, removed)
        return added, removed

    def remove(self, number: int) -> tuple[list[int], list[int]]:
        """Remove a filter. Return the filters that are exported now, and those that are no longer."""
        del self._filters[number]
        if number in self.system:
            del self.system[number]
            return [], [number]
        self._deposits.pop(number, None)
        covered = self._over.pop(number, {})
        if number in self._under:
            parent = self._under.pop(number)
            del self._over[parent][number]
            for other in covered:
                self._put_under(other, parent)
            return [], []
        self.exported.remove(number)
        added: list[int] = []
        removed = [number]
        for other in covered:
            del self._under[other]
        for other in covered:
            self._place(other, added, removed)
        return added, removed

    def _place(self, number: int, added: list[int], removed: list[int]) -> None:
        """Export a filter, or put it under one that covers it."""
        filter = self._filters[number]
        coverers = [other for other in self.exported.covering(filter) if self._brings(other, number)]
        if coverers:
            self._put_under(number, min(coverers))
            return
        for other in sorted(self.exported.covered(filter)):
            if not self._brings(number, other):
                continue
            self.exported.remove(other)
            self._put_under(other, number)
            if other in added:
                added.remove(other)
            else:
                removed.append(other)
        self.exported.add(number, filter)
        added.append(number)

    def _brings(self, coverer: int, number: int) -> bool:
        """Return whether a covering filter gets all events of another one, given the deposits of both."""
        return coverer not in self._deposits or self._deposits[coverer] == self._deposits.get(number)

    def _put_under(self, number: int, coverer: int) -> None:
        self._under[number] = coverer
        self._over.setdefault(coverer, {})[number] = None
