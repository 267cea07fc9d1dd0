"""F_out: the children of a peer, at most m of them (Algorithm 1, lines 16 to 29; property 4).

With too many, the one that matters least by the chosen order is sent on with a hint. The thesis keeps coarse
subscriptions near the publishers, since they can serve others; ours keeps tight bounds there, since they have nowhere
else to go.
"""

from __future__ import annotations

from plait_core.limits import PEER_HINTS_MAX
from plait_core.wire.frame_types.peer_frames import (
    UNREACHED,
    Accept,
    Beat,
    Connect,
    Disconnect,
    PotentialParent,
    Profile,
    Pulse,
)

from ..outputs import PeerId
from ..peer_state import PeerState
from ..policies import Rank, expected
from ..reputation import Reputation
from ..subspaces import Texts, covered, related, touched, uncovered
from .candidate_view import CandidateView
from .connections import Child
from .parents import Parents


class Children:
    """All connections to children."""

    __slots__ = ("_conduct", "_crowded", "_incoming", "_me", "_views", "changes", "children")

    def __init__(self, me: PeerState, views: CandidateView, incoming: Parents, conduct: Reputation) -> None:
        self._me = me
        self._views = views
        self._incoming = incoming
        self._conduct = conduct
        self.children: dict[PeerId, Child] = {}
        self._crowded: tuple[PeerId, ...] | None = ()
        self.changes = 0
        """Rises with every change of who wants what."""

    def free(self) -> int:
        """Children that could be taken without sending one away, at the fullest point."""
        return max(0, self._me.settings.children_max - len(self._crowd()))

    # --- requests ---------------------------------------------------------------------------------------------------

    def request(self, peer: PeerId, connect: Connect, now: float) -> None:
        """Line 16."""
        known = self.children.get(peer)
        if connect.profile.peer != peer or connect.profile.publisher or not self._conduct.admits(peer):
            return
        dz = self._ours(connect.dz)
        if known is not None and not uncovered(dz, known.dz) and dz:
            self._put(peer, Child(connect.profile, dz, known.since, now))  # less than before: nobody is in its way
            self._accept(peer, now)
            return
        if known is not None:
            self._remove(peer)
        if not dz or not self._may_join(connect.profile, dz):
            self._refuse(peer, connect)
            return
        self._join(peer, connect, dz, now)

    def _ours(self, dz: Texts) -> Texts:
        """The part of what is wanted that we have: publishers have what their advertisement touches."""
        return touched(dz, self._me.dz) if self._me.publisher else covered(dz, self._me.dz)

    def _may_join(self, child: Profile, dz: Texts) -> bool:
        """Line 17, or 2.7. A publisher violates nobody's bound; and two are not each other's parents for one thing."""
        me = self._me
        if me.publisher:
            return True
        upper = self._incoming.parents.get(child.peer)
        if upper is not None and related(upper.dz, dz):
            return False
        delay, link = self._incoming.delay(dz), me.link_cost(child)
        return me.policies.may_connect.allows(None, delay, me.bound, child.bound, link)

    def _join(self, peer: PeerId, connect: Connect, dz: Texts, now: float) -> None:
        """Lines 18 to 26; the acknowledgement goes to the peer that joins (PAPERS.md, correction 4)."""
        self._put(peer, Child(connect.profile, dz, now, now))
        gone = self._peers_to_disconnect(peer, now)
        if peer in gone:
            self._remove(peer)
            self._refuse(peer, connect)
            return
        for other in gone:
            child = self._remove(other)
            self._me.send(other, Disconnect("for another"))
            self._me.send(other, PotentialParent(False, child.dz, self._hints(child.dz, child.profile)))
        self._accept(peer, now)

    def _accept(self, peer: PeerId, now: float) -> None:
        child = self.children[peer]
        child.told_version = self._me.profile.version
        sources = self._tell_sources(child)
        self._me.send(peer, Accept(self._me.profile, child.dz, tuple(sources), tuple(sources.values())))

    def _refuse(self, peer: PeerId, connect: Connect) -> None:
        """Lines 27 to 29, and what would have to be beaten."""
        bar = self._bar()
        hints = self._hints(connect.dz, connect.profile)
        self._me.send(peer, PotentialParent(True, connect.dz, hints, *bar))

    # --- choosing ---------------------------------------------------------------------------------------------------

    def _crowd(self) -> tuple[PeerId, ...]:
        """The children that fill the fullest place."""
        if self._crowded is None:
            self._crowded = self._crowd_of(self.children)
        return self._crowded

    def _crowd_of(self, children: dict[PeerId, Child]) -> tuple[PeerId, ...]:
        taken = {peer: child.dz for peer, child in children.items()}
        return self._me.policies.may_connect.competing(taken, self._me.settings.links_max)

    def _put(self, peer: PeerId, child: Child) -> None:
        self.children[peer] = child
        self._crowded = None
        self.changes += 1

    def _remove(self, peer: PeerId) -> Child:
        self._crowded = None
        self.changes += 1
        return self.children.pop(peer)

    def _peers_to_disconnect(self, new: PeerId, now: float) -> list[PeerId]:
        """Lines 19 and 20. Of two that matter the same, the new one goes: nobody moves for nothing. But first of all
        whoever has been quiet for longer than the living are."""
        gone: list[PeerId] = []
        left = dict(self.children)
        below_sibling = self.below_sibling()

        quiet_s = self._me.settings.suspicion_periods * self._me.settings.period_s

        def importance(peer: PeerId) -> tuple[bool, Rank, bool]:
            return now - left[peer].heard <= quiet_s, self._rank(left[peer], below_sibling), peer != new

        while True:
            crowded = self._crowd_of(left)
            if len(crowded) <= self._me.settings.children_max:
                return gone
            least = min(crowded, key=importance)
            gone.append(least)
            if least == new:
                return gone
            del left[least]

    def _bar(self) -> tuple[float, float]:
        """Share and bound of the child that would have to go next; what anyone beats, when there is a place."""
        crowded = self._crowd()
        if len(crowded) < self._me.settings.children_max:
            return (0.0, UNREACHED)
        below_sibling = self.below_sibling()
        least = min((self.children[peer] for peer in crowded), key=lambda child: self._rank(child, below_sibling))
        return (least.volume, least.profile.bound)

    def below_sibling(self) -> float:
        """The delay of a child's child."""
        at = expected(self._incoming.delay(self._me.dz), self._me.bound)
        return at + 2 * self._me.link_cost()

    def _rank(self, child: Child, below_sibling: float) -> Rank:
        return self._me.policies.parents.rank_child(child.volume, child.profile.bound, below_sibling)

    def _hints(self, dz: Texts, child: Profile) -> tuple[Profile, ...]:
        """`findBestParent` among those we know and our own children (lines 22 and 28): who has a place, covers most."""
        me = self._me
        below = me.link_cost()
        at = expected(self._incoming.delay(dz), me.bound)
        ranked: list[tuple[bool, int, float, PeerId, Profile]] = []
        for other in (*self._views.profiles(), *[entry.profile for entry in self.children.values()]):
            if other.peer == child.peer or other.publisher or other.bound == child.bound == UNREACHED:
                continue
            fits = me.may_join(other, child.bound) or (
                other.peer in self.children and at + below + below <= child.bound and other.bound <= child.bound
            )
            if fits and (count := len(covered(dz, other.dz))):
                ranked.append((other.free == 0, -count, me.rng.random(), other.peer, other))
        ranked.sort(key=lambda row: row[:4])
        most = min(me.policies.hints, PEER_HINTS_MAX)
        return tuple([row[4] for row in ranked[:most]])

    # --- keeping ----------------------------------------------------------------------------------------------------

    def pulse(self, peer: PeerId, pulse: Pulse, now: float) -> None:
        """A child is alive, and asks whether we are; whoever is no child learns it."""
        child = self.children.get(peer)
        if child is None:
            self._me.send(peer, Disconnect("no child"))
            return
        child.heard = now
        if pulse.profile is not None and pulse.profile.peer == peer:
            child.profile = pulse.profile
        self._beat(peer, child, pulse.number)

    def _beat(self, peer: PeerId, child: Child, number: int) -> None:
        sources = self._tell_sources(child)
        changed = child.told_version != self._me.profile.version
        child.told_version = self._me.profile.version
        profile = self._me.profile if changed else None
        self._me.send(peer, Beat(number, tuple(sources), tuple(sources.values()), profile))

    def tell(self) -> None:
        """Children hear at once when a publisher reaches us, or does no more: whoever is below them takes us for its
        own parent otherwise, and nobody below looks for a better one."""
        for peer, child in self.children.items():
            if self._sources_for(child).keys() != child.told_sources:
                self._beat(peer, child, 0)

    def _tell_sources(self, child: Child) -> dict[PeerId, float]:
        sources = self._sources_for(child)
        child.told_sources = frozenset(sources)
        return sources

    def _sources_for(self, child: Child) -> dict[PeerId, float]:
        sources = self._incoming.sources(child.dz)
        # What came from the child itself is no news to it: it would believe that we reach a publisher by ourselves.
        upper = self._incoming.parents.get(child.profile.peer)
        if upper is not None:
            sources = {peer: delay for peer, delay in sources.items() if peer not in upper.sources}
        return sources

    def drop(self, peer: PeerId, reason: str) -> None:
        """Send a child away."""
        if peer in self.children:
            self._remove(peer)
            self._me.send(peer, Disconnect(reason))

    def lost(self, peer: PeerId) -> None:
        """It is gone, or has left us."""
        if peer in self.children:
            self._remove(peer)

    def check(self, now: float) -> None:
        """Once a period: children that are silent, or that we no longer cover (Algorithm 3, line 6), are sent away."""
        silence_s = self._me.settings.silence_periods * self._me.settings.period_s
        for peer in [peer for peer, child in self.children.items() if now - child.heard > silence_s]:
            self.drop(peer, "silent")
        for peer, child in list(self.children.items()):
            if len(kept := self._ours(child.dz)) < len(child.dz):
                self.drop(peer, "not covered any more")
                self._me.send(peer, PotentialParent(False, child.dz, self._hints(child.dz, child.profile)))
                assert kept != child.dz, "what is covered stays"
