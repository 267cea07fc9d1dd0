"""The tables of the TID paper: SRT and PRT, built by messages between neighbours (section 3.1 of the paper).

An advertisement floods. Each broker keeps in its SRT the neighbour that it came from first: the next hop towards the
publisher. A subscription follows each tree that it intersects back to the root. Each broker on the way keeps in its PRT
the neighbour that it came from, for each tree. Roots flood again when links come or go, with a higher round number:
the paper's trees are static, and would otherwise keep links that are gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from plait_core.filters import Filter
from plait_core.limits import BROKERS_MAX

from .strategy import Action, BrokerId, InterestView, SendControl, Topology, TreeId
from .tree_messages import TreeAdvertised, TreeMessage, TreeSubscribed, decode_message, encode_message, tree_id

FLOOD_DELAY_S: Final = 0.25
"""Delay of the next flood after a change of the topology: one link event shows as several changes in a row."""

TREES_MAX: Final = 16 * BROKERS_MAX
"""Trees that one broker stores: some advertisements for each broker of the largest overlay. Others are ignored."""

PRT_MAX: Final = 1 << 18
"""Subscriptions in the PRT: some hundred for each broker of the largest overlay. Further ones have no path in it."""

SubscriptionKey: TypeAlias = tuple[BrokerId, int]
"""A subscription: its home broker, and that broker's number for it."""


class Srt(NamedTuple):
    """One advertisement, as flooded last."""

    root: BrokerId
    round: int
    filter: Filter
    last_hop: BrokerId
    """The neighbour that it came from first; this broker itself at the root."""


@dataclass(slots=True)
class Prt:
    """One subscription."""

    filter: Filter
    last_hops: dict[TreeId, tuple[BrokerId, int]] = field(default_factory=dict)
    """By tree, the neighbour that it came from (this broker itself at its home), and the round of the tree."""


class TreeTables:
    """The SRT and the PRT of one broker."""

    def __init__(self, topology: Topology, interest: InterestView) -> None:
        self.srt: dict[TreeId, Srt] = {}
        self.prt: dict[SubscriptionKey, Prt] = {}
        self._withdrawn: dict[TreeId, int] = {}
        """Rounds of withdrawn trees, the oldest first: a late copy of an earlier flood must not bring one back."""
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
        keys = sorted(key for key in self.prt if key[0] == home)
        return (self.prt[key] for key in keys)

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
        self._flood({number: None for number in before.keys() - advertised.keys()})
        self._flood({number: filter for number, filter in advertised.items() if before.get(number) != filter})
        for number in self._local.keys() - filters.keys():
            self._unsubscribe(number)
        for number, filter in filters.items():
            if self._local.get(number) != filter:
                self._subscribe(number, filter, list(self.srt))
        self._local = dict(filters)

    def tick(self, now: float) -> None:
        if now >= self._flood_at:
            self._flood_at = math.inf
            self._flood(self._own)

    def next_deadline(self) -> float | None:
        return None if self._flood_at == math.inf else self._flood_at

    def receive(self, source: BrokerId, body: bytes) -> None:
        """Handle a neighbour's message. Raise FrameError if it is malformed."""
        message = decode_message(body)
        if isinstance(message, TreeAdvertised):
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
            self._learn(TreeAdvertised(tree_id(self._me, number), self._me, self._round, filter), self._me)

    def _learn(self, message: TreeAdvertised, source: BrokerId) -> None:
        """Store the first copy of a flood and send it on. Drop the others (section 3.1)."""
        tree, root, round, filter = message
        known = self.srt.get(tree)
        last = self._withdrawn.get(tree, -1) if known is None else known.round
        if last >= round or (known is not None and known.root != root):
            return
        if filter is None:
            self._withdraw(tree, round)
        elif known is None and len(self.srt) >= TREES_MAX:
            return
        else:
            self._withdrawn.pop(tree, None)
            self.srt[tree] = Srt(root, round, filter, source)
        for neighbour in self._topology.neighbours(self._me):
            if neighbour != source:
                self._send(neighbour, message)
        if filter is not None:
            for number, subscribed in self._local.items():
                self._subscribe(number, subscribed, [tree])

    def _withdraw(self, tree: TreeId, round: int) -> None:
        self.srt.pop(tree, None)
        self._withdrawn[tree] = round
        if len(self._withdrawn) > TREES_MAX:
            del self._withdrawn[next(iter(self._withdrawn))]
        for key, entry in list(self.prt.items()):
            if entry.last_hops.pop(tree, None) is not None and not entry.last_hops:
                del self.prt[key]

    # --- the PRT ------------------------------------------------------------------------------------------------------

    def _subscribe(self, number: int, filter: Filter, trees: list[TreeId]) -> None:
        for tree in trees:
            entry = self.srt[tree]
            if entry.filter.intersects(filter):
                self._learn_subscription(TreeSubscribed(tree, entry.round, self._me, number, filter), self._me)

    def _unsubscribe(self, number: int) -> None:
        entry = self.prt.get((self._me, number))
        for tree, (_, round) in list(entry.last_hops.items()) if entry is not None else ():
            self._learn_subscription(TreeSubscribed(tree, round, self._me, number, None), self._me)

    def _learn_subscription(self, message: TreeSubscribed, source: BrokerId) -> None:
        """Store the last hop of a subscription, and send it on towards the root of its tree (section 3.1)."""
        tree, round, home, number, filter = message
        key = (home, number)
        entry = self.prt.get(key)
        if filter is None:
            if entry is None or entry.last_hops.pop(tree, None) is None:
                return
            if not entry.last_hops:
                del self.prt[key]
        elif entry is not None and entry.last_hops.get(tree, (0, -1))[1] >= round:
            return
        else:
            if entry is None:
                if len(self.prt) >= PRT_MAX:
                    return
                entry = self.prt[key] = Prt(filter)
            entry.filter = filter
            entry.last_hops[tree] = (source, round)
        towards = self.srt.get(tree)
        if towards is not None and towards.last_hop not in (self._me, source):
            self._send(towards.last_hop, message)

    def _send(self, to: BrokerId, message: TreeMessage) -> None:
        self._actions.append(SendControl(to, encode_message(message)))
