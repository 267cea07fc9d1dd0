"""Finding parents: the procedure connectionManagement of Algorithm 1 (lines 9 to 15), hints, and publishers (2.4.3.1).

Subscribers are asked first; publishers when no known subscriber suits, or when one is new and no parent passes it on.
Whoever refuses is asked again after longer and longer times, and what it said would have to be beaten is kept for
coarsening.
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
"""Who refused us lately, and what would have to be beaten there."""
REFUSAL_PERIODS = 24
"""After that, a refusal says nothing any more."""

URGENT_PERIODS = 2
"""What was covered before and has been missing for so long is asked of publishers too, who are there for certain and
know who is near them: those known from elsewhere may all have gone at once, or be below us."""

GREETING_SHARE = 0.25
"""How many of a group turn to a new publisher at once: one is enough, none is slow."""


@dataclass(slots=True)
class Refusal:
    """One who has no place for us."""

    at: int
    again: int
    wait: int
    dz: Texts
    """Its own sub-spaces, as far as known."""
    delay: float = 0.0
    """Its own delay, as far as known."""
    bar_volume: float = 0.0
    bar_bound: float = UNREACHED


class ParentSearch:
    """What is uncovered since when, and whom to ask next."""

    __slots__ = ("_conduct", "_incoming", "_me", "_orphaned", "_outgoing", "_views", "refusals", "uncovered_since")

    def __init__(
        self, me: PeerState, views: CandidateView, incoming: Parents, outgoing: Children, conduct: Reputation
    ) -> None:
        self._me = me
        self._views = views
        self._incoming = incoming
        self._outgoing = outgoing
        self._conduct = conduct
        self.refusals: dict[PeerId, Refusal] = {}
        self.uncovered_since: dict[str, int] = {}
        self._orphaned = False
        """Whether everything has been covered before: what is missing has been lost."""

    def seek(self, now: float) -> None:
        """Once a period: ask for what is not covered."""
        self.look(now)
        if self._me.period % 2 == 0:
            self._greet_publishers(now)

    def look(self, now: float) -> None:
        """Ask for what is not covered, or by one who may be dead, and was not asked for just now."""
        me, incoming = self._me, self._incoming
        missing = incoming.missing()
        self.uncovered_since = {dz: self.uncovered_since.get(dz, me.period) for dz in missing}
        patience_s = me.settings.period_s if me.policies.prompt else UNREACHED
        recent = [request for request in incoming.requests.values() if now - request.sent < patience_s]
        asked = {dz for request in recent for dz in request.dz}
        rest = [dz for dz in _canonical((*missing, *incoming.doubtful(now))) if dz not in asked]
        alone = self._ask_subscribers(rest, now) if rest else []
        self._orphaned = self._orphaned or not missing
        urgent = [dz for dz in missing if me.period - self.uncovered_since[dz] >= URGENT_PERIODS]
        if urgent and self._orphaned and me.policies.prompt:
            alone = urgent
        if alone:
            self._ask_publishers(alone, now)

    def _ask_subscribers(self, rest: list[str], now: float) -> list[str]:
        """Lines 12 to 15, for all that is uncovered at once. Gives back what nobody known can cover."""
        candidates = [profile for profile in self._views.profiles() if self._eligible(profile, now)]
        alone: list[str] = []
        asks = 0
        while rest and asks < self._me.settings.asks_max:
            best = self.find_best_parent(rest[0], rest, candidates)
            if best is None:
                alone.append(rest.pop(0))
                continue
            candidates.remove(best)
            self._views.subscribers.pop(best.peer, None)  # line 14
            dz = covered(tuple(rest), best.dz)
            rest = [each for each in rest if each not in dz]
            self._ask(best, dz, now)
            asks += 1
        return alone

    def find_best_parent(self, dz: str, rest: list[str], candidates: list[Profile]) -> Profile | None:
        """Return the candidate that covers `dz` and has the least rank, a random one of equals; None without one."""
        me = self._me
        best: tuple[tuple[float, float, float, float], Profile] | None = None
        for profile in candidates:
            if not covers(profile.dz, dz):
                continue
            count = len(rest) if len(rest) == 1 else len(covered(tuple(rest), profile.dz))
            key = (*me.policies.parents.rank_candidate(profile, me.bound, count), me.rng.random())
            if best is None or key < best[0]:
                best = (key, profile)
        return best[1] if best else None

    def _eligible(self, profile: Profile, now: float) -> bool:
        me, peer = self._me, profile.peer
        if not me.may_join(profile, me.bound) or peer in self._incoming.requests:
            return False
        if self._incoming.avoided(peer) or self._conduct.shunned(peer) or self._incoming.suspect(peer, now):
            return False
        refusal = self.refusals.get(peer)
        if refusal is not None and refusal.again > me.period:
            return False
        child = self._outgoing.children.get(peer)
        return child is None or not related(child.dz, me.dz)

    def _ask(self, profile: Profile, dz: Texts, now: float) -> None:
        """All that we want of it from now on is what it gives us already, and this."""
        parent = self._incoming.parents.get(profile.peer)
        whole = tuple(sorted({*parent.dz, *dz})) if parent else dz
        self._incoming.ask(profile.peer, _canonical(whole), now, profile.address)

    # --- publishers -------------------------------------------------------------------------------------------------

    def _ask_publishers(self, alone: list[str], now: float) -> None:
        """What no subscriber covers must come from all relevant publishers."""
        wanted: dict[PeerId, tuple[Profile, list[str]]] = {}
        for dz in alone:
            for profile in self._views.relevant(dz):
                if not self._incoming.linked(profile.peer, dz):
                    wanted.setdefault(profile.peer, (profile, []))[1].append(dz)
        for profile, texts in wanted.values():
            if self._open_to(profile):
                self._ask(profile, tuple(texts), now)

    def _open_to(self, profile: Profile) -> bool:
        refusal = self.refusals.get(profile.peer)
        if refusal is not None and refusal.again > self._me.period:
            return False
        return profile.peer not in self._incoming.requests and not self._incoming.avoided(profile.peer)

    def _greet_publishers(self, now: float) -> None:
        """A publisher that a settled parent does not pass on is new to the group: we let it in (2.4.3.1)."""
        incoming, me = self._incoming, self._me
        grace_s = me.settings.grace_periods * me.settings.period_s
        for dz in me.dz:
            parent = incoming.subscriber_for(dz)
            if parent is None or not parent.sources or now - parent.since < grace_s:
                continue
            for profile in self._views.relevant(dz):
                known = profile.peer in parent.sources or incoming.linked(profile.peer, dz)
                if not known and self._open_to(profile) and me.rng.random() < GREETING_SHARE:
                    self._ask(profile, (dz,), now)

    def meet(self, publisher: PeerId, dz: str, now: float) -> None:
        """Algorithm 2, line 4: an event came up from below, and nobody above passes its publisher on."""
        known = self._views.publishers.get(publisher)
        member = next((each for each in self._me.dz if dz.startswith(each)), None)
        if known is not None and member is not None and self._open_to(known[0]):
            self._ask(known[0], (member,), now)

    # --- answers ----------------------------------------------------------------------------------------------------

    def hinted(self, sender: PeerId, hint: PotentialParent, now: float) -> None:
        """A hint becomes a possible parent; a refusal is remembered."""
        me = self._me
        for profile in hint.hints:
            useless = self._incoming.avoided(profile.peer) or self._views.mourned(profile.peer)
            if not profile.publisher and not useless:
                self._views.update(profile, 0)
        request = self._incoming.requests.pop(sender, None)
        self._incoming.shaken = True
        if not hint.refused or request is None:
            return
        if sender in self._incoming.parents:  # it keeps what it has only if it says so, and it says no
            self._incoming.lost(sender)
        before = self.refusals.pop(sender, None)
        known = self._views.publishers.get(sender) or self._views.subscribers.get(sender)
        wait = min(2 * before.wait if before else 1, me.settings.backoff_periods_max)
        again = me.period + wait + int(me.rng.random() * wait)
        dz = known[0].dz if known else request.dz
        delay = known[0].delay if known else UNREACHED
        self.refusals[sender] = Refusal(me.period, again, wait, dz, delay, hint.bar_volume, hint.bar_bound)
        if len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]

    def taken(self, peer: PeerId) -> None:
        """A parent has accepted us."""
        self.refusals.pop(peer, None)

    def anew(self) -> None:
        """Our subscription has changed: everyone may answer differently now."""
        for refusal in self.refusals.values():
            refusal.again = self._me.period
        for peer, refusal in list(self.refusals.items()):
            if refusal.at + REFUSAL_PERIODS < self._me.period:
                del self.refusals[peer]


def _canonical(texts: Texts) -> Texts:
    """Sorted, without what another covers; siblings stay apart, since they may go different ways again."""
    kept: list[str] = []
    for dz in sorted(texts):
        if not kept or not dz.startswith(kept[-1]):
            kept.append(dz)
    return tuple(kept)
