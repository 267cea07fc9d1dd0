"""The link-state database: the brokers of the overlay, their links, and the delay of each. Every broker has the same.

A link counts when both its ends flood it, with the greater of the two delays. So a broker cannot attract events by
claiming a short delay; by claiming a long one it only loses events. Distances are sums of link costs, computed from one
broker to all others at once. A link costs the same in both directions, so a distance does, too. So a broker needs only
the distances from itself and from each of its neighbours to know which neighbours are feasible for any destination:
strictly closer, so that they cannot send an event back.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping
from typing import Final

from plait_core.wire.frame_types.overlay_frames import LinkState

HOP_US: Final = 50
"""Added to each link's delay: the time that a broker takes to forward an event. Of two equal paths the one with fewer
hops wins."""

AVOID_US: Final = 1 << 44
"""The cost of passing a broker that is to be avoided: more than the cost of any path."""

_INFINITE: Final = 1 << 62


class LinkStateDatabase:
    """All link states, and the distances that follow from them."""

    def __init__(self) -> None:
        self.known: dict[int, LinkState] = {}
        """By broker, its newest link state."""
        self._links: dict[int, dict[int, int]] = {}
        """By broker, its neighbours and the delays to them that it floods."""
        self._costs: dict[int, dict[int, int]] = {}
        """By broker, its links and the cost that each adds to a path; the same from both ends."""
        self._distances: dict[int, dict[int, int]] = {}
        self.revision = 0
        """Counts changes."""
        self.links_revision = 0
        """Counts additions and removals of links that count, but not changes of delays."""
        self.paths_revision = 0
        """Counts changes of distances: those of links that count, and of their costs."""

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, broker: int) -> bool:
        return broker in self.known

    @property
    def link_states(self) -> list[LinkState]:
        """All link states, ordered by broker."""
        return [self.known[broker] for broker in sorted(self.known)]

    def put(self, link_state: LinkState) -> bool:
        """Take a newer link state. Return whether a link is lost by it. The second end of a link that tells of its loss
        brings no news: the link does not count since the first one did."""
        origin, new = link_state.origin, link_state.origin not in self.known
        before = self._costs.get(origin, {})
        self.known[origin] = link_state
        self._links[origin] = dict(zip(link_state.neighbours, link_state.delays_us, strict=True))
        self._price(origin)
        after = self._costs[origin]
        self.revision += 1
        self.links_revision += before.keys() != after.keys()
        if before != after:
            self._paths_changed()
        elif new:  # no other distance has changed
            self._distances.pop(origin, None)
        return not before.keys() <= after.keys()

    def loses(self, link_state: LinkState) -> bool:
        """Return whether a newer link state lacks a link that counts."""
        return not self._costs.get(link_state.origin, {}).keys() <= set(link_state.neighbours)

    def remove(self, broker: int) -> None:
        """Forget a broker."""
        if self.known.pop(broker, None) is not None:
            del self._links[broker]
            self.links_revision += 1
            self._price(broker)
            del self._costs[broker]
            self.revision += 1
            self._paths_changed()

    def name(self, broker: int) -> str | None:
        """Return the name of a broker."""
        link_state = self.known.get(broker)
        return None if link_state is None else link_state.name

    def cost_us(self, near: int, far: int) -> int | None:
        """Return the cost that a link adds to a path, in either direction, or None when there is no such link."""
        return self._costs.get(near, {}).get(far)

    def costs_us(self, broker: int) -> Mapping[int, int]:
        """Return the neighbours of a broker, each with what the link adds to a path."""
        return self._costs.get(broker, {})

    def claim_us(self, near: int, far: int) -> int | None:
        """Return the delay of a link as one of its ends floods it."""
        return self._links.get(near, {}).get(far)

    def distances(self, broker: int) -> dict[int, int]:
        """Return each broker that can be reached from this one, with its distance in microseconds, nearest first.

        It is computed once after a change, which takes a millisecond for a thousand brokers. So ask for the distances
        of this broker and its neighbours, never for those of each destination.
        """
        known = self._distances.get(broker)
        if known is None:
            known = self._distances[broker] = self._walk(broker)
        return known

    def reaches(self, near: int, far: int) -> bool:
        """Return whether there is a path."""
        return far in self.distances(near)

    def parent(self, root: int, broker: int) -> int | None:
        """Return the next broker from `broker` towards `root` in the tree of `root`."""
        distances = self.distances(root)
        here = distances.get(broker)
        if here is None or broker == root:
            return None
        links = self._costs[broker].items()
        nearer = ((cost + distances[far], far) for far, cost in links if far in distances)
        return min(nearer)[1]

    def path(
        self, near: int, far: int, without: Collection[int] = (), avoiding: Collection[int] = ()
    ) -> tuple[int, ...] | None:
        """Return the brokers on the cheapest path from one to another, both included. It passes none of those in
        `without`, and as few of those in `avoiding` as possible."""
        distances = self._walk(far, without, avoiding) if without or avoiding else self.distances(far)
        path = [near]
        while path[-1] != far:
            links = self._costs.get(path[-1], {}).items()
            nearer = [(cost + distances[broker], broker) for broker, cost in links if broker in distances]
            if path[-1] not in distances or not nearer:
                return None
            path.append(min(nearer)[1])
        return tuple(path)

    def _price(self, broker: int) -> None:
        """Compute the costs of a broker's links from its link state and those of its neighbours."""
        for far in self._costs.pop(broker, ()):
            del self._costs[far][broker]
        costs = self._costs[broker] = {}
        for far, there_us in self._links.get(broker, {}).items():
            back_us = self.claim_us(far, broker)
            if back_us is not None and far != broker:
                costs[far] = self._costs[far][broker] = max(there_us, back_us) + HOP_US

    def _walk(self, to: int, without: Collection[int] = (), avoiding: Collection[int] = ()) -> dict[int, int]:
        """Compute the distances of all brokers to `to` by Dijkstra's algorithm."""
        if to not in self._links or to in without:
            return {}
        push, pop, costs = heapq.heappush, heapq.heappop, self._costs
        found: dict[int, int] = {}
        least = dict.fromkeys(without, -1)  # no way to them is shorter
        best = least.get
        heap = [(0, to)]
        while heap:
            distance, broker = pop(heap)
            if broker in found:
                continue
            found[broker] = distance
            for near, cost in costs[broker].items():
                through = distance + cost
                if avoiding and near in avoiding:
                    through += AVOID_US
                if through < best(near, _INFINITE):  # else a way at least as short is in the heap
                    least[near] = through
                    push(heap, (through, near))
        return found

    def _paths_changed(self) -> None:
        self.paths_revision += 1
        self._distances.clear()
