"""F_in: the parents of a peer, so that every point of its subscription is covered exactly once (properties 1 and 3).

A sub-space is *settled* by one subscriber that covers it, or by all publishers that are relevant to it. Parents say
which publishers they pass on, and how late; that makes a peer's own delay, and tells which publishers are missing.
"""

from __future__ import annotations

from collections.abc import Iterable

from plait_core.limits import PEER_SOURCES_MAX
from plait_core.wire.frame_types.peer_frames import UNREACHED, Accept, Beat, Connect, Disconnect, Pulse

from ..outputs import PeerId
from ..peer_state import PeerState
from ..subspaces import Texts, covered, covers, touches, uncovered
from .candidate_view import CandidateView
from .connections import Parent, Request


class Parents:
    """All connections to parents, open or asked for."""

    __slots__ = ("_avoided", "_me", "_pulses", "_views", "parents", "requests", "shaken")

    def __init__(self, me: PeerState, views: CandidateView) -> None:
        self._me = me
        self._views = views
        self._pulses = 0
        self._avoided: dict[PeerId, int] = {}
        self.parents: dict[PeerId, Parent] = {}
        self.requests: dict[PeerId, Request] = {}
        self.shaken = False
        """Whether something has changed that should not wait for the next period: what covers us, or who reaches us."""

    # --- what is covered --------------------------------------------------------------------------------------------

    def subscriber_for(self, dz: str) -> Parent | None:
        """The subscriber that passes on this sub-space."""
        for parent in self.parents.values():
            if not parent.profile.publisher and covers(parent.dz, dz):
                return parent
        return None

    def settled(self, dz: str) -> bool:
        """Whether this sub-space is covered: the condition of Algorithm 1, line 12."""
        if self.subscriber_for(dz) is not None:
            return True
        relevant = self._views.relevant(dz)
        return bool(relevant) and all(self.linked(profile.peer, dz) for profile in relevant)

    def linked(self, publisher: PeerId, dz: str) -> bool:
        """Whether a publisher sends us this sub-space itself."""
        parent = self.parents.get(publisher)
        return parent is not None and covers(parent.dz, dz)

    def missing(self) -> Texts:
        """What is not settled."""
        return tuple([dz for dz in self._me.dz if not self.settled(dz)])

    def suspect(self, peer: PeerId, now: float) -> bool:
        """Whether this is a parent that has been quiet for longer than parents are."""
        parent, settings = self.parents.get(peer), self._me.settings
        return parent is not None and now - parent.heard > settings.suspicion_periods * settings.period_s

    def doubtful(self, now: float) -> Texts:
        """What is covered by a subscriber that may be dead."""
        if not self._me.policies.prompt:
            return ()
        suspects = [parent for peer, parent in self.parents.items() if self.suspect(peer, now)]
        found = {dz for parent in suspects if not parent.profile.publisher for dz in covered(self._me.dz, parent.dz)}
        return tuple(sorted(found))

    # --- delays -----------------------------------------------------------------------------------------------------

    def link_of(self, parent: Parent) -> float:
        """What the link from a parent adds to the delay."""
        return self._me.link_cost(parent.profile, parent.link_s)

    def sources_for(self, dz: str) -> dict[PeerId, float]:
        """The publishers that reach us with this sub-space, and how late."""
        found: dict[PeerId, float] = {}
        for peer, parent in self.parents.items():
            if not touches(parent.dz, dz):
                continue
            link = self.link_of(parent)
            if parent.profile.publisher:
                found[peer] = min(link, found.get(peer, UNREACHED))
                continue
            for source, delay in parent.sources.items():
                found[source] = min(delay + link, found.get(source, UNREACHED))
        return found

    def sources(self, texts: Texts) -> dict[PeerId, float]:
        """The publishers that reach us with all of these as far as they concern them, and how late at worst."""
        if self._me.publisher:
            return {self._me.id: 0.0}
        if len(texts) == 1:
            return self.sources_for(texts[0])
        found: dict[PeerId, float] = {}
        lacking: set[PeerId] = set()
        for dz in texts:
            reaching = self.sources_for(dz)
            for source, delay in reaching.items():
                found[source] = max(delay, found.get(source, 0.0))
            lacking.update(p.peer for p in self._views.relevant(dz) if p.peer not in reaching)
        return {source: delay for source, delay in found.items() if source not in lacking}

    def delay(self, texts: Texts) -> float:
        """D of these sub-spaces: that of the latest relevant publisher; UNREACHED if one does not reach us."""
        if self._me.publisher:
            return 0.0
        sources = self.sources(texts)
        if not sources or any(peer not in sources for peer in self._views.relevant_ids(texts)):
            return UNREACHED
        return max(sources.values())

    # --- opening and closing ----------------------------------------------------------------------------------------

    def ask(self, peer: PeerId, dz: Texts, now: float, address: str = "") -> None:
        """Request what we want of a parent from now on: all of it (line 15)."""
        assert dz, "a request for something"
        self.requests[peer] = Request(dz, now)
        self._me.counters.connects_sent += 1
        self._me.send(peer, Connect(self._me.profile, dz), address)

    def accepted(self, peer: PeerId, accept: Accept, now: float) -> bool:
        """Lines 30 to 33. False when the connection came too late to be of use, and was refused in turn."""
        request = self.requests.pop(peer, None)
        if request is None:
            if peer not in self.parents:
                self._me.send(peer, Disconnect("unasked"))
            return False
        dz = tuple([each for each in accept.dz if each in request.dz and (each in self._me.dz or peer in self.parents)])
        known = self.parents.get(peer)
        parent = Parent(accept.profile, dz, known.since if known else now, now, {}, known.link_s if known else None)
        parent.sources = _sources(accept.sources, accept.delays)
        parent.measured(now - request.sent)
        if not dz or not self._fits(parent):
            self.parents.pop(peer, None)
            self.avoid(peer)
            self._me.send(peer, Disconnect("too late"))
            return False
        self.parents[peer] = parent
        self.shaken = True
        if not parent.profile.publisher:
            self._release(peer, dz, now)
        return True

    def _release(self, new: PeerId, dz: Texts, now: float) -> None:
        """Line 33: what another subscriber passed on of `dz` comes from the new parent now."""
        for peer, parent in list(self.parents.items()):
            if peer != new and not parent.profile.publisher:
                self.narrow(peer, uncovered(parent.dz, dz), now)

    def narrow(self, peer: PeerId, dz: Texts, now: float) -> None:
        """Keep only this of a parent."""
        parent = self.parents[peer]
        if not dz:
            self.leave(peer, "covered elsewhere")
        elif dz != parent.dz:
            parent.dz = dz
            self.ask(peer, dz, now)

    def leave(self, peer: PeerId, reason: str, *, avoid: bool = False) -> None:
        """Disconnect from a parent."""
        self.requests.pop(peer, None)
        if self.parents.pop(peer, None) is not None:
            self.shaken = True
            self._me.send(peer, Disconnect(reason))
        if avoid:
            self.avoid(peer)

    def lost(self, peer: PeerId) -> None:
        """It is gone, or has sent us away."""
        asked = self.requests.pop(peer, None) is not None
        was = self.parents.pop(peer, None) is not None
        self.shaken = self.shaken or asked or was
        if was:
            self.avoid(peer)

    def avoid(self, peer: PeerId) -> None:
        """Do not ask it for a while."""
        self._views.subscribers.pop(peer, None)
        self._avoided[peer] = self._me.period + self._me.settings.avoid_periods

    def avoided(self, peer: PeerId) -> bool:
        """Whether it is not to be asked now."""
        return peer in self._avoided

    # --- time -------------------------------------------------------------------------------------------------------

    def check(self, now: float) -> list[PeerId]:
        """Once a period: parents that are silent or too late are left. Gives back those that are silent."""
        me = self._me
        silence_s = me.settings.silence_periods * me.settings.period_s
        self._avoided = {peer: until for peer, until in self._avoided.items() if until > me.period}
        for peer in [peer for peer, request in self.requests.items() if now - request.sent > silence_s]:
            del self.requests[peer]
            self.avoid(peer)
            self._views.mourn(peer)
        silent = [peer for peer, parent in self.parents.items() if now - parent.heard > silence_s]
        for peer in silent:
            self.leave(peer, "silent", avoid=True)
        for peer in [peer for peer, parent in self.parents.items() if not self._fits(parent)]:
            self.leave(peer, "too late", avoid=True)
        self._prune(now)
        return silent

    def _fits(self, parent: Parent) -> bool:
        """Whether what it says of its delays is within our bound (2.7)."""
        if parent.profile.publisher:
            return True
        settings = self._me.settings
        return self._me.policies.may_connect.keeps(
            max(parent.sources.values(), default=None),
            self.link_of(parent),
            self._me.bound,
            waited=parent.heard - parent.since,
            patience=settings.patience_periods * settings.period_s,
        )

    def _prune(self, now: float) -> None:
        """No point is covered twice: a publisher that a subscriber passes on need not send itself (2.4.4)."""
        for peer, parent in list(self.parents.items()):
            dz = tuple([each for each in parent.dz if not self._elsewhere(peer, parent, each)])
            if len(dz) < len(parent.dz):
                self.narrow(peer, dz, now)

    def _elsewhere(self, peer: PeerId, parent: Parent, dz: str) -> bool:
        if parent.profile.publisher:
            subscriber = self.subscriber_for(dz)
            return subscriber is not None and peer in subscriber.sources
        # What we no longer name ourselves is kept until what replaced it is settled without this parent.
        if covers(self._me.dz, dz) and dz not in self._me.dz:
            around = next(each for each in self._me.dz if dz.startswith(each))
            return self.settled(around)
        return not touches(self._me.dz, dz)

    def pulse(self, now: float) -> None:
        """Once a period: tell every parent that we are alive, and ask whether it is."""
        version = self._me.profile.version
        for peer, parent in self.parents.items():
            self._pulses += 1
            parent.asked = (self._pulses, now)
            changed = parent.told_version != version
            parent.told_version = version
            self._me.send(peer, Pulse(self._pulses, self._me.profile if changed else None))

    def beat(self, peer: PeerId, beat: Beat, now: float) -> bool:
        """A parent is alive; False when it is none of ours."""
        parent = self.parents.get(peer)
        if parent is None:
            return peer in self.requests
        parent.heard = now
        if beat.number and beat.number == parent.asked[0]:
            parent.measured(now - parent.asked[1])
        before, parent.sources = parent.sources, _sources(beat.sources, beat.delays)
        self.shaken = self.shaken or before.keys() != parent.sources.keys()
        if beat.profile is not None and beat.profile.peer == peer:
            parent.profile = beat.profile
            if not beat.profile.publisher and len(uncovered(parent.dz, beat.profile.dz)) > 0:
                self.narrow(peer, tuple([dz for dz in parent.dz if covers(beat.profile.dz, dz)]), now)
                return True
        return True


def _sources(peers: Iterable[PeerId], delays: Iterable[float]) -> dict[PeerId, float]:
    found = {peer: delay for peer, delay in zip(peers, delays, strict=True) if delay < UNREACHED}
    assert len(found) <= PEER_SOURCES_MAX, "bounded by the frame"
    return found
