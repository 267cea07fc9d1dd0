"""The tables of the TID paper: SRT and PRT, built by messages between neighbours (section 3.1 of the paper).

An advertisement floods. Each broker keeps in its SRT the neighbour that it came from first: the next hop towards the
publisher. A subscription follows each tree that it intersects back to the root. Each broker on the way keeps in its PRT
the neighbour that it came from, for each tree. Roots flood again when links come or go, with a higher round number:
the paper's trees are static, and would otherwise keep links that are gone.

Neighbours are not trusted. Their messages are bounded (`table_quota.py`), change no entry of this broker's own trees
and subscriptions, and name origins that the link-state database has and trees that the SRT has. A hostile neighbour can
still give a wrong last hop or block later floods of a tree. So no guarantee may depend on these tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from plait_core.filters import Filter
from plait_core.limits import BROKERS_MAX

from .strategy import Action, BrokerId, InterestView, SendControl, Topology, TreeId
from .table_quota import TableQuota, filter_weight
from .tree_messages import TreeAdvertised, TreeMessage, TreeSubscribed, decode_message, encode_message, tree_id

FLOOD_DELAY_S: Final = 0.25
"""Delay of the next flood after a change of the topology: one link event shows as several changes in a row."""


class TableLimits(NamedTuple):
    """Bounds of the tables. An entry with a large filter counts as several. Refused entries have no path here."""

    trees_max: int = 32 * BROKERS_MAX
    """Trees that one broker stores: some advertisements for each broker of the largest overlay."""
    trees_per_root_max: int = 1024
    """Trees of one root: a thousand publishers there."""
    paths_max: int = 1 << 17
    """Last hops in the PRT: a hundred subscriptions with a few trees each, for each of some 300 brokers. One neighbour
    fills half of them, so it makes this broker keep at most some 256 MB."""
    paths_per_home_max: int = 1 << 14
    """Last hops of one home broker's subscriptions: a thousand with a path in each of 16 trees."""


TABLE_LIMITS: Final = TableLimits()

SubscriptionKey: TypeAlias = tuple[BrokerId, int]
"""A subscription: its home broker, and that broker's number for it."""


@dataclass(slots=True)
class Srt:
    """One advertisement, as flooded last."""

    root: BrokerId
    round: int
    filter: Filter
    last_hop: BrokerId
    """The neighbour that it came from first; this broker itself at the root."""
    weight: int
    subscriptions: dict[SubscriptionKey, None] = field(default_factory=dict)
    """The subscriptions that have a last hop for this tree."""


class LastHop(NamedTuple):
    """Where a subscription came from along one tree."""

    neighbour: BrokerId
    """This broker itself at the subscription's home."""
    round: int
    """The round of the tree."""
    weight: int


@dataclass(slots=True)
class Prt:
    """One subscription."""

    filter: Filter
    last_hops: dict[TreeId, LastHop] = field(default_factory=dict)


class TreeTables:
    """The SRT and the PRT of one broker."""

    def __init__(self, topology: Topology, interest: InterestView, limits: TableLimits = TABLE_LIMITS) -> None:
        self.srt: dict[TreeId, Srt] = {}
        self.prt: dict[SubscriptionKey, Prt] = {}
        self.counts: Counter[str] = Counter()
        self._numbers: dict[BrokerId, dict[int, None]] = {}
        """By home broker, the numbers of its subscriptions in the PRT."""
        self._hops: dict[BrokerId, dict[BrokerId, TreeId]] = {}
        """Cached results of `hops`, until the home broker's subscriptions change."""
        self._withdrawn: dict[TreeId, int] = {}
        """Rounds of withdrawn trees, the oldest first: a late copy of an earlier flood must not bring one back."""
        self._tree_quota = TableQuota(limits.trees_max, limits.trees_per_root_max)
        self._path_quota = TableQuota(limits.paths_max, limits.paths_per_home_max)
        self._limits = limits
        self._me = topology.me
        self._interest = interest
        self._topology = topology
        self._links_revision = -1
        self._round = 0
        self._own: dict[int, Filter] = {}
        """This broker's advertisements, as flooded last."""
        self._local: dict[int, Filter] = {}
        """This broker's own filters, as sent last."""
        self._flood_at = math.inf
        self._actions: list[Action] = []

    def own_trees(self) -> list[TreeId]:
        """Return the trees that this broker roots, in the order of its advertisements."""
        return [tree_id(self._me, number) for number in sorted(self._own)]

    def subscriptions(self, home: BrokerId) -> Iterator[Prt]:
        """Return the subscriptions of a home broker, in the order of their numbers."""
        return (self.prt[home, number] for number in sorted(self._numbers.get(home, ())))

    def hops(self, home: BrokerId) -> Mapping[BrokerId, TreeId]:
        """Return the last hops of a home broker's subscriptions, each with the first tree that gives it."""
        known = self._hops.get(home)
        if known is None:
            known = self._hops[home] = {}
            for entry in self.subscriptions(home):
                for tree, hop in entry.last_hops.items():
                    known.setdefault(hop.neighbour, tree)
        return known

    # --- changes ------------------------------------------------------------------------------------------------------

    def topology_changed(self, now: float) -> None:
        """Flood again soon if links have come or gone: trees may lead over links that are gone."""
        if self._links_revision != self._topology.links_revision:
            self._links_revision = self._topology.links_revision
            self._flood_at = min(self._flood_at, now + FLOOD_DELAY_S)

    def interest_changed(self, now: float) -> None:
        """Advertise and subscribe new filters of this broker's clients, and withdraw removed ones."""
        advertised, filters = self._interest.local_advertisements(), self._interest.local_filters()
        before, self._own = self._own, dict(advertised)
        self._flood({number: None for number in sorted(before.keys() - advertised.keys())})
        self._flood({number: filter for number, filter in advertised.items() if before.get(number) != filter})
        before, self._local = self._local, dict(filters)
        for number, filter in before.items():
            if filters.get(number) != filter:
                self._unsubscribe(number)
        for number, filter in filters.items():
            if before.get(number) != filter:
                self._subscribe(number, filter, list(self.srt))

    def tick(self, now: float) -> None:
        if now >= self._flood_at:
            self._flood_at = math.inf
            self._drop_unreachable()
            self._flood(self._own)

    def next_deadline(self) -> float | None:
        return None if self._flood_at == math.inf else self._flood_at

    def receive(self, source: BrokerId, body: bytes) -> None:
        """Handle a neighbour's message. Raise FrameError if it is malformed."""
        message = decode_message(body)
        origin = message.root if isinstance(message, TreeAdvertised) else message.home
        if origin == self._me:
            return  # a neighbour returns our own flood if another neighbour's copy reached it first
        if self._topology.distance_us(origin, self._me) is None:
            self.counts["tree_entries_refused"] += 1
        elif isinstance(message, TreeAdvertised):
            self._learn(message, source)
        else:
            self._learn_subscription(message, source)

    def take_actions(self) -> Sequence[Action]:
        taken, self._actions = self._actions, []
        return taken

    # --- the SRT ------------------------------------------------------------------------------------------------------

    def _flood(self, advertised: Mapping[int, Filter | None]) -> None:
        """Flood these advertisements of this broker. A filter of None withdraws one."""
        self._round += 1
        for number, filter in advertised.items():
            self._learn(TreeAdvertised(self._me, number, self._round, filter), self._me)

    def _learn(self, message: TreeAdvertised, source: BrokerId) -> None:
        """Store the first copy of a flood and send it on. Drop the others (section 3.1)."""
        tree, filter = message.tree, message.filter
        known = self.srt.get(tree)
        last = self._withdrawn.get(tree, -1) if known is None else known.round
        if last >= message.round or (known is None and filter is None):
            return
        if filter is None:
            self._drop_tree(tree)
            self._remember_withdrawn(tree, message.round)
        elif not self._store_tree(tree, message, filter, source):
            self.counts["tree_entries_refused"] += 1
            return
        neighbours = [neighbour for neighbour in self._topology.neighbours(self._me) if neighbour != source]
        self._send(neighbours, message)
        if filter is not None:
            for number, subscribed in self._local.items():
                self._subscribe(number, subscribed, [tree])

    def _store_tree(self, tree: TreeId, message: TreeAdvertised, filter: Filter, source: BrokerId) -> bool:
        """Store a flood. Return False if a bound refuses it; an entry of an earlier flood is then removed."""
        root, known = message.root, self.srt.get(tree)
        if known is not None and root != self._me:
            self._tree_quota.remove(known.last_hop, root, known.weight)
        weight = 0 if root == self._me else filter_weight(filter)
        if weight and not self._tree_quota.add(source, root, weight):
            if known is not None:
                self._drop_paths(tree, known.round + 1)
                del self.srt[tree]
            return False
        if known is not None:
            # Paths that the last flood did not renew belong to subscriptions that are gone or come another way.
            self._drop_paths(tree, known.round)
        self._withdrawn.pop(tree, None)
        subscriptions = {} if known is None else known.subscriptions
        self.srt[tree] = Srt(root, message.round, filter, source, weight, subscriptions)
        return True

    def _drop_tree(self, tree: TreeId) -> None:
        entry = self.srt[tree]
        self._drop_paths(tree, entry.round + 1)
        if entry.weight:
            self._tree_quota.remove(entry.last_hop, entry.root, entry.weight)
        del self.srt[tree]

    def _remember_withdrawn(self, tree: TreeId, round: int) -> None:
        self._withdrawn[tree] = round
        if len(self._withdrawn) > self._limits.trees_max:
            del self._withdrawn[next(iter(self._withdrawn))]

    def _drop_unreachable(self) -> None:
        """Drop entries of brokers that are gone, and entries that neighbours have sent whose links are gone."""
        self._hops.clear()
        hops = {self._me, *self._topology.neighbours(self._me)}
        for tree, entry in list(self.srt.items()):
            if entry.last_hop not in hops or self._topology.distance_us(entry.root, self._me) is None:
                self._drop_tree(tree)
        for key, subscription in list(self.prt.items()):
            gone = self._topology.distance_us(key[0], self._me) is None
            for tree, hop in list(subscription.last_hops.items()):
                if gone or hop.neighbour not in hops:
                    self._drop_path(key, tree)

    # --- the PRT ------------------------------------------------------------------------------------------------------

    def _subscribe(self, number: int, filter: Filter, trees: list[TreeId]) -> None:
        for tree in trees:
            entry = self.srt[tree]
            if entry.filter.intersects(filter):
                self._learn_subscription(TreeSubscribed(tree, entry.round, self._me, number, filter), self._me)

    def _unsubscribe(self, number: int) -> None:
        entry = self.prt.get((self._me, number))
        for tree, hop in list(entry.last_hops.items()) if entry is not None else ():
            self._learn_subscription(TreeSubscribed(tree, hop.round, self._me, number, None), self._me)

    def _learn_subscription(self, message: TreeSubscribed, source: BrokerId) -> None:
        """Store the last hop of a subscription, and send it on towards the root of its tree (section 3.1).

        A neighbour sends along a tree that it has from this broker, so its round is at most the one stored here.
        """
        tree, round, home, number, filter = message
        towards = self.srt.get(tree)
        if towards is None or round > towards.round:
            self.counts["tree_entries_refused"] += 1
            return
        if filter is None:
            if not self._drop_path((home, number), tree):
                return
        elif not self._store_path((home, number), tree, LastHop(source, round, self._weight(home, filter)), filter):
            return
        if towards.last_hop not in (self._me, source):
            self._send([towards.last_hop], message)

    def _weight(self, home: BrokerId, filter: Filter) -> int:
        return 0 if home == self._me else filter_weight(filter)

    def _store_path(self, key: SubscriptionKey, tree: TreeId, hop: LastHop, filter: Filter) -> bool:
        """Store a last hop. Return False if it is not newer than the one stored, or if a bound refuses it."""
        entry = self.prt.get(key)
        known = None if entry is None else entry.last_hops.get(tree)
        if known is not None and known.round >= hop.round:
            return False
        if known is not None:
            self._drop_path(key, tree)
        if hop.weight and not self._path_quota.add(hop.neighbour, key[0], hop.weight):
            self.counts["tree_entries_refused"] += 1
            return False
        entry = self.prt.setdefault(key, Prt(filter))
        entry.filter = filter
        entry.last_hops[tree] = hop
        self.srt[tree].subscriptions[key] = None
        self._numbers.setdefault(key[0], {})[key[1]] = None
        self._hops.pop(key[0], None)
        return True

    def _drop_paths(self, tree: TreeId, before: int) -> None:
        """Drop the last hops for a tree that belong to rounds before this one."""
        for key in list(self.srt[tree].subscriptions):
            if self.prt[key].last_hops[tree].round < before:
                self._drop_path(key, tree)

    def _drop_path(self, key: SubscriptionKey, tree: TreeId) -> bool:
        """Drop a last hop. Return False if there is none."""
        entry = self.prt.get(key)
        hop = None if entry is None else entry.last_hops.pop(tree, None)
        if entry is None or hop is None:
            return False
        if hop.weight:
            self._path_quota.remove(hop.neighbour, key[0], hop.weight)
        del self.srt[tree].subscriptions[key]
        self._hops.pop(key[0], None)
        if not entry.last_hops:
            del self.prt[key]
            del self._numbers[key[0]][key[1]]
            if not self._numbers[key[0]]:
                del self._numbers[key[0]]
        return True

    def _send(self, to: Sequence[BrokerId], message: TreeMessage) -> None:
        body = encode_message(message)
        self._actions += [SendControl(neighbour, body) for neighbour in to]
