"""The search for parents: connectionManagement of Algorithm 1 (lines 9 to 15), hints, and publishers (2.4.3.1).

Subscribers are requested first. Publishers follow when no known subscriber suits, or when no parent forwards a new
publisher. A peer that refuses is requested again after a growing backoff. Its refusal names the rank to exceed, which
coarsening uses.
"""

from __future__ import annotations

from dataclasses import dataclass

from plait_core.wire.frame_types.peer_frames import UNREACHED, PotentialParent, Profile

from ..outputs import PeerId
from ..peer_state import PeerState
from ..reputation import Reputation
from ..subspaces import Texts, covered, covers, related
from .candidate_view import CandidateView
from .children import Children
from .parents import Parents

REFUSALS_MAX = 64
"""Refusals remembered."""
REFUSAL_PERIODS = 24
"""Periods after which a refusal is outdated."""

URGENT_PERIODS = 2
"""Periods after which a lost sub-space is requested of publishers too. Publishers exist for certain and know peers near
them; all candidates may have failed at once, or be below this peer."""

NEW_PUBLISHER_SHARE = 0.25
"""The share of a group that connects to a new publisher at once: one peer is enough, none is slow."""


@dataclass(slots=True)
class Refusal:
    """A peer that refused a request."""

    since: int
    retry_at: int
    backoff: int
    dz: Texts
    """The sub-spaces of the refusing peer, as far as known."""
    delay: float = 0.0
    """The delay of the refusing peer, as far as known."""
    bar_volume: float = 0.0
    bar_bound: float = UNREACHED


class ParentSearch:
    """The sub-spaces without a parent, and the next requests."""

    __slots__ = (
        "_candidates",
        "_children",
        "_parents",
        "_reputation",
        "_state",
        "_was_covered",
        "refusals",
        "uncovered_since",
    )

    def __init__(
        self, state: PeerState, candidates: CandidateView, parents: Parents, children: Children, reputation: Reputation
    ) -> None:
        self._state = state
        self._candidates = candidates
        self._parents = parents
        self._children = children
        self._reputation = reputation
        self.refusals: dict[PeerId, Refusal] = {}
        self.uncovered_since: dict[str, int] = {}
        self._was_covered = False
        """Whether everything was covered once: what is missing now was lost."""

    def every_period(self, now: float) -> None:
        """Request uncovered sub-spaces; every second period also new publishers."""
        self.request_missing(now)
        if self._state.period % 2 == 0:
            self._request_new_publishers(now)

    def request_missing(self, now: float) -> None:
        """Request sub-spaces that are uncovered or at risk, unless a recent request names them."""
        state, parents = self._state, self._parents
        missing = parents.missing()
        self.uncovered_since = {dz: self.uncovered_since.get(dz, state.period) for dz in missing}
        patience_s = state.settings.period_s if state.policies.prompt else UNREACHED
        recent = [request for request in parents.requests.values() if now - request.sent < patience_s]
        requested = {dz for request in recent for dz in request.dz}
        rest = [dz for dz in _canonical((*missing, *parents.at_risk(now))) if dz not in requested]
        unserved = self._request_from_subscribers(rest, now) if rest else []
        self._was_covered = self._was_covered or not missing
        urgent = [dz for dz in missing if state.period - self.uncovered_since[dz] >= URGENT_PERIODS]
        if urgent and self._was_covered and state.policies.prompt:
            unserved = urgent
        if unserved:
            self._request_from_publishers(unserved, now)

    def _request_from_subscribers(self, rest: list[str], now: float) -> list[str]:
        """Request all uncovered sub-spaces of subscribers (lines 12 to 15). Return those that no candidate covers."""
        candidates = [profile for profile in self._candidates.profiles() if self._eligible(profile, now)]
        unserved: list[str] = []
        connects = 0
        while rest and connects < self._state.settings.connects_max:
            best = self.find_best_parent(rest[0], rest, candidates)
            if best is None:
                unserved.append(rest.pop(0))
                continue
            candidates.remove(best)
            self._candidates.subscribers.pop(best.peer, None)  # line 14
            dz = covered(tuple(rest), best.dz)
            rest = [each for each in rest if each not in dz]
            self._connect(best, dz, now)
            connects += 1
        return unserved

    def find_best_parent(self, dz: str, rest: list[str], candidates: list[Profile]) -> Profile | None:
        """Return the candidate that covers `dz` and has the least rank (at random among equals), or None."""
        state = self._state
        best: tuple[tuple[float, float, float, float], Profile] | None = None
        for profile in candidates:
            if not covers(profile.dz, dz):
                continue
            count = len(rest) if len(rest) == 1 else len(covered(tuple(rest), profile.dz))
            key = (*state.policies.parents.rank_candidate(profile, state.bound, count), state.rng.random())
            if best is None or key < best[0]:
                best = (key, profile)
        return best[1] if best else None

    def _eligible(self, profile: Profile, now: float) -> bool:
        state, peer = self._state, profile.peer
        if not state.may_join(profile, state.bound) or peer in self._parents.requests:
            return False
        if self._parents.avoided(peer) or self._reputation.shunned(peer) or self._parents.suspected(peer, now):
            return False
        refusal = self.refusals.get(peer)
        if refusal is not None and refusal.retry_at > state.period:
            return False
        child = self._children.by_id.get(peer)
        return child is None or not related(child.dz, state.dz)

    def _connect(self, profile: Profile, dz: Texts, now: float) -> None:
        """Request `dz` of a peer, in addition to what it already provides."""
        parent = self._parents.by_id.get(profile.peer)
        whole = tuple(sorted({*parent.dz, *dz})) if parent else dz
        self._parents.connect(profile.peer, _canonical(whole), now, profile.address)

    # --- publishers -------------------------------------------------------------------------------------------------

    def _request_from_publishers(self, unserved: list[str], now: float) -> None:
        """Request sub-spaces that no subscriber covers from all relevant publishers."""
        requests: dict[PeerId, tuple[Profile, list[str]]] = {}
        for dz in unserved:
            for profile in self._candidates.relevant(dz):
                if not self._parents.linked(profile.peer, dz):
                    requests.setdefault(profile.peer, (profile, []))[1].append(dz)
        for profile, texts in requests.values():
            if self._may_request(profile):
                self._connect(profile, tuple(texts), now)

    def _may_request(self, profile: Profile) -> bool:
        refusal = self.refusals.get(profile.peer)
        if refusal is not None and refusal.retry_at > self._state.period:
            return False
        return profile.peer not in self._parents.requests and not self._parents.avoided(profile.peer)

    def _request_new_publishers(self, now: float) -> None:
        """Connect to publishers that a settled parent does not forward: they are new to the group (2.4.3.1)."""
        parents, state = self._parents, self._state
        grace_s = state.settings.grace_periods * state.settings.period_s
        for dz in state.dz:
            parent = parents.subscriber_for(dz)
            if parent is None or not parent.sources or now - parent.since < grace_s:
                continue
            for profile in self._candidates.relevant(dz):
                known = profile.peer in parent.sources or parents.linked(profile.peer, dz)
                if not known and self._may_request(profile) and state.rng.random() < NEW_PUBLISHER_SHARE:
                    self._connect(profile, (dz,), now)

    def connect_publisher(self, publisher: PeerId, dz: str, now: float) -> None:
        """Connect to the publisher of an event that came from below and not from above (Algorithm 2, line 4)."""
        known = self._candidates.publishers.get(publisher)
        member = next((each for each in self._state.dz if dz.startswith(each)), None)
        if known is not None and member is not None and self._may_request(known[0]):
            self._connect(known[0], (member,), now)

    # --- answers ----------------------------------------------------------------------------------------------------

    def handle_hint(self, sender: PeerId, hint: PotentialParent, now: float) -> None:
        """Add hints to the candidates, and remember a refusal."""
        state = self._state
        for profile in hint.hints:
            useless = self._parents.avoided(profile.peer) or self._candidates.unresponsive(profile.peer)
            if not profile.publisher and not useless:
                self._candidates.update(profile, 0)
        request = self._parents.requests.pop(sender, None)
        self._parents.changed = True
        if not hint.refused or request is None:
            return
        if sender in self._parents.by_id:  # a refusal ends the present connection as well
            self._parents.lost(sender)
        before = self.refusals.pop(sender, None)
        known = self._candidates.publishers.get(sender) or self._candidates.subscribers.get(sender)
        backoff = min(2 * before.backoff if before else 1, state.settings.backoff_periods_max)
        retry_at = state.period + backoff + int(state.rng.random() * backoff)
        dz = known[0].dz if known else request.dz
        delay = known[0].delay if known else UNREACHED
        self.refusals[sender] = Refusal(state.period, retry_at, backoff, dz, delay, hint.bar_volume, hint.bar_bound)
        if len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]

    def accepted_by(self, peer: PeerId) -> None:
        """Forget the refusals of a peer that accepted."""
        self.refusals.pop(peer, None)

    def reset_backoff(self) -> None:
        """Allow requests to all peers again: the subscription has changed, so that they may answer differently."""
        for refusal in self.refusals.values():
            refusal.retry_at = self._state.period
        for peer, refusal in list(self.refusals.items()):
            if refusal.since + REFUSAL_PERIODS < self._state.period:
                del self.refusals[peer]


def _canonical(texts: Texts) -> Texts:
    """Sort texts and drop covered ones. Siblings stay separate, since they may get different parents."""
    kept: list[str] = []
    for dz in sorted(texts):
        if not kept or not dz.startswith(kept[-1]):
            kept.append(dz)
    return tuple(kept)
