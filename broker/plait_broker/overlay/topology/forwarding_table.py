"""The forwarding table: the next hop for each destination.

A next hop must be *feasible*: strictly closer to the destination than this broker, so the remaining distance falls at
every hop. Of the feasible neighbours the fastest path, by delays measured now, is chosen. The choice has hysteresis:
another neighbour replaces it when it is faster by more than noise, or at once when the chosen link goes down. Brokers
on an event's path are never next hops again. That alone prevents loops while brokers' link-state databases differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from .link_state import HOP_US, LinkStateDatabase
from .neighbours import Neighbour

KEEP_RATIO: Final = 1.25
KEEP_US: Final = 300
"""A next hop is kept until another path is faster by a fifth and by more than the noise of a busy machine."""


class ForwardingTable:
    """The next hop for each destination, cached until a link or a delay changes."""

    def __init__(self, me: int, map: LinkStateDatabase, neighbours: dict[int, Neighbour]) -> None:
        self._me = me
        self._map = map
        self._neighbours = neighbours
        self._revision = -1
        self._best: dict[int, list[int]] = {}
        """By destination, its feasible neighbours, the chosen one first."""
        self._chosen: dict[int, int] = {}
        self.changes = 0
        """Counts changes of a destination's next hop."""

    def stale(self) -> None:
        """Drop the cached choices: a delay or a link has changed."""
        self._best.clear()

    def next_hop(self, to: int, passed: Collection[int] = ()) -> int | None:
        """Return the best feasible neighbour that is not in `passed`, or None if there is none."""
        best = (
            self._best.get(to) if self._revision == self._map.paths_revision else None
        )  # a call costs as much as this
        for neighbour in self.feasible_ids(to) if best is None else best:
            if neighbour not in passed:
                return neighbour
        return None

    def next(self, to: int, passed: Collection[int] = ()) -> Neighbour | None:
        """Return the same as `next_hop`, with its link."""
        neighbour = self.next_hop(to, passed)
        return None if neighbour is None else self._neighbours[neighbour]

    def feasible_ids(self, to: int) -> list[int]:
        """Return the feasible neighbours for a destination, the chosen one first."""
        if self._revision != self._map.paths_revision:
            self._revision = self._map.paths_revision
            self._best.clear()
        best = self._best.get(to)
        if best is None:
            best = self._best[to] = self._rank(to)
        return best

    def feasible(self, to: int) -> list[tuple[Neighbour, int]]:
        """Return the feasible neighbours, each with the delay of the whole path in microseconds, the fastest first."""
        distances = self._map.distances
        here = distances(self._me).get(to)
        found: list[tuple[Neighbour, int]] = []
        for neighbour in self._neighbours.values():
            distance = distances(neighbour.id).get(to)
            if distance is None or (here is not None and distance >= here):
                continue
            found.append((neighbour, round(neighbour.delay_us or neighbour.flooded_us) + HOP_US + distance))
        found.sort(key=lambda one: (one[1], one[0].id))
        return found

    @property
    def chosen(self) -> Mapping[int, int]:
        """By destination that something was sent to, its next hop."""
        return self._chosen

    def forget(self, to: int) -> None:
        """Forget a destination."""
        self._best.pop(to, None)
        self._chosen.pop(to, None)

    def _rank(self, to: int) -> list[int]:
        feasible = self.feasible(to)
        if not feasible:
            return []
        chosen = self._chosen.get(to)
        limit = feasible[0][1] * KEEP_RATIO + KEEP_US
        kept = [one for one in feasible if one[0].id == chosen and one[1] <= limit]
        if kept:
            feasible.remove(kept[0])
            feasible.insert(0, kept[0])
        first = feasible[0][0].id
        if chosen is not None and chosen != first:
            self.changes += 1
        self._chosen[to] = first
        return [neighbour.id for neighbour, _ in feasible]
