"""Dissemination of events: Algorithm 2 of thesis 2.4.4.

Usually an event comes from a parent and goes to the children whose sub-spaces cover it. An event that enters below the
top, from a publisher that only this peer knows or from a child, also goes up, so that the topmost peer connects to the
publisher. Delays accumulate hop by hop. A peer leaves a parent whose events are too late.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import lt

from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, PeerEvent

from .confirmed_delivery import ConfirmedDelivery
from .outputs import Deliver, PeerId, Send
from .peer_state import PeerState
from .rates import Rates
from .reputation import Fault, Reputation
from .subspaces import covers
from .topology.children import Children
from .topology.parent_search import ParentSearch
from .topology.parents import Parents

EDGES_MAX = 4096
"""Cached edges and next-hop lists; when it is reached, the cache is cleared."""
LATE_TOLERATED = 0.5
"""The share of a link's delay by which an event may exceed its announced delay before its parent is blamed."""


@dataclass(frozen=True, slots=True)
class Edge:
    """An incoming edge: the path of one publisher's events in one sub-space from one parent, while they end here."""

    link: float
    """The delay that the link adds."""
    late: float
    """Events with a greater delay take the slow path, which checks them."""
    member: str


class Dissemination:
    """Forwards, delivers and counts the events of one peer."""

    __slots__ = (
        "_blamed",
        "_children",
        "_confirmed_delivery",
        "_edges",
        "_highest",
        "_next_hops",
        "_parent_search",
        "_parents",
        "_rates",
        "_reputation",
        "_seen",
        "_seen_before",
        "_state",
    )

    def __init__(
        self,
        state: PeerState,
        parents: Parents,
        children: Children,
        parent_search: ParentSearch,
        rates: Rates,
        reputation: Reputation,
        confirmed_delivery: ConfirmedDelivery,
    ) -> None:
        self._state = state
        self._parents = parents
        self._children = children
        self._parent_search = parent_search
        self._rates = rates
        self._reputation = reputation
        self._confirmed_delivery = confirmed_delivery
        self._edges: dict[tuple[PeerId, PeerId, str], Edge | None] = {}
        self._next_hops: dict[str, tuple[PeerId, ...]] = {}
        self._seen: set[tuple[PeerId, int]] = set()
        self._seen_before: set[tuple[PeerId, int]] = set()
        """The previous half of the duplicate window, since `_seen` was begun anew. Two sets instead of one dict with
        single removals: a dict that was removed from at its front is slow to iterate."""
        self._highest: dict[PeerId, int] = {}
        self._blamed: dict[PeerId, int] = {}

    def has_received(self, publisher: PeerId, number: int) -> bool:
        """Return whether an event was received. Events too old to be remembered count as received."""
        old = number <= self._highest.get(publisher, 0) - self._state.settings.duplicates_max // 2
        key = (publisher, number)
        return old or key in self._seen or key in self._seen_before

    def highest(self, publisher: PeerId) -> int:
        """Return the highest number of a publisher's events that were received; 0 if there are none."""
        return self._highest.get(publisher, 0)

    def next_hops(self, dz: str) -> tuple[PeerId, ...]:
        """Return the children that receive a publisher's events in a sub-space. Cached until connections change."""
        found = self._next_hops.get(dz)
        if found is None:
            assert covers(self._state.dz, dz), "publishers publish what they advertise"
            if len(self._next_hops) >= EDGES_MAX:
                self._next_hops.clear()
            found = tuple([peer for peer, child in self._children.by_id.items() if covers(child.dz, dz)])
            self._next_hops[dz] = found
        return found

    def count_published(self, dz: str, events: int, next_hops: tuple[PeerId, ...]) -> None:
        """Count events sent to these next hops."""
        self._rates.count(dz, next(each for each in self._state.dz if dz.startswith(each)), matched=True, events=events)
        self._state.counters.events_sent += events * len(next_hops)

    def forget_routes(self) -> None:
        """Clear the caches: connections, sub-spaces or delays have changed."""
        self._edges.clear()
        self._next_hops.clear()

    def edge(self, sender: PeerId, publisher: PeerId, dz: str) -> Edge | None:
        """Return the cached edge for a parent's events that end here, or None if they need the slow path."""
        key = (sender, publisher, dz)
        if key in self._edges:
            return self._edges[key]
        if len(self._edges) >= EDGES_MAX:
            self._edges.clear()
        found = self._edges[key] = self._find_edge(sender, publisher, dz)
        return found

    def _find_edge(self, sender: PeerId, publisher: PeerId, dz: str) -> Edge | None:
        state = self._state
        parent = self._parents.by_id.get(sender)
        member = next((each for each in state.dz if dz.startswith(each)), None)
        if state.publisher or parent is None or member is None or not covers(state.interest, dz):
            return None
        if any(covers(child.dz, dz) for child in self._children.by_id.values()):
            return None
        upper = self._parents.subscriber_for(dz)
        if sender == publisher and upper is not None and publisher not in upper.sources:
            return None
        link = self._parents.link_cost(parent)
        announced = parent.sources.get(publisher, state.bound)
        late = 0.0 if parent.profile.publisher else min(state.bound - link, announced + LATE_TOLERATED * link)
        return Edge(link, state.bound if parent.profile.publisher else late, member)

    def receive_batch(self, edge: Edge, publisher: PeerId, numbers: list[int], dz: str) -> list[bool] | None:
        """Receive events that end here. Return which of them are new; None when all are.

        Fast path of `receive` for events that only need to be counted and delivered.
        """
        highest, counters = self._highest.get(publisher), self._state.counters
        count, found = len(numbers), None
        if highest is not None and highest < numbers[0] and all(map(lt, numbers, numbers[1:])):
            self._highest[publisher] = numbers[-1]  # no number above the highest was received before
            self._seen.update(zip(repeat(publisher), numbers))
            self._rotate_seen()
        else:
            found = [self._record(publisher, number) for number in numbers]
            count = sum(found)
            counters.duplicates += len(numbers) - count
        if count:
            self._rates.count(dz, edge.member, matched=True, events=count)
            counters.delivered += count
        return found

    def publish(self, number: int, dz: str, block: bytes, *, confirm: bool = False) -> None:
        """Send a publisher's own event to all children that cover it."""
        state = self._state
        assert state.publisher, "subscribers do not publish"
        assert covers(state.dz, dz), "publishers publish what they advertise"
        self._rates.count(dz, next(each for each in state.dz if dz.startswith(each)), matched=True)
        event = PeerEvent(state.id, number, dz, 0.0, 0, block, int(confirm))
        self._forward_down(event, state.id)
        if confirm:
            self._confirmed_delivery.keep(event)

    def receive(self, sender: PeerId, event: PeerEvent, now: float) -> None:
        """Receive one event (Algorithm 2): check its sender, drop duplicates, forward, deliver."""
        state = self._state
        parent, from_child = self._parents.by_id.get(sender), sender in self._children.by_id
        member = next((dz for dz in state.dz if event.dz.startswith(dz)), None)
        direct = event.round > 1 and sender == event.publisher and self._confirmed_delivery.enrolled_with(sender)
        if state.publisher or (parent is None and not from_child and not direct) or member is None:
            state.counters.outside += 1
            self._report_drop(event, "not_allowed")
            if parent is None and not from_child and sender not in self._parents.requests:
                self._reputation.blame(sender, Fault.OUTSIDE)
            return
        if event.round and self._confirmed_delivery.backlog_full:
            return  # dropped unacked: the publisher retransmits it
        if not self._is_new(event):
            if event.round:
                self._confirmed_delivery.received_again(event.publisher, event.number)
            return
        link = self._parents.link_cost(parent) if parent is not None else state.link_cost()
        event = PeerEvent(
            event.publisher,
            event.number,
            event.dz,
            event.delay + link,
            min(event.hops + 1, CHASE_HOPS_MAX),
            event.block,
            event.round,
        )
        if from_child and event.publisher not in self._parents.sources_for(member):
            self._parent_search.connect_publisher(event.publisher, event.dz, now)  # lines 2 to 4
        matched = covers(state.interest, event.dz)
        if event.hops < CHASE_HOPS_MAX:
            if from_child or (sender == event.publisher and not direct):
                self._forward_up(event, sender)
            self._forward_down(event, sender)
        if event.round and matched:
            self._confirmed_delivery.delivered(event.publisher, event.number)
        self._rates.count(event.dz, member, matched=matched)
        self._deliver(event, matched=matched)
        if parent is not None and not direct and not parent.profile.publisher:
            self._check_delay(sender, event)

    def _is_new(self, event: PeerEvent) -> bool:
        new = self._record(event.publisher, event.number)
        if not new and event.round < 2:
            self._state.counters.duplicates += 1
            self._report_drop(event, "duplicate")
        return new

    def _record(self, publisher: PeerId, number: int) -> bool:
        key = (publisher, number)
        if key in self._seen or key in self._seen_before:
            return False
        self._seen.add(key)
        if number > self._highest.get(publisher, 0):
            self._highest[publisher] = number
            if len(self._highest) > self._state.settings.publishers_max:
                del self._highest[next(iter(self._highest))]
        self._rotate_seen()
        return True

    def _rotate_seen(self) -> None:
        if len(self._seen) >= self._state.settings.duplicates_max:
            self._seen, self._seen_before = set(), self._seen

    def _forward_up(self, event: PeerEvent, sender: PeerId) -> None:
        """Forward to the parent, unless the publisher's events reach the parent from above (lines 6 to 8)."""
        parent = self._parents.subscriber_for(event.dz)
        if parent is None or parent.profile.peer in (sender, event.publisher) or event.publisher in parent.sources:
            return
        self._send(parent.profile.peer, event)

    def _forward_down(self, event: PeerEvent, sender: PeerId) -> None:
        """Forward to the children that cover the event (lines 9 to 11)."""
        for peer, child in self._children.by_id.items():
            if peer != sender and covers(child.dz, event.dz):
                self._send(peer, event)

    def _send(self, peer: PeerId, event: PeerEvent) -> None:
        self._state.counters.events_sent += 1
        self._state.out.append(Send(peer, "", event))

    def _deliver(self, event: PeerEvent, *, matched: bool) -> None:
        counters = self._state.counters
        if not matched:
            counters.false_positives += 1
            self._report_drop(event, "unmatched")
            return
        counters.delivered += 1
        counters.late += event.delay > self._state.bound
        self._state.out.append(
            Deliver(event.publisher, event.number, event.dz, event.delay, event.hops, event.block, event.round)
        )

    def _report_drop(self, event: PeerEvent, reason: str) -> None:
        if self._state.on_drop is not None:
            self._state.on_drop(event, reason)

    def _check_delay(self, sender: PeerId, event: PeerEvent) -> None:
        """Leave a parent whose event exceeds the bound (2.4.4); blame a parent whose event exceeds its announced
        delay."""
        parent = self._parents.by_id[sender]
        announced = parent.sources.get(event.publisher)
        link = self._parents.link_cost(parent)
        if announced is not None and event.delay > announced + link + LATE_TOLERATED * link:
            self._blame_once(sender)
        if event.delay > self._state.bound or self._reputation.shunned(sender):
            self._parents.leave(sender, "too late", avoid=True)

    def _blame_once(self, parent: PeerId) -> None:
        """Blame a parent at most once a period. A change of the tree delays many events until the next Beat announces
        the new delay; together they are one fault."""
        period = self._state.period
        if self._blamed.get(parent) != period:
            self._blamed = {peer: at for peer, at in self._blamed.items() if at == period}
            self._blamed[parent] = period
            self._reputation.blame(parent, Fault.DELAY)
