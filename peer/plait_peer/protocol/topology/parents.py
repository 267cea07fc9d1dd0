"""F_in: the parents of a peer, so that each point of its subscription is covered exactly once (properties 1 and 3).

A sub-space is *settled* by one subscriber that covers it, or by all publishers that are relevant to it. Parents
announce their sources: the publishers that reach them, with delays. From these follow the peer's own delay and the
publishers that do not reach it.
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
    """All connections to parents, open or requested."""

    __slots__ = ("_avoided", "_candidates", "_pulses", "_state", "by_id", "changed", "requests")

    def __init__(self, state: PeerState, candidates: CandidateView) -> None:
        self._state = state
        self._candidates = candidates
        self._pulses = 0
        self._avoided: dict[PeerId, int] = {}
        self.by_id: dict[PeerId, Parent] = {}
        self.requests: dict[PeerId, Request] = {}
        self.changed = False
        """Whether coverage or sources have changed in a way that should not wait for the next period."""

    # --- coverage ---------------------------------------------------------------------------------------------------

    def subscriber_for(self, dz: str) -> Parent | None:
        """Return the subscriber that forwards this sub-space."""
        for parent in self.by_id.values():
            if not parent.profile.publisher and covers(parent.dz, dz):
                return parent
        return None

    def settled(self, dz: str) -> bool:
        """Return whether this sub-space is settled: the condition of Algorithm 1, line 12."""
        if self.subscriber_for(dz) is not None:
            return True
        relevant = self._candidates.relevant(dz)
        return bool(relevant) and all(self.linked(profile.peer, dz) for profile in relevant)

    def linked(self, publisher: PeerId, dz: str) -> bool:
        """Return whether a publisher is a parent for this sub-space."""
        parent = self.by_id.get(publisher)
        return parent is not None and covers(parent.dz, dz)

    def missing(self) -> Texts:
        """Return the sub-spaces that are not settled."""
        return tuple([dz for dz in self._state.dz if not self.settled(dz)])

    def suspected(self, peer: PeerId, now: float) -> bool:
        """Return whether a parent has been silent for longer than usual."""
        parent, settings = self.by_id.get(peer), self._state.settings
        return parent is not None and now - parent.last_seen > settings.suspicion_periods * settings.period_s

    def at_risk(self, now: float) -> Texts:
        """Return the sub-spaces that a suspected subscriber covers."""
        if not self._state.policies.prompt:
            return ()
        suspects = [parent for peer, parent in self.by_id.items() if self.suspected(peer, now)]
        found = {dz for parent in suspects if not parent.profile.publisher for dz in covered(self._state.dz, parent.dz)}
        return tuple(sorted(found))

    # --- delays -----------------------------------------------------------------------------------------------------

    def link_cost(self, parent: Parent) -> float:
        """Return the delay that the link from a parent adds."""
        return self._state.link_cost(parent.profile, parent.link_s)

    def sources_for(self, dz: str) -> dict[PeerId, float]:
        """Return the publishers that reach the peer with this sub-space, and their delays."""
        found: dict[PeerId, float] = {}
        for peer, parent in self.by_id.items():
            if not touches(parent.dz, dz):
                continue
            link = self.link_cost(parent)
            if parent.profile.publisher:
                found[peer] = min(link, found.get(peer, UNREACHED))
                continue
            for source, delay in parent.sources.items():
                found[source] = min(delay + link, found.get(source, UNREACHED))
        return found

    def sources(self, texts: Texts) -> dict[PeerId, float]:
        """Return the publishers that reach the peer with all relevant ones of these sub-spaces, and their greatest
        delays."""
        if self._state.publisher:
            return {self._state.id: 0.0}
        if len(texts) == 1:
            return self.sources_for(texts[0])
        found: dict[PeerId, float] = {}
        lacking: set[PeerId] = set()
        for dz in texts:
            reaching = self.sources_for(dz)
            for source, delay in reaching.items():
                found[source] = max(delay, found.get(source, 0.0))
            lacking.update(p.peer for p in self._candidates.relevant(dz) if p.peer not in reaching)
        return {source: delay for source, delay in found.items() if source not in lacking}

    def delay(self, texts: Texts) -> float:
        """Return D of these sub-spaces: the greatest delay of a relevant publisher. UNREACHED if one does not reach the
        peer."""
        if self._state.publisher:
            return 0.0
        sources = self.sources(texts)
        if not sources or any(peer not in sources for peer in self._candidates.relevant_ids(texts)):
            return UNREACHED
        return max(sources.values())

    # --- connections ------------------------------------------------------------------------------------------------

    def connect(self, peer: PeerId, dz: Texts, now: float, address: str = "") -> None:
        """Request sub-spaces of a parent. The request replaces its present ones (line 15)."""
        assert dz, "a request names sub-spaces"
        self.requests[peer] = Request(dz, now)
        self._state.counters.connects_sent += 1
        self._state.send(peer, Connect(self._state.profile, dz), address)

    def handle_accept(self, peer: PeerId, accept: Accept, now: float) -> bool:
        """Add an accepted parent (lines 30 to 33). Return False if it is useless by now, and was disconnected."""
        request = self.requests.pop(peer, None)
        if request is None:
            if peer not in self.by_id:
                self._state.send(peer, Disconnect("unasked"))
            return False
        dz = tuple(
            [each for each in accept.dz if each in request.dz and (each in self._state.dz or peer in self.by_id)]
        )
        known = self.by_id.get(peer)
        parent = Parent(accept.profile, dz, known.since if known else now, now, {}, known.link_s if known else None)
        parent.sources = _sources(accept.sources, accept.delays)
        parent.add_round_trip(now - request.sent)
        if not dz or not self._may_stay(parent):
            self.by_id.pop(peer, None)
            self.avoid(peer)
            self._state.send(peer, Disconnect("too late"))
            return False
        self.by_id[peer] = parent
        self.changed = True
        if not parent.profile.publisher:
            self._release(peer, dz, now)
        return True

    def _release(self, new: PeerId, dz: Texts, now: float) -> None:
        """Remove from other subscribers the sub-spaces that the new parent covers (line 33)."""
        for peer, parent in list(self.by_id.items()):
            if peer != new and not parent.profile.publisher:
                self.narrow(peer, uncovered(parent.dz, dz), now)

    def narrow(self, peer: PeerId, dz: Texts, now: float) -> None:
        """Reduce a parent's sub-spaces to `dz`."""
        parent = self.by_id[peer]
        if not dz:
            self.leave(peer, "covered elsewhere")
        elif dz != parent.dz:
            parent.dz = dz
            self.connect(peer, dz, now)

    def leave(self, peer: PeerId, reason: str, *, avoid: bool = False) -> None:
        """Disconnect from a parent."""
        self.requests.pop(peer, None)
        if self.by_id.pop(peer, None) is not None:
            self.changed = True
            self._state.send(peer, Disconnect(reason))
        if avoid:
            self.avoid(peer)

    def lost(self, peer: PeerId) -> None:
        """Remove a parent that is dead or has disconnected."""
        requested = self.requests.pop(peer, None) is not None
        was = self.by_id.pop(peer, None) is not None
        self.changed = self.changed or requested or was
        if was:
            self.avoid(peer)

    def avoid(self, peer: PeerId) -> None:
        """Do not request this peer for some periods."""
        self._candidates.subscribers.pop(peer, None)
        self._avoided[peer] = self._state.period + self._state.settings.avoid_periods

    def avoided(self, peer: PeerId) -> bool:
        """Return whether this peer is avoided now."""
        return peer in self._avoided

    # --- periodic work ----------------------------------------------------------------------------------------------

    def check(self, now: float) -> list[PeerId]:
        """Leave parents that are silent or too late; called once a period. Return the silent ones."""
        state = self._state
        silence_s = state.settings.silence_periods * state.settings.period_s
        self._avoided = {peer: until for peer, until in self._avoided.items() if until > state.period}
        for peer in [peer for peer, request in self.requests.items() if now - request.sent > silence_s]:
            del self.requests[peer]
            self.avoid(peer)
            self._candidates.mark_unresponsive(peer)
        silent = [peer for peer, parent in self.by_id.items() if now - parent.last_seen > silence_s]
        for peer in silent:
            self.leave(peer, "silent", avoid=True)
        for peer in [peer for peer, parent in self.by_id.items() if not self._may_stay(parent)]:
            self.leave(peer, "too late", avoid=True)
        self._prune(now)
        return silent

    def _may_stay(self, parent: Parent) -> bool:
        """Return whether the parent's announced delays fit the bound (2.7)."""
        if parent.profile.publisher:
            return True
        settings = self._state.settings
        return self._state.policies.may_connect.keeps(
            max(parent.sources.values(), default=None),
            self.link_cost(parent),
            self._state.bound,
            waited=parent.last_seen - parent.since,
            patience=settings.patience_periods * settings.period_s,
        )

    def _prune(self, now: float) -> None:
        """Remove double coverage: a publisher need not send what a subscriber forwards (2.4.4)."""
        for peer, parent in list(self.by_id.items()):
            dz = tuple([each for each in parent.dz if not self._covered_elsewhere(peer, parent, each)])
            if len(dz) < len(parent.dz):
                self.narrow(peer, dz, now)

    def _covered_elsewhere(self, peer: PeerId, parent: Parent, dz: str) -> bool:
        if parent.profile.publisher:
            subscriber = self.subscriber_for(dz)
            return subscriber is not None and peer in subscriber.sources
        # A coarsened sub-space stays with its parent until the coarser one is settled without that parent.
        if covers(self._state.dz, dz) and dz not in self._state.dz:
            around = next(each for each in self._state.dz if dz.startswith(each))
            return self.settled(around)
        return not touches(self._state.dz, dz)

    def send_pulses(self, now: float) -> None:
        """Send a keepalive to each parent; called once a period."""
        version = self._state.profile.version
        for peer, parent in self.by_id.items():
            self._pulses += 1
            parent.pending_pulse = (self._pulses, now)
            changed = parent.sent_version != version
            parent.sent_version = version
            self._state.send(peer, Pulse(self._pulses, self._state.profile if changed else None))

    def handle_beat(self, peer: PeerId, beat: Beat, now: float) -> bool:
        """Handle a parent's answer to a keepalive. Return False if the sender is no parent."""
        parent = self.by_id.get(peer)
        if parent is None:
            return peer in self.requests
        parent.last_seen = now
        if beat.number and beat.number == parent.pending_pulse[0]:
            parent.add_round_trip(now - parent.pending_pulse[1])
        before, parent.sources = parent.sources, _sources(beat.sources, beat.delays)
        self.changed = self.changed or before.keys() != parent.sources.keys()
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
