"""Events on their way: Algorithm 2 of thesis 2.4.4.

Usually an event comes from a parent and goes to the children that want it. One that enters below the top, from a
publisher that only we know or from a child, goes up as well, so that the topmost peer meets the publisher. Its delay
accumulates; a parent whose events come too late is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from operator import lt

from plait_core.wire.frame_types.peer_frames import CHASE_HOPS_MAX, Happening

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
"""Ways that are remembered, each of a sub-space: then they are found anew."""
LATE_TOLERATED = 0.5
"""By so much of a link an event may be later than announced before that is held against anyone."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One way in."""

    link: float
    """What it adds to the delay."""
    late: float
    """Events that have taken longer are looked at with care."""
    member: str


class Dissemination:
    """What becomes of each event at one peer."""

    __slots__ = (
        "_before",
        "_blamed",
        "_conduct",
        "_custody",
        "_edges",
        "_highest",
        "_incoming",
        "_known",
        "_lanes",
        "_me",
        "_outgoing",
        "_rates",
        "_seeking",
    )

    def __init__(
        self,
        me: PeerState,
        incoming: Parents,
        outgoing: Children,
        seeking: ParentSearch,
        rates: Rates,
        conduct: Reputation,
        custody: ConfirmedDelivery,
    ) -> None:
        self._me = me
        self._incoming = incoming
        self._outgoing = outgoing
        self._seeking = seeking
        self._rates = rates
        self._conduct = conduct
        self._custody = custody
        self._edges: dict[tuple[PeerId, PeerId, str], Edge | None] = {}
        self._lanes: dict[str, tuple[PeerId, ...]] = {}
        self._known: set[tuple[PeerId, int]] = set()
        self._before: set[tuple[PeerId, int]] = set()
        """What was known when `_known` was begun anew: two halves of the window, for dropping one by one from a dict
        that has been dropped from before means to search for the first."""
        self._highest: dict[PeerId, int] = {}
        self._blamed: dict[PeerId, int] = {}

    def received(self, publisher: PeerId, number: int) -> bool:
        """Whether this event has come; of what is too old to be remembered nobody can say that it has not."""
        old = number <= self._highest.get(publisher, 0) - self._me.settings.duplicates_max // 2
        key = (publisher, number)
        return old or key in self._known or key in self._before

    def lane(self, dz: str) -> tuple[PeerId, ...]:
        """The children that want what a publisher says in a sub-space: the same until something has changed."""
        found = self._lanes.get(dz)
        if found is None:
            assert covers(self._me.dz, dz), "publishers publish what they advertise"
            if len(self._lanes) >= EDGES_MAX:
                self._lanes.clear()
            found = tuple([peer for peer, child in self._outgoing.children.items() if covers(child.dz, dz)])
            self._lanes[dz] = found
        return found

    def said(self, dz: str, events: int, lane: tuple[PeerId, ...]) -> None:
        """So many events have gone out along a lane."""
        self._rates.count(dz, next(each for each in self._me.dz if dz.startswith(each)), wanted=True, events=events)
        self._me.counters.events_sent += events * len(lane)

    def changed(self) -> None:
        """Connections, sub-spaces or delays may be others now: whatever was found out by them is void."""
        self._edges.clear()
        self._lanes.clear()

    def edge(self, sender: PeerId, publisher: PeerId, dz: str) -> Edge | None:
        """How events come in from a parent while nothing changes, if they end here."""
        key = (sender, publisher, dz)
        if key in self._edges:
            return self._edges[key]
        if len(self._edges) >= EDGES_MAX:
            self._edges.clear()
        found = self._edges[key] = self._find_edge(sender, publisher, dz)
        return found

    def _find_edge(self, sender: PeerId, publisher: PeerId, dz: str) -> Edge | None:
        me = self._me
        parent = self._incoming.parents.get(sender)
        member = next((each for each in me.dz if dz.startswith(each)), None)
        if me.publisher or parent is None or member is None or not covers(me.wanted, dz):
            return None
        if any(covers(child.dz, dz) for child in self._outgoing.children.values()):
            return None
        upper = self._incoming.subscriber_for(dz)
        if sender == publisher and upper is not None and publisher not in upper.sources:
            return None
        link = self._incoming.link_of(parent)
        said = parent.sources.get(publisher, me.bound)
        late = 0.0 if parent.profile.publisher else min(me.bound - link, said + LATE_TOLERATED * link)
        return Edge(link, me.bound if parent.profile.publisher else late, member)

    def arrive(self, edge: Edge, publisher: PeerId, numbers: list[int], dz: str) -> list[bool] | None:
        """Events that end here: which of them are new, None when all are. What `receive` does, where nothing but that
        can happen."""
        highest, counters = self._highest.get(publisher), self._me.counters
        count, found = len(numbers), None
        if highest is not None and highest < numbers[0] and all(map(lt, numbers, numbers[1:])):
            self._highest[publisher] = numbers[-1]  # nothing above the highest has ever come
            self._known.update(zip(repeat(publisher), numbers))
            self._window()
        else:
            found = [self._new(publisher, number) for number in numbers]
            count = sum(found)
            counters.duplicates += len(numbers) - count
        if count:
            self._rates.count(dz, edge.member, wanted=True, events=count)
            counters.delivered += count
        return found

    def publish(self, number: int, dz: str, block: bytes, *, confirm: bool = False) -> None:
        """A publisher's own event goes to all children that want it."""
        me = self._me
        assert me.publisher, "subscribers do not publish"
        assert covers(me.dz, dz), "publishers publish what they advertise"
        self._rates.count(dz, next(each for each in me.dz if dz.startswith(each)), wanted=True)
        event = Happening(me.id, number, dz, 0.0, 0, block, int(confirm))
        self._down(event, me.id)
        if confirm:
            self._custody.keep(event)

    def receive(self, sender: PeerId, event: Happening, now: float) -> None:
        """Algorithm 2."""
        me = self._me
        parent, from_child = self._incoming.parents.get(sender), sender in self._outgoing.children
        member = next((dz for dz in me.dz if event.dz.startswith(dz)), None)
        brought = event.round > 1 and sender == event.publisher and self._custody.knows(sender)
        if me.publisher or (parent is None and not from_child and not brought) or member is None:
            me.counters.outside += 1
            self._dropped(event, "not_allowed")
            if parent is None and not from_child and sender not in self._incoming.requests:
                self._conduct.blame(sender, Fault.OUTSIDE)
            return
        if event.round and self._custody.laden:
            return  # as if it had not come; it comes again
        if not self._first_time(event):
            if event.round:
                self._custody.again(event.publisher, event.number)
            return
        link = self._incoming.link_of(parent) if parent is not None else me.link_cost()
        event = Happening(
            event.publisher,
            event.number,
            event.dz,
            event.delay + link,
            min(event.hops + 1, CHASE_HOPS_MAX),
            event.block,
            event.round,
        )
        if from_child and event.publisher not in self._incoming.sources_for(member):
            self._seeking.meet(event.publisher, event.dz, now)  # lines 2 to 4
        wanted = covers(me.wanted, event.dz)
        if event.hops < CHASE_HOPS_MAX:
            if from_child or (sender == event.publisher and not brought):
                self._up(event, sender)
            self._down(event, sender)
        if event.round and wanted:
            self._custody.given(event.publisher, event.number)
        self._rates.count(event.dz, member, wanted=wanted)
        self._deliver(event, wanted=wanted)
        if parent is not None and not brought and not parent.profile.publisher:
            self._judge(sender, event)

    def _first_time(self, event: Happening) -> bool:
        new = self._new(event.publisher, event.number)
        if not new and event.round < 2:
            self._me.counters.duplicates += 1
            self._dropped(event, "duplicate")
        return new

    def _new(self, publisher: PeerId, number: int) -> bool:
        key = (publisher, number)
        if key in self._known or key in self._before:
            return False
        self._known.add(key)
        if number > self._highest.get(publisher, 0):
            self._highest[publisher] = number
            if len(self._highest) > self._me.settings.publishers_max:
                del self._highest[next(iter(self._highest))]
        self._window()
        return True

    def _window(self) -> None:
        if len(self._known) >= self._me.settings.duplicates_max:
            self._known, self._before = set(), self._known

    def _up(self, event: Happening, sender: PeerId) -> None:
        """Lines 6 to 8: to the subscriber above us, unless it has the publisher's events from above itself."""
        parent = self._incoming.subscriber_for(event.dz)
        if parent is None or parent.profile.peer in (sender, event.publisher) or event.publisher in parent.sources:
            return
        self._send(parent.profile.peer, event)

    def _down(self, event: Happening, sender: PeerId) -> None:
        """Lines 9 to 11."""
        for peer, child in self._outgoing.children.items():
            if peer != sender and covers(child.dz, event.dz):
                self._send(peer, event)

    def _send(self, peer: PeerId, event: Happening) -> None:
        self._me.counters.events_sent += 1
        self._me.out.append(Send(peer, "", event))

    def _deliver(self, event: Happening, *, wanted: bool) -> None:
        counters = self._me.counters
        if not wanted:
            counters.false_positives += 1
            self._dropped(event, "unmatched")
            return
        counters.delivered += 1
        counters.late += event.delay > self._me.bound
        self._me.out.append(
            Deliver(event.publisher, event.number, event.dz, event.delay, event.hops, event.block, event.round)
        )

    def _dropped(self, event: Happening, reason: str) -> None:
        if self._me.dropped is not None:
            self._me.dropped(event, reason)

    def _judge(self, sender: PeerId, event: Happening) -> None:
        """An event that is later than our bound parts us (2.4.4); later than its parent said, is held against that."""
        parent = self._incoming.parents[sender]
        said = parent.sources.get(event.publisher)
        link = self._incoming.link_of(parent)
        if said is not None and event.delay > said + link + LATE_TOLERATED * link:
            self._blame_once(sender)
        if event.delay > self._me.bound or self._conduct.shunned(sender):
            self._incoming.leave(sender, "too late", avoid=True)

    def _blame_once(self, parent: PeerId) -> None:
        """A tree that has changed makes many events later than announced until the next Beat says so: one fault a
        period, however many events there are."""
        period = self._me.period
        if self._blamed.get(parent) != period:
            self._blamed = {peer: at for peer, at in self._blamed.items() if at == period}
            self._blamed[parent] = period
            self._conduct.blame(parent, Fault.DELAY)
