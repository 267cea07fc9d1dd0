"""Dissemination strategies on a graph, without brokers: real link-state databases, forwarding tables and views.

The strategies' messages travel in order over each link, with its delay. Time moves only in `run`. An event is walked
from its root to all destinations: each broker on the way plans with its own strategy, as `Forwarder` does.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plait_broker.overlay.dissemination.paper_tid import PaperTid
from plait_broker.overlay.dissemination.shortest_paths import ShortestPaths
from plait_broker.overlay.dissemination.strategy import Envelope, SendControl, StrategyFactory, check_plan
from plait_broker.overlay.dissemination.tid_tables import TreeTables
from plait_broker.overlay.dissemination.views import OverlayTopology
from plait_broker.overlay.topology.forwarding_table import ForwardingTable
from plait_broker.overlay.topology.link_state import LinkStateDatabase
from plait_broker.overlay.topology.neighbours import Neighbour
from plait_core import Event
from plait_core.filters import Filter, parse
from plait_core.limits import PATH_MAX
from plait_core.wire import Confirm, Destination, Publish, encode_block
from plait_core.wire.frame_types.overlay_frames import LinkState


@dataclass
class GivenInterest:
    """The filters of one broker's clients, as the Protocol `InterestView`."""

    revision: int = 0
    advertised: dict[int, Filter] = field(default_factory=dict)
    subscribed: dict[int, Filter] = field(default_factory=dict)

    def brokers(self) -> Sequence[int]:
        return ()

    def filters(self, broker: int) -> Sequence[Filter]:
        return ()

    def local_advertisements(self) -> dict[int, Filter]:
        return dict(self.advertised)

    def local_filters(self) -> dict[int, Filter]:
        return dict(self.subscribed)


class Site:
    """One broker: its view of the overlay, and its strategy."""

    def __init__(self, me: int, map: LinkStateDatabase, strategy: StrategyFactory) -> None:
        self.me = me
        self.neighbours: dict[int, Neighbour] = {}
        self.routes = ForwardingTable(me, map, self.neighbours)
        self.topology = OverlayTopology(me, map, self.routes)
        self.interest = GivenInterest()
        self.strategy = strategy(self.topology, self.interest)
        self.shortest_paths = ShortestPaths(self.topology, self.interest)


@dataclass
class Journey:
    """Where the copies of one event went."""

    reached: Counter[int] = field(default_factory=Counter)
    """How often each destination got it."""
    unreachable: set[int] = field(default_factory=set)
    looped: set[int] = field(default_factory=set)
    """Destinations of copies whose path was full."""
    copies: list[tuple[int, int]] = field(default_factory=list)
    """From which broker to which each copy went."""


class StrategyNet:
    """The strategies of several brokers over one graph, whose link-state databases are equal at any time."""

    def __init__(self, links: Mapping[tuple[int, int], int], strategy: StrategyFactory) -> None:
        """`links` gives the delay of each link in microseconds."""
        self.links = {tuple(sorted(link)): delay_us for link, delay_us in links.items()}
        self.map = LinkStateDatabase()
        self.now = 0.0
        brokers = sorted({broker for link in links for broker in link})
        self.sites = {broker: Site(broker, self.map, strategy) for broker in brokers}
        self._version = 0
        self._messages: list[tuple[float, int, int, int, bytes]] = []
        self._last_s: dict[tuple[int, int], float] = {}
        self._sent = 0
        for broker in brokers:
            self._put(broker)
        self._notify()
        self.run()

    # --- changes ------------------------------------------------------------------------------------------------------

    def set_delay(self, near: int, far: int, delay_us: int | None) -> None:
        """Set the delay of a link at both ends. None cuts the link."""
        link = tuple(sorted((near, far)))
        self.links.pop(link, None)
        if delay_us is not None:
            self.links[link] = delay_us
        self._put(near)
        self._put(far)
        self._notify()

    def advertise(self, broker: int, number: int, text: str | None) -> None:
        """Add, replace or withdraw an advertisement of a broker's clients."""
        self._set(self.sites[broker].interest.advertised, number, text)
        self._interest_changed(broker)

    def subscribe(self, broker: int, number: int, text: str | None) -> None:
        """Add or remove a filter of a broker's clients."""
        self._set(self.sites[broker].interest.subscribed, number, text)
        self._interest_changed(broker)

    def inject(self, source: int, to: int, body: bytes) -> None:
        """Let a broker take a message as if its neighbour had sent it. What it sends on travels as usual."""
        self.sites[to].strategy.receive_control(source, body, self.now)
        self._take(self.sites[to])

    def run(self, steps: float = math.inf) -> None:
        """Deliver messages and run timers, in the order of time, until none are left or so many steps are done."""
        while steps > 0:
            timers = [
                (at, broker) for broker, site in self.sites.items() if (at := site.strategy.next_deadline()) is not None
            ]
            timer = min(timers, default=(math.inf, 0))
            if not self._messages and timer[0] == math.inf:
                return
            steps -= 1
            if self._messages and self._messages[0][0] <= timer[0]:
                self.now, _, source, to, body = heapq.heappop(self._messages)
                if to in self.sites[source].neighbours:
                    self.inject(source, to, body)
            else:
                self.now = max(self.now, timer[0])
                self.sites[timer[1]].strategy.tick(self.now)
                self._take(self.sites[timer[1]])

    # --- events -------------------------------------------------------------------------------------------------------

    def publish(self, root: int, attributes: Mapping[str, Any], homes: Sequence[int]) -> Journey:
        """Walk an event from its root to its destinations. Check every plan."""
        frame = Publish(Confirm.NONE, encode_block(Event(dict(attributes), b"", 9, 1, 0)))
        journey = Journey()
        at_root = (root, 0, (), [(home, 1, 0) for home in homes])
        copies: deque[tuple[int, int, tuple[int, ...], Sequence[Destination]]] = deque([at_root])
        while copies:
            at, tree, path, to = copies.popleft()
            site = self.sites[at]
            journey.reached.update(home for home, _, _ in to if home == at)
            rest = [destination for destination in to if destination[0] != at]
            if not rest:
                continue
            if len(path) == PATH_MAX:
                journey.looped.update(home for home, _, _ in rest)
                continue
            strategy = site.strategy if tree or not path else site.shortest_paths
            envelope = Envelope(frame, root, tree, 0, 0, path)
            plan = strategy.plan(envelope, rest, self.now)
            check_plan(plan, envelope, rest, site.topology if strategy.loop_free else None)
            journey.unreachable.update(home for home, _, _ in plan.unreachable)
            for copy in plan.links:
                journey.copies.append((at, copy.neighbour))
                copies.append((copy.neighbour, copy.tree, (*path, at), copy.destinations))
        return journey

    def tables(self, broker: int) -> TreeTables:
        """Return the tables of the TID paper at a broker."""
        strategy = self.sites[broker].strategy
        assert isinstance(strategy, PaperTid)
        return strategy.tables

    # --- inside -------------------------------------------------------------------------------------------------------

    def _put(self, broker: int) -> None:
        """Flood the link state of a broker to all, and set its neighbours."""
        self._version += 1
        delays_us = {(set(link) - {broker}).pop(): us for link, us in sorted(self.links.items()) if broker in link}
        self.map.put(LinkState(broker, self._version, f"b{broker}", tuple(delays_us), tuple(delays_us.values())))
        neighbours = self.sites[broker].neighbours
        neighbours.clear()
        for far, delay_us in delays_us.items():
            neighbours[far] = Neighbour(far, f"b{far}", far, self.now, delay_us=delay_us)

    def _notify(self) -> None:
        for site in self.sites.values():
            site.routes.stale()
            site.strategy.topology_changed(self.now)
            self._take(site)

    def _set(self, filters: dict[int, Filter], number: int, text: str | None) -> None:
        filters.pop(number, None)
        if text is not None:
            filters[number] = parse(text)

    def _interest_changed(self, broker: int) -> None:
        site = self.sites[broker]
        site.interest.revision += 1
        site.strategy.interest_changed(broker, self.now)
        self._take(site)

    def _take(self, site: Site) -> None:
        for action in site.strategy.take_actions():
            assert isinstance(action, SendControl)
            link = (site.me, action.to)
            delay_us = self.map.cost_us(*link)
            if delay_us is None:
                continue  # a last hop whose link is gone; the overlay drops such messages as well
            at = max(self.now + delay_us / 1e6, self._last_s.get(link, 0.0))
            self._last_s[link] = at
            self._sent += 1
            heapq.heappush(self._messages, (at, self._sent, site.me, action.to, action.body))
