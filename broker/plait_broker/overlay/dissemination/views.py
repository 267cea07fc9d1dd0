"""The read-only views of topology and interest that strategies get."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from plait_core.filters import Filter

from ..interest.advertisement_table import AdvertisementTable
from ..interest.interest_sync import InterestSync
from ..interest.remote_interest import RemoteInterest
from ..topology.forwarding_table import ForwardingTable
from ..topology.link_state import LinkStateDatabase
from .strategy import BrokerId, NextHop


class OverlayTopology:
    """The link-state database and the forwarding table, as the Protocol `Topology`."""

    def __init__(self, me: BrokerId, map: LinkStateDatabase, routes: ForwardingTable) -> None:
        self.me = me
        self._map = map
        self._routes = routes
        self.next_hop = routes.next_hop
        """Bound once: it runs for every event."""

    @property
    def revision(self) -> int:
        return self._map.revision

    @property
    def links_revision(self) -> int:
        return self._map.links_revision

    def next_hops(self, to: BrokerId, passed: Sequence[BrokerId] = ()) -> Sequence[NextHop]:
        found = [NextHop(neighbour.id, cost) for neighbour, cost in self._routes.feasible(to)]
        return [hop for hop in found if hop.neighbour not in passed]

    def feasible(self, to: BrokerId) -> Collection[BrokerId]:
        return self._routes.feasible_ids(to)

    def neighbours(self, broker: BrokerId) -> Mapping[BrokerId, int]:
        return self._map.costs_us(broker)

    def cost_us(self, near: BrokerId, far: BrokerId) -> int | None:
        return self._map.cost_us(near, far)

    def distance_us(self, near: BrokerId, far: BrokerId) -> int | None:
        return self._map.distances(far).get(near)


class OverlayInterest:
    """The filters of this broker and those that others have installed here, as the Protocol `InterestView`."""

    def __init__(
        self, me: BrokerId, interest: RemoteInterest, sync: InterestSync, advertisements: AdvertisementTable
    ) -> None:
        self._me = me
        self._interest = interest
        self._sync = sync
        self._advertisements = advertisements

    @property
    def revision(self) -> int:
        return self._interest.changes

    def brokers(self) -> Sequence[BrokerId]:
        return sorted(self._interest.homes)

    def filters(self, broker: BrokerId) -> Sequence[Filter]:
        return [filter for _, filter in self._interest.filters(broker)]

    def local_advertisements(self) -> dict[int, Filter]:
        filters = self._advertisements.filters
        return {number: filter for (origin, number), filter in filters.items() if origin == self._me}

    def local_filters(self) -> dict[int, Filter]:
        return self._sync.covering_filters()
