"""The map of the overlay: which brokers there are, which links, how long each takes. Every broker has the same one.

A link counts when both its ends speak of it, and takes as long as the slower of them says: who claims to be near draws
nothing, and who claims to be far is left alone. Distances are sums of delays, computed towards one destination for all
brokers at once, so that a broker knows not only its own distance but those of its neighbours: whoever is strictly
closer than itself may be handed an event, and cannot hand it back.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import Final

from plait_core.wire.frame_types.overlay_frames import LinkState

HOP_US: Final = 50
"""Added to each link's delay: what a broker takes to pass an event on. Of two paths as fast, the shorter wins."""

SHY_US: Final = 1 << 44
"""More than all that is on any path."""


class LinkStateDatabase:
    """All sheets, and the distances that follow from them."""

    def __init__(self) -> None:
        self.known: dict[int, LinkState] = {}
        """By broker, what it says."""
        self._links: dict[int, dict[int, int]] = {}
        """By broker, its neighbours and the delays that it has measured to them."""
        self._costs: dict[int, dict[int, int]] = {}
        """By broker, whom it has a link to, and what that adds to a path; the same from both ends."""
        self._distances: dict[int, dict[int, int]] = {}
        self.revision = 0
        """Counts changes."""

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, broker: int) -> bool:
        return broker in self.known

    @property
    def sheets(self) -> list[LinkState]:
        """All of them, ordered by broker."""
        return [self.known[broker] for broker in sorted(self.known)]

    def put(self, sheet: LinkState) -> bool:
        """What a broker says now; whether it has lost a link."""
        lost = not self._links.get(sheet.origin, {}).keys() <= set(sheet.neighbours)
        self.known[sheet.origin] = sheet
        self._links[sheet.origin] = dict(zip(sheet.neighbours, sheet.delays_us, strict=True))
        self._price(sheet.origin)
        self._changed()
        return lost

    def remove(self, broker: int) -> None:
        """Forget a broker."""
        if self.known.pop(broker, None) is not None:
            del self._links[broker]
            self._price(broker)
            del self._costs[broker]
            self._changed()

    def name(self, broker: int) -> str | None:
        """What a broker calls itself."""
        sheet = self.known.get(broker)
        return None if sheet is None else sheet.name

    def cost_us(self, near: int, far: int) -> int | None:
        """What a link adds to a path, in either direction; None when it is no link."""
        return self._costs.get(near, {}).get(far)

    def costs_us(self, broker: int) -> Mapping[int, int]:
        """Return the neighbours of a broker, each with what the link adds to a path."""
        return self._costs.get(broker, {})

    def claim_us(self, near: int, far: int) -> int | None:
        """How long a link takes, as one of its ends says."""
        return self._links.get(near, {}).get(far)

    def distances(self, to: int) -> dict[int, int]:
        """For each broker from which `to` can be reached, how far it is, in microseconds."""
        known = self._distances.get(to)
        if known is None:
            known = self._distances[to] = self._walk(to)
        return known

    def reaches(self, near: int, far: int) -> bool:
        """Whether there is a path."""
        return near in self.distances(far)

    def parent(self, root: int, broker: int) -> int | None:
        """In the tree of `root`, the next broker from `broker` towards it."""
        distances = self.distances(root)
        here = distances.get(broker)
        if here is None or broker == root:
            return None
        links = self._costs[broker].items()
        nearer = ((cost + distances[far], far) for far, cost in links if far in distances)
        return min(nearer)[1]

    def path(
        self, near: int, far: int, without: Collection[int] = (), shy: Collection[int] = ()
    ) -> tuple[int, ...] | None:
        """The brokers on the cheapest path from one to another, both included, that passes none of some others, and as
        few as can be of those that it is `shy` of."""
        distances = self._walk(far, without, shy) if without or shy else self.distances(far)
        path = [near]
        while path[-1] != far:
            links = self._costs.get(path[-1], {}).items()
            nearer = [(cost + distances[broker], broker) for broker, cost in links if broker in distances]
            if path[-1] not in distances or not nearer:
                return None
            path.append(min(nearer)[1])
        return tuple(path)

    def _price(self, broker: int) -> None:
        """What the links of a broker cost, now that it or one of its neighbours says something else."""
        for far in self._costs.pop(broker, ()):
            del self._costs[far][broker]
        costs = self._costs[broker] = {}
        for far, there_us in self._links.get(broker, {}).items():
            back_us = self.claim_us(far, broker)
            if back_us is not None and far != broker:
                costs[far] = self._costs[far][broker] = max(there_us, back_us) + HOP_US

    def _walk(self, to: int, without: Collection[int] = (), shy: Collection[int] = ()) -> dict[int, int]:
        """Dijkstra's algorithm, against the direction of the links."""
        found: dict[int, int] = {}
        heap = [(0, to)] if to in self._links else []
        while heap:
            distance, broker = heapq.heappop(heap)
            if broker in found or broker in without:
                continue
            found[broker] = distance
            for near, cost in self._costs[broker].items():
                if near not in found:
                    heapq.heappush(heap, (distance + cost + (SHY_US if near in shy else 0), near))
        return found

    def _changed(self) -> None:
        self.revision += 1
        self._distances.clear()
