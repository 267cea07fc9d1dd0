"""The reference index: hash access first, then the bit table; each candidate is verified by its compiled filter.

Identical filters are stored once, with all their ids. The native kernel must give the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from ..errors import IndexMisuse
from ..filters import Conjunction, Filter
from ..filters.covering import conjunction_covers, conjunctions_meet
from ..values import Attributes
from .bit_table import BitTable
from .index import Frame
from .postings import Place, Postings

VERIFY_MAX = 48
"""Filed conjunctions that are verified one by one; with more, the table thins them out first."""


class _Shared:
    """One filter with the ids that it was added under. `positions` are its conjunctions' positions in the table."""

    __slots__ = ("filter", "ids", "places", "positions")

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.ids: dict[int, None] = {}
        self.positions: list[int] = []
        self.places: list[Place | None] = []


class PythonIndex:
    """The reference implementation of `Index`."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Shared] = {}
        self._by_text: dict[str, _Shared] = {}
        self._owners: dict[int, _Shared] = {}
        self._never: dict[_Shared, None] = {}
        self._table = BitTable()
        self._postings = Postings()

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id: int) -> bool:
        return id in self._by_id

    def add(self, id: int, filter: Filter) -> None:
        if id in self._by_id:
            raise IndexMisuse(f"id {id} is in the index already")
        shared = self._by_text.get(filter.text)
        if shared is None:
            shared = _Shared(filter)
            for conjunction in filter.normal:
                self._keep(shared, conjunction)
            if not filter.normal:
                self._never[shared] = None
            self._by_text[filter.text] = shared
        shared.ids[id] = None
        self._by_id[id] = shared

    def remove(self, id: int) -> None:
        shared = self._by_id.pop(id, None)
        if shared is None:
            raise IndexMisuse(f"id {id} is not in the index")
        del shared.ids[id]
        if shared.ids:
            return
        del self._by_text[shared.filter.text]
        self._never.pop(shared, None)
        for at, place in zip(shared.positions, shared.places, strict=True):
            self._table.remove(at)
            del self._owners[at]
            if place is not None:
                self._postings.remove(at, place)

    def text(self, id: int) -> str:
        shared = self._by_id.get(id)
        if shared is None:
            raise IndexMisuse(f"id {id} is not in the index")
        return shared.filter.text

    def match_frame(self, frame: Frame) -> list[int]:
        return self.match(frame.attributes())

    def match(self, attributes: Attributes) -> list[int]:
        drawers = self._postings.look_up(attributes)
        filed = sum(map(len, drawers))
        if filed > VERIFY_MAX:
            found = self._table.candidates(attributes, scanned_only=False)
        else:
            found = list(chain.from_iterable(drawers))
            if self._table.scanned:
                found += self._table.candidates(attributes, scanned_only=True)
        ids: list[int] = []
        several: set[_Shared] = set()
        for at in found:
            shared = self._owners[at]
            if len(shared.positions) > 1:
                if shared in several:
                    continue
                several.add(shared)
            if shared.filter.matches(attributes):
                ids += shared.ids
        return ids

    def covering(self, filter: Filter) -> list[int]:
        left: Iterable[_Shared] | None = None
        for conjunction in filter.normal:
            covering = self._related(self._table.covering(conjunction), conjunction, conjunction_covers)
            left = self._owners_of(covering) if left is None else left
            left = [shared for shared in left if not covering.isdisjoint(shared.positions)]
        return _ids(self._by_text.values() if left is None else left)

    def covered(self, filter: Filter) -> list[int]:
        covered: set[int] = set()
        for conjunction in filter.normal:
            covered |= self._related(self._table.covered(conjunction), conjunction, _covered_by)
        found = [shared for shared in self._owners_of(covered) if covered.issuperset(shared.positions)]
        return _ids([*found, *self._never])

    def intersecting(self, filter: Filter) -> list[int]:
        meeting: set[int] = set()
        for conjunction in filter.normal:
            meeting |= self._related(self._table.intersecting(conjunction), conjunction, conjunctions_meet)
        return _ids(self._owners_of(meeting))

    def _related(
        self, candidates: list[int], to: Conjunction, test: Callable[[Conjunction, Conjunction], bool]
    ) -> set[int]:
        """Return the candidate positions for which the relation holds."""
        conjunctions = self._table.conjunctions
        return {at for at in candidates if test(conjunctions[at], to)}

    def _owners_of(self, found: set[int]) -> Iterable[_Shared]:
        """Return the owners of the positions, each once, in a fixed order."""
        return {self._owners[at]: None for at in sorted(found)}

    def _keep(self, shared: _Shared, conjunction: Conjunction) -> None:
        place = self._postings.place(conjunction, self._table.columns)
        at = self._table.add(conjunction, scan=place is None)
        if place is not None:
            self._postings.file(at, place)
        self._owners[at] = shared
        shared.positions.append(at)
        shared.places.append(place)


def _ids(found: Iterable[_Shared]) -> list[int]:
    return [id for shared in found for id in shared.ids]


def _covered_by(narrow: Conjunction, wide: Conjunction) -> bool:
    return conjunction_covers(wide, narrow)
