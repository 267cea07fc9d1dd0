"""F_out: the children of a peer, at most m of them (Algorithm 1, lines 16 to 29; property 4).

Beyond m, the child with the least rank is disconnected, with hints to other parents. The thesis keeps coarse
subscriptions near the publishers, since they can serve others. Plait keeps tight bounds there, since no other place
suits them.
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

    __slots__ = ("_cached_competing", "_candidates", "_parents", "_reputation", "_state", "by_id", "changes")

    def __init__(self, state: PeerState, candidates: CandidateView, parents: Parents, reputation: Reputation) -> None:
        self._state = state
        self._candidates = candidates
        self._parents = parents
        self._reputation = reputation
        self.by_id: dict[PeerId, Child] = {}
        self._cached_competing: tuple[PeerId, ...] | None = ()
        self.changes = 0
        """Counts the changes of children and their sub-spaces."""

    def free(self) -> int:
        """Return the number of children that can be added at the most loaded point without disconnecting one."""
        return max(0, self._state.settings.children_max - len(self._competing()))

    # --- requests ---------------------------------------------------------------------------------------------------

    def handle_connect(self, peer: PeerId, connect: Connect, now: float) -> None:
        """Accept or refuse a connection request (line 16)."""
        known = self.by_id.get(peer)
        if connect.profile.peer != peer or connect.profile.publisher or not self._reputation.admits(peer):
            return
        dz = self._covered_part(connect.dz)
        if known is not None and not uncovered(dz, known.dz) and dz:
            self._put(peer, Child(connect.profile, dz, known.since, now))  # fewer sub-spaces: no competition
            self._accept(peer, now)
            return
        if known is not None:
            self._remove(peer)
        if not dz or not self._may_join(connect.profile, dz):
            self._refuse(peer, connect)
            return
        self._join(peer, connect, dz, now)

    def _covered_part(self, dz: Texts) -> Texts:
        """Return the requested sub-spaces that this peer covers; a publisher, those that its advertisement touches."""
        return touched(dz, self._state.dz) if self._state.publisher else covered(dz, self._state.dz)

    def _may_join(self, child: Profile, dz: Texts) -> bool:
        """Return whether a child may connect (line 17, or 2.7). Two peers are never each other's parents for one
        sub-space."""
        state = self._state
        if state.publisher:
            return True
        upper = self._parents.by_id.get(child.peer)
        if upper is not None and related(upper.dz, dz):
            return False
        delay, link = self._parents.delay(dz), state.link_cost(child)
        return state.policies.may_connect.allows(None, delay, state.bound, child.bound, link)

    def _join(self, peer: PeerId, connect: Connect, dz: Texts, now: float) -> None:
        """Add a child and disconnect those beyond m (lines 18 to 26). Accept goes to the child (PAPERS.md, correction
        4)."""
        self._put(peer, Child(connect.profile, dz, now, now))
        removed = self._peers_to_disconnect(peer, now)
        if peer in removed:
            self._remove(peer)
            self._refuse(peer, connect)
            return
        for other in removed:
            child = self._remove(other)
            self._state.send(other, Disconnect("for another"))
            self._state.send(other, PotentialParent(False, child.dz, self._hints(child.dz, child.profile)))
        self._accept(peer, now)

    def _accept(self, peer: PeerId, now: float) -> None:
        child = self.by_id[peer]
        child.sent_version = self._state.profile.version
        sources = self._record_sources(child)
        self._state.send(peer, Accept(self._state.profile, child.dz, tuple(sources), tuple(sources.values())))

    def _refuse(self, peer: PeerId, connect: Connect) -> None:
        """Refuse a request with hints (lines 27 to 29), and with the rank that would have to be exceeded."""
        bar = self._bar()
        hints = self._hints(connect.dz, connect.profile)
        self._state.send(peer, PotentialParent(True, connect.dz, hints, *bar))

    # --- ranking ----------------------------------------------------------------------------------------------------

    def _competing(self) -> tuple[PeerId, ...]:
        """Return the children that count against m."""
        if self._cached_competing is None:
            self._cached_competing = self._competing_of(self.by_id)
        return self._cached_competing

    def _competing_of(self, children: dict[PeerId, Child]) -> tuple[PeerId, ...]:
        taken = {peer: child.dz for peer, child in children.items()}
        return self._state.policies.may_connect.competing(taken, self._state.settings.links_max)

    def _put(self, peer: PeerId, child: Child) -> None:
        self.by_id[peer] = child
        self._cached_competing = None
        self.changes += 1

    def _remove(self, peer: PeerId) -> Child:
        self._cached_competing = None
        self.changes += 1
        return self.by_id.pop(peer)

    def _peers_to_disconnect(self, new: PeerId, now: float) -> list[PeerId]:
        """Return the children to disconnect (lines 19 and 20): silent ones first, then by rank.

        Of equal ranks the new child goes, so that no child moves without a gain.
        """
        removed: list[PeerId] = []
        left = dict(self.by_id)
        below_child = self.below_child()

        quiet_s = self._state.settings.suspicion_periods * self._state.settings.period_s

        def importance(peer: PeerId) -> tuple[bool, Rank, bool]:
            return now - left[peer].last_seen <= quiet_s, self._rank(left[peer], below_child), peer != new

        while True:
            competing = self._competing_of(left)
            if len(competing) <= self._state.settings.children_max:
                return removed
            least = min(competing, key=importance)
            removed.append(least)
            if least == new:
                return removed
            del left[least]

    def _bar(self) -> tuple[float, float]:
        """Return volume and bound of the child with the least rank; values that every child exceeds while a place is
        free."""
        competing = self._competing()
        if len(competing) < self._state.settings.children_max:
            return (0.0, UNREACHED)
        below_child = self.below_child()
        least = min((self.by_id[peer] for peer in competing), key=lambda child: self._rank(child, below_child))
        return (least.volume, least.profile.bound)

    def below_child(self) -> float:
        """Return the delay of a child's child."""
        at = expected(self._parents.delay(self._state.dz), self._state.bound)
        return at + 2 * self._state.link_cost()

    def _rank(self, child: Child, below_child: float) -> Rank:
        return self._state.policies.parents.rank_child(child.volume, child.profile.bound, below_child)

    def _hints(self, dz: Texts, child: Profile) -> tuple[Profile, ...]:
        """Return possible parents for a child (`findBestParent`, lines 22 and 28), from the candidates and the
        children.

        Those with a free place come first, then those that cover most.
        """
        state = self._state
        below = state.link_cost()
        at = expected(self._parents.delay(dz), state.bound)
        ranked: list[tuple[bool, int, float, PeerId, Profile]] = []
        for other in (*self._candidates.profiles(), *[entry.profile for entry in self.by_id.values()]):
            if other.peer == child.peer or other.publisher or other.bound == child.bound == UNREACHED:
                continue
            fits = state.may_join(other, child.bound) or (
                other.peer in self.by_id and at + below + below <= child.bound and other.bound <= child.bound
            )
            if fits and (count := len(covered(dz, other.dz))):
                ranked.append((other.free == 0, -count, state.rng.random(), other.peer, other))
        ranked.sort(key=lambda row: row[:4])
        most = min(state.policies.hints, PEER_HINTS_MAX)
        return tuple([row[4] for row in ranked[:most]])

    # --- keepalive --------------------------------------------------------------------------------------------------

    def handle_pulse(self, peer: PeerId, pulse: Pulse, now: float) -> None:
        """Answer a child's keepalive; disconnect a peer that is no child."""
        child = self.by_id.get(peer)
        if child is None:
            self._state.send(peer, Disconnect("no child"))
            return
        child.last_seen = now
        if pulse.profile is not None and pulse.profile.peer == peer:
            child.profile = pulse.profile
        self._send_beat(peer, child, pulse.number)

    def _send_beat(self, peer: PeerId, child: Child, number: int) -> None:
        sources = self._record_sources(child)
        changed = child.sent_version != self._state.profile.version
        child.sent_version = self._state.profile.version
        profile = self._state.profile if changed else None
        self._state.send(peer, Beat(number, tuple(sources), tuple(sources.values()), profile))

    def announce_sources(self) -> None:
        """Send a Beat to each child whose sources have changed. Until then its subtree counts on a publisher that no
        longer reaches this peer, and looks for no better parent."""
        for peer, child in self.by_id.items():
            if self._sources_for(child).keys() != child.sent_sources:
                self._send_beat(peer, child, 0)

    def _record_sources(self, child: Child) -> dict[PeerId, float]:
        sources = self._sources_for(child)
        child.sent_sources = frozenset(sources)
        return sources

    def _sources_for(self, child: Child) -> dict[PeerId, float]:
        sources = self._parents.sources(child.dz)
        # Split horizon: sources learned from the child itself are not announced to it.
        upper = self._parents.by_id.get(child.profile.peer)
        if upper is not None:
            sources = {peer: delay for peer, delay in sources.items() if peer not in upper.sources}
        return sources

    def drop(self, peer: PeerId, reason: str) -> None:
        """Disconnect a child."""
        if peer in self.by_id:
            self._remove(peer)
            self._state.send(peer, Disconnect(reason))

    def lost(self, peer: PeerId) -> None:
        """Remove a child that is dead or has left."""
        if peer in self.by_id:
            self._remove(peer)

    def check(self, now: float) -> None:
        """Disconnect children that are silent or no longer covered (Algorithm 3, line 6); called once a period."""
        silence_s = self._state.settings.silence_periods * self._state.settings.period_s
        for peer in [peer for peer, child in self.by_id.items() if now - child.last_seen > silence_s]:
            self.drop(peer, "silent")
        for peer, child in list(self.by_id.items()):
            if len(kept := self._covered_part(child.dz)) < len(child.dz):
                self.drop(peer, "not covered any more")
                self._state.send(peer, PotentialParent(False, child.dz, self._hints(child.dz, child.profile)))
                assert kept != child.dz, "only children with uncovered sub-spaces are disconnected"
