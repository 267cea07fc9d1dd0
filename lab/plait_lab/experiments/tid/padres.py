"""The TID paper's own publication routing, as printed: hop-by-hop matching on tree identifiers, Algorithm 1.

It runs on a static graph whose link delays may be set between messages, and shows two faults that `PAPERS.md`
describes. The algorithm loops, since it takes the link of least delay among all trees, whether or not it leads back. It
loses events: of several subscriptions behind one neighbour, only the first chooses the tree, and the neighbour may not
know the others under this tree. `tests/unit/lab/experiments/test_padres.py` shows both, and our rule on the same
graphs.

Advertisements flood and each leaves a tree (3.1). A subscription travels each tree that it meets in reverse and leaves
{TID, last hop} pairs (3.1, the PRT). A publication is matched at each broker against the subscriptions that carry its
TID, and forwarded by Algorithm 1 (3.2).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from plait_core.filters import Filter
from plait_core.values import Attributes

HOPS_MAX: Final = 64
"""After so many hops a publication is declared to be in a loop."""

CLIENT: Final = -1
"""The last hop of a subscription at the broker of its own client."""


@dataclass(frozen=True, slots=True)
class PaperSubscription:
    """A subscription of a broker's client."""

    name: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class PaperPublication:
    """A copy on its way."""

    attributes: Attributes
    tree: str
    path: tuple[int, ...]
    """The brokers that it has visited, this one last."""


@dataclass(slots=True)
class PaperBroker:
    """The tables of one broker."""

    srt: dict[str, int] = field(default_factory=dict)
    """By TID, the last hop of the advertisement: towards its publisher."""
    prt: dict[PaperSubscription, dict[str, int]] = field(default_factory=dict)
    """By subscription, its last hop for each TID: towards its subscriber."""


@dataclass(frozen=True, slots=True)
class PaperOutcome:
    """The result of a publication."""

    delivered: tuple[str, ...]
    """Names of subscriptions, one for each delivery."""
    visits: tuple[int, ...]
    """Brokers in the order in which they received copies."""
    looped: bool
    """Whether a copy was still being forwarded after `HOPS_MAX` hops."""


class PaperOverlay:
    """Brokers, links with delays in each direction, and the paper's tables."""

    def __init__(self, delays: Mapping[tuple[int, int], float]) -> None:
        """`delays` of links, the same in both directions until `set_delay`."""
        self._delays: dict[tuple[int, int], float] = {}
        self._brokers: dict[int, PaperBroker] = {}
        self._advertisements: dict[str, tuple[int, Filter]] = {}
        for (near, far), delay in delays.items():
            self.set_delay(near, far, delay)

    def set_delay(self, near: int, far: int, delay: float) -> None:
        """Set the delay of a link, as the Link Delay Tables of both ends have it."""
        self._delays[near, far] = self._delays[far, near] = delay
        for broker in (near, far):
            self._brokers.setdefault(broker, PaperBroker())

    def broker(self, number: int) -> PaperBroker:
        """The tables of a broker."""
        return self._brokers[number]

    def advertise(self, tree: str, root: int, filter: Filter) -> None:
        """Flood an advertisement: each broker keeps the link that it came by first."""
        self._advertisements[tree] = (root, filter)
        arrivals = [(0.0, root, CLIENT)]
        while arrivals:
            at, broker, last_hop = heapq.heappop(arrivals)
            if tree in self._brokers[broker].srt:
                continue
            self._brokers[broker].srt[tree] = last_hop
            for near, far in self._delays:
                if near == broker and far != last_hop:
                    heapq.heappush(arrivals, (at + self._delays[near, far], far, broker))

    def subscribe(self, name: str, home: int, filter: Filter) -> PaperSubscription:
        """Send a subscription along each tree that it meets, towards the root."""
        subscription = PaperSubscription(name, filter)
        for tree, (_, advertised) in self._advertisements.items():
            if advertised.intersects(filter):
                last_hop, broker = CLIENT, home
                while broker != CLIENT:
                    self._brokers[broker].prt.setdefault(subscription, {})[tree] = last_hop
                    last_hop, broker = broker, self._brokers[broker].srt[tree]
        return subscription

    def publish(self, tree: str, attributes: Attributes) -> PaperOutcome:
        """Publish at the root of a tree, and follow all copies."""
        root, advertised = self._advertisements[tree]
        assert advertised.matches(attributes), "a publication matches its advertisement"
        delivered: list[str] = []
        visits: list[int] = []
        looped = False
        copies = [PaperPublication(attributes, tree, (root,))]
        while copies:
            copy = copies.pop(0)
            broker = copy.path[-1]
            visits.append(broker)
            if len(copy.path) > HOPS_MAX:
                looped = True
                continue
            delivered += [one.name for one in self._matching(broker, copy) if self._is_local(broker, one)]
            for next_hop, its_tid in self._algorithm_1(broker, copy).items():
                copies.append(PaperPublication(attributes, its_tid, (*copy.path, next_hop)))
        return PaperOutcome(tuple(delivered), tuple(visits), looped)

    def _matching(self, broker: int, copy: PaperPublication) -> list[PaperSubscription]:
        """Return the subscriptions that match by content and by TID."""
        prt = self._brokers[broker].prt
        return [one for one, paths in prt.items() if copy.tree in paths and one.filter.matches(copy.attributes)]

    def _is_local(self, broker: int, subscription: PaperSubscription) -> bool:
        return CLIENT in self._brokers[broker].prt[subscription].values()

    def _algorithm_1(self, broker: int, copy: PaperPublication) -> dict[int, str]:
        """Select the links of a publication. The comments number the algorithm's lines."""
        route: dict[int, str] = {}  # 1
        for subscription in self._matching(broker, copy):  # 2, 3
            if self._is_local(broker, subscription):
                continue  # delivered: there is no link to choose
            paths = self._brokers[broker].prt[subscription]  # 4
            tree, next_hop = min(paths.items(), key=lambda path: (self._delays[broker, path[1]], path[0]))  # 5, 6
            if next_hop not in route:  # 7
                route[next_hop] = tree  # 8-10
        return route  # 13
